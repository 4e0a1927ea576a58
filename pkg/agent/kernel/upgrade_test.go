//go:build linux && kernel

package kernel

import (
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// differ adds a rule without effect to each of the agent's tables in this namespace, as an
// older version might have had.
func differ() error {
	return eachTable(func(conn *nftables.Conn, table *nftables.Table, chains []*nftables.Chain) error {
		conn.InsertRule(&nftables.Rule{Table: table, Chain: chains[0], Exprs: []expr.Any{&expr.Counter{}}})
		return conn.Flush()
	})
}

// stream sends a numbered packet each millisecond to an address that answers. The returned
// function ends it and says how many came back.
func (c *cluster) stream(from string, ip netip.Addr) (end func() (sent, back int)) {
	c.Helper()
	conn, err := c.dial(from, "udp", netip.AddrPortFrom(ip, 7).String(), nil)
	must(c, err)
	stop, stopped, heard := make(chan struct{}), make(chan int), make(chan int)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				stopped <- n
				return
			case <-tick.C:
				_, _ = conn.Write([]byte(strconv.Itoa(n)))
			}
		}
	}()
	go func() {
		b, numbers := make([]byte, 100), map[int]bool{}
		for {
			size, err := conn.Read(b)
			if err != nil {
				heard <- len(numbers)
				return
			}
			if n, err := strconv.Atoi(string(b[:size])); err == nil {
				numbers[n] = true
			}
		}
	}()
	return func() (int, int) {
		close(stop)
		sent := <-stopped
		_ = conn.SetReadDeadline(time.Now().Add(silence)) // for the last packet too
		return sent, <-heard
	}
}

// An agent with other rules than the one before replaces tables. No packet is lost and no
// connection breaks: neither between pods of two nodes, nor through router and NAT to the world.
func TestUpgradeMovesNoPacket(t *testing.T) {
	c, blue, _ := twoByTwo(t)
	n := c.nodes[0]
	c.echo("world", "world")
	world := ipv4.world()
	blue[0].reaches(world, "world")
	blue[0].reaches(blue[1].ip, "blue2")
	var conns []net.Conn
	for _, ip := range []netip.Addr{blue[1].ip, world} {
		conn, err := c.dial(blue[0].name, "tcp", netip.AddrPortFrom(ip, 7).String(), nil)
		must(t, err)
		conns = append(conns, conn)
	}
	toPod, toWorld := c.stream(blue[0].name, blue[1].ip), c.stream(blue[0].name, world)
	const times = 20
	for range times {
		for _, namespace := range []string{"node1", "netns-node1/pod2-1001"} {
			var err error
			c.in(namespace, func() { err = differ() })
			must(t, err)
		}
		const want = 3
		if plan := n.decide(n.kernel); len(plan) != want {
			t.Fatalf("to be done:\n%s", plan)
		}
		n.sync()
	}
	for name, end := range map[string]func() (int, int){"to the other pod": toPod, "to the world": toWorld} {
		if sent, back := end(); sent != back || sent < times {
			t.Errorf("%s: %d packets sent while tables were replaced %d times, %d came back", name, sent, times, back)
		}
	}
	expectEcho(t, conns[0], "blue2 192.168.0.2")
	expectEcho(t, conns[1], "world 10.9.0.1")
}
