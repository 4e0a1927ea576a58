//go:build linux && kernel

package node

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/cni"
)

// These tests are not parallel: a packet may be late on a busy machine, and none may be lost.

// stream sends a numbered packet each millisecond to an address that answers. The returned
// function ends it and says how many came back.
func (l *lab) stream(from string, ip netip.Addr) (end func() (sent, came int)) {
	l.Helper()
	conn, err := l.dial(from, "udp", netip.AddrPortFrom(ip, 7).String(), nil)
	must(l, err)
	must(l, conn.(*net.UDPConn).SetReadBuffer(4<<20)) // for the answers of a second
	stop, stopped := make(chan struct{}), make(chan int)
	var back atomic.Int64
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
				return
			}
			if n, err := strconv.Atoi(string(b[:size])); err == nil {
				numbers[n] = true
				back.Store(int64(len(numbers)))
			}
		}
	}()
	return func() (int, int) {
		close(stop)
		sent := <-stopped
		for end := time.Now().Add(patience); back.Load() < int64(sent) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		return sent, int(back.Load())
	}
}

// uninterrupted expects that no packet is lost and no connection breaks while f runs: neither
// between pods of one node or of two, nor through NAT to the world.
func uninterrupted(t *testing.T, f func(*labNode)) {
	t.Helper()
	l, blue, _ := twoByTwo(t)
	beside := l.nodes[0].pod("beside", blue[0].network, "192.168.0.9")
	l.attach(beside)
	l.echo("world", "world")
	type path struct {
		name string
		to   netip.Addr
		want string
	}
	paths := []path{{"on its node", beside.ip, "beside 192.168.0.2"}, {"to another node", blue[1].ip, "blue2 192.168.0.2"}, {"to the world", ipv4.world(), "world 10.9.0.1"}}
	var conns []net.Conn
	var ends []func() (int, int)
	for _, p := range paths {
		l.answer("blue1", p.to, patience)
		conn, err := l.dial("blue1", "tcp", netip.AddrPortFrom(p.to, 7).String(), nil)
		must(t, err)
		conns, ends = append(conns, conn), append(ends, l.stream("blue1", p.to))
	}
	f(l.nodes[0])
	for i, end := range ends {
		if sent, back := end(); sent != back || sent < 10 {
			t.Errorf("%s: %d packets sent, %d came back; drops: %s", paths[i].name, sent, back, l.allDrops())
		}
		expectEcho(t, conns[i], paths[i].want)
	}
}

// A new agent replaces the programs, and keeps their entries.
func TestRestartLosesNoPacket(t *testing.T) {
	uninterrupted(t, func(n *labNode) {
		for range 5 {
			n.stop()
			n.start()
			n.tell()
			if steps, changes := n.step(true); steps != "" || changes > 0 {
				t.Errorf("%d entries differed, and\n%s", changes, steps)
			}
		}
	})
}

// An agent with other rules replaces the table. No packet through NAT is lost, and no connection breaks.
func TestAnotherTableLosesNoPacket(t *testing.T) {
	uninterrupted(t, func(n *labNode) {
		for i := range 20 {
			n.state.Denied = []netip.Prefix{netip.PrefixFrom(addr("203.0.113.1"), 12+i)}
			if steps, _ := n.step(false); steps != "nft replace table inet pod2\n" {
				t.Errorf("steps:\n%s", steps)
			}
		}
	})
}

// A new agent with another layout of maps: those of the old one serve until the programs are
// replaced, and are gone then.
func TestAnotherLayoutLosesNoPacket(t *testing.T) {
	uninterrupted(t, func(n *labNode) {
		n.stop()
		must(t, os.Rename(filepath.Join(n.bpf, "v2"), filepath.Join(n.bpf, "v0")))
		n.start()
		n.sync()
		if _, err := os.Stat(filepath.Join(n.bpf, "v0")); !os.IsNotExist(err) {
			t.Errorf("the other layout's maps: %v", err)
		}
	})
}

