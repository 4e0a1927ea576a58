//go:build linux && kernel

package kernel

import (
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
func (l *lab) stream(from string, ip netip.Addr) (end func() (sent, back int)) {
	l.Helper()
	conn, err := l.dial(from, "udp", netip.AddrPortFrom(ip, 7).String(), nil)
	must(l, err)
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

// An agent with other rules than the one before replaces tables. No packet through router
// and NAT is lost, and no connection breaks.
func TestUpgradeMovesNoPacket(t *testing.T) {
	l, blue, _ := ipv4.twoNetworks(t)
	world := ipv4.world()
	blue.reaches(world, "world")
	conn, err := l.dial(blue.name, "tcp", netip.AddrPortFrom(world, 7).String(), nil)
	must(t, err)
	end := l.stream(blue.name, world)
	const times = 20
	for range times {
		for _, namespace := range []string{"node1", "netns-node1/pod2-1001"} {
			var err error
			l.in(namespace, func() { err = differ() })
			must(t, err)
		}
		plan, _ := l.decide()
		if len(plan) != 2 {
			t.Fatalf("to be done:\n%s", plan)
		}
		if _, err := l.kernel.Perform(plan); err != nil {
			t.Fatal(err)
		}
	}
	if sent, back := end(); sent != back || sent < times {
		t.Errorf("%d packets sent while tables were replaced %d times, %d came back", sent, times, back)
	}
	expectEcho(t, conn, "world 10.9.0.1")
}