// The first sync of an agent with another layout fails in the middle, and an older version
// continues. Some ports have the programs of one, some those of the other.
func TestBackToTheEarlierLayout(t *testing.T) {
	uninterrupted(t, func(n *labNode) {
		v0, v1 := filepath.Join(n.bpf, "v0"), filepath.Join(n.bpf, "v2")
		n.stop()
		must(t, os.Rename(v1, v0))
		n.start()
		n.tell()
		green := cni.ID{ContainerID: "c-green1", Interface: "net1"}.HostInterface()
		n.in(n.name, func() error { return occupied(green) })
		if err := in(n.namespaces[n.name], func() error { _, _, err := n.node.Sync(true); return err }); err == nil {
			t.Error("the sync did not fail")
		}
		n.stop()
		must(t, os.RemoveAll(v1)) // the kernel keeps the maps for the programs
		must(t, os.Rename(v0, v1))
		n.in(n.name, func() error { return removePrograms(n.link(green)) })
		n.start()
		n.sync()
	})
}

// occupied gives an interface a filter of another program in the place of the agent's.
func occupied(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := removePrograms(link); err != nil {
		return err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "MIT", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		return err
	}
	defer program.Close()
	const ours = 0x706f
	return netlink.FilterAdd(&netlink.BpfFilter{Fd: program.FD(), Name: "other",
		FilterAttrs: netlink.FilterAttrs{LinkIndex: link.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS, Priority: ours, Protocol: unix.ETH_P_IP}})
}

// The first Sync fails before it is complete, and the next one continues.
func TestFirstSyncFails(t *testing.T) {
	l, blue, _ := twoByTwo(t)
	n := l.nodes[0]
	n.stop()
	n.start()
	n.tell()
	other := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "other"}, VxlanId: 7, Port: int(l.state.UDPPort)}
	n.in(n.name, func() error { return netlink.LinkAdd(other) })
	if err := in(l.namespaces[n.name], func() error { _, _, err := n.node.Sync(true); return err }); err == nil {
		t.Fatal("it did not fail: another device has the UDP port")
	}
	n.in(n.name, func() error { return netlink.LinkDel(other) })
	if err := n.node.Ready(); err == nil {
		t.Error("the node is ready")
	}
	blue[0].reaches(blue[1].ip, "blue2")
	n.step(false)
	must(t, n.node.Ready())
	blue[0].reaches(blue[1].ip, "blue2")
}

// After a reboot there are no maps and no ports.
func TestReboot(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a", "b")
	for _, p := range pods {
		p.attach()
	}
	n.stop()
	for _, p := range pods {
		p.vanish()
	}
	must(t, os.RemoveAll(n.bpf))
	n.start()
	n.sync()
	n.expect("")
	for _, p := range pods {
		p.attachAgain()
	}
	pods[0].reaches(pods[1].ip, "b")
}

// Requests before the first Sync change nothing that it does not see.
func TestDelBeforeFirstSync(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a", "b")
	for _, p := range pods {
		p.attach()
	}
	n.stop()
	n.start()
	n.del(pods[0].attachment())
	n.in(n.name, func() error { return n.node.GC(t.Context(), "default.blue", []cni.ID{}) })
	n.sync()
	n.expect("")
}

// The pair of interfaces to the node is missing. This is an error, but pods reach each other, and the node serves pods.
func TestGatewayIsMissing(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	n := l.nodes[0]
	n.stop()
	n.start()
	n.tell()
	n.in(n.name, func() error { return netlink.LinkDel(n.link("pod2gw")) })
	err := in(l.namespaces[n.name], func() error { _, _, err := n.node.Sync(true); return err })
	if err == nil || !strings.Contains(err.Error(), "find the interface pod2gw") {
		t.Errorf("got %v", err)
	}
	must(t, n.node.Ready())
	blue[0].reaches(blue[1].ip, "blue2")
	blue[0].reaches(ipv4.world(), "")
	l.echo("world", "world")
	n.step(false)
	blue[0].reaches(ipv4.world(), "world")
}

// The entry of a place cannot be written. The port of a pod that is gone is closed all the same.
func TestPortIsClosedDespiteAnError(t *testing.T) {
	t.Parallel()
	l, blue, _ := twoByTwo(t)
	n := l.nodes[0]
	places, err := ebpf.LoadPinnedMap(filepath.Join(n.bpf, "v2", "places"), nil)
	must(t, err)
	defer places.Close()
	must(t, places.Freeze())
	gone := blue[0].record()
	n.event(func() { n.node.DeletePod(gone.Namespace, gone.Name, gone.UID) })
	if err := in(l.namespaces[n.name], func() error { _, _, err := n.node.Sync(true); return err }); err == nil {
		t.Error("no error: the map takes no change")
	}
	if got := n.entries(); strings.Contains(got, "port blue1") || !strings.Contains(got, "place "+blue[0].ip.String()) {
		t.Errorf("the maps have\n%s", got)
	}
}
