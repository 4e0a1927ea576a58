//go:build linux && kernel

package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/tables"
	"github.com/pod2/pod2/pkg/agent/veth"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bpffs is a directory for pinned maps.
func bpffs(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bpf")
	must(t, os.Mkdir(dir, 0o700))
	must(t, unix.Mount("bpf", dir, "bpf", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// statusNode is a node with pod default/a, which sent one packet for an address that nobody has. Its pod b is on another
// node. The test's thread is in the node's namespace and ends with the test. It returns the directory of the maps.
func statusNode(t *testing.T) (dir string, port veth.Port) {
	t.Helper()
	runtime.LockOSThread()
	dir = bpffs(t)
	podNS, err := netns.New()
	must(t, err)
	pod := os.NewFile(uintptr(podNS), "pod")
	t.Cleanup(func() { _ = pod.Close() })
	nodeNS, err := netns.New()
	must(t, err)
	t.Cleanup(func() { _ = nodeNS.Close() })

	p, err := bpf.Load(dir)
	must(t, err)
	t.Cleanup(p.Close)
	vxlan, err := bpf.MakeVXLAN("pod2vxlan", 4789)
	must(t, err)
	pair := veth.Pair{Owner: veth.Owner{ID: cni.ID{ContainerID: "5b0c", Interface: "net1"}, Network: "default.blue", PodUID: "8f31", PodName: "a"},
		MAC: dataplane.MAC{0x0a, 0x58, 192, 168, 0, 2}, MTU: 1450, Address: netip.MustParsePrefix("192.168.0.2/24")}
	port, err = veth.Add(pair, pod)
	must(t, err)
	node, other := netip.MustParseAddr("10.9.0.2"), dataplane.MAC{0x0a, 0x58, 192, 168, 0, 3}
	must(t, p.AttachPort(port.Index))
	must(t, p.SetConfig(tables.Config{Local: netip.MustParseAddr("10.9.0.1"), VXLAN: uint32(vxlan), UDPPort: 4789}))
	ip, index := tables.AddressOf(pair.Address.Addr()), uint32(port.Index)
	at := func(mac dataplane.MAC) tables.Key {
		return tables.Key{Map: tables.PlaceMap, Place: tables.PlaceKey{VNI: 70001, MAC: mac}}
	}
	for _, c := range []tables.Change{
		{Key: tables.Key{Map: tables.NodeMap, Address: node}, Value: tables.Wire{Interface: uint32(vxlan)}},
		{Key: tables.Key{Map: tables.NetworkMap, VNI: 70001}, Value: tables.NetworkOf(&dataplane.Network{VNI: 70001, MTU: 1450, CIDR: pair.Address.Masked(), Gateway: netip.MustParseAddr("192.168.0.1")})},
		{Key: tables.Key{Map: tables.PortMap, Port: index}, Value: tables.Port{VNI: 70001, MAC: pair.MAC, IP: ip}},
		{Key: at(pair.MAC), Value: tables.Place{IP: ip, Interface: index}},
		{Key: at(other), Value: tables.Place{IP: tables.AddressOf(netip.MustParseAddr("192.168.0.3")), Node: tables.AddressOf(node)}},
	} {
		must(t, p.Write(c))
	}
	must(t, errors.Join(veth.Up(port), veth.Ready(port, pod)))
	must(t, netns.Set(podNS))
	must(t, sendRaw())
	must(t, netns.Set(nodeNS))
	for range 500 {
		if drops, err := p.Drops(); err == nil && drops[bpf.Drop{VNI: 70001, Interface: uint32(port.Index), Reason: "unknown"}] == 1 {
			return dir, port
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the packet was not dropped within 5 seconds")
	return "", port
}

// sendRaw sends one ARP request for 192.168.0.9 from net1.
func sendRaw() error {
	l, err := netlink.LinkByName("net1")
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	frame := []byte{255, 255, 255, 255, 255, 255, 0x0a, 0x58, 192, 168, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 0x0a, 0x58, 192, 168, 0, 2, 192, 168, 0, 2, 0, 0, 0, 0, 0, 0, 192, 168, 0, 9}
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Halen: 6})
}

// The listings show the maps, and the pod that owns the interface.
func TestStatusReadsTheKernel(t *testing.T) {
	dir, port := statusNode(t)
	got := ""
	for _, table := range []string{"", "ports", "places", "networks", "nodes", "drops"} {
		var out strings.Builder
		must(t, status(&out, dir, table))
		for line := range strings.Lines(out.String()) {
			// The kernel of the pod sends multicast when it pleases.
			if !strings.Contains(line, "multicast") && !strings.HasPrefix(line, "Dropped packets:") {
				got += strings.Join(strings.Fields(line), " ") + "\n"
			}
		}
	}
	want := fmt.Sprintf(`Address of VXLAN packets: 10.9.0.1
UDP port of VXLAN packets: 4789
VXLAN device: pod2vxlan
Gateway to the outside: -
Networks: 1
Ports: 1 open, 0 closed
Places: 1 on this node, 1 on other nodes
Nodes: 1
INTERFACE INDEX VNI NETWORK ADDRESS MAC TRANSIT POD POD UID IN POD STATE
pod247a35d2cb39 %d 70001 default/blue 192.168.0.2 0a:58:c0:a8:00:02 - default/a 8f31 net1 open
VNI ADDRESS MAC WHERE
70001 192.168.0.2 0a:58:c0:a8:00:02 interface pod247a35d2cb39 of pod default/a
70001 192.168.0.3 0a:58:c0:a8:00:03 node 10.9.0.2
VNI NETWORK MTU GATEWAY GATEWAY MAC EGRESS PLACES
70001 default/blue 1450 192.168.0.1 02:00:5e:01:11:71 None 2
NODE INTERFACE PLACES
10.9.0.2 pod2vxlan 1
PACKETS REASON VNI INTERFACE POD MEANING
1 unknown 70001 pod247a35d2cb39 default/a for an address that nobody has here, or a node that is not in the table of nodes
`, port.Index)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A pod is found by its name, and its packet is followed to the node of the receiver.
func TestTraceReadsTheKernel(t *testing.T) {
	dir, _ := statusNode(t)
	var out strings.Builder
	must(t, trace(&out, dir, "default/a", "192.168.0.3"))
	const want = "Sent by interface pod2vxlan: VXLAN with VNI 70001 from 10.9.0.1 to 10.9.0.2, UDP port 4789.\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("got\n%s\nwant at its end\n%s", out.String(), want)
	}
}

// Without the right to read nftables, all else is printed. It is an error only if the rules belong to the answer.
func TestStatusWithoutRules(t *testing.T) {
	dir, _ := statusNode(t)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	must(t, unix.Capget(&header, &sets[0]))
	sets[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	must(t, unix.Capset(&header, &sets[0])) // of this thread, which ends with the test
	print := func(table string) func(io.Writer) error {
		return func(out io.Writer) error { return status(out, dir, table) }
	}
	for _, tt := range []struct {
		name  string
		print func(io.Writer) error
		want  string
		rules bool
	}{
		{"the summary", print(""), "rules of the node not read", true},
		{"drops", print("drops"), "for an address that nobody has here", true},
		{"ports", print("ports"), "default/a", false},
		{"a trace to another node", func(out io.Writer) error { return trace(out, dir, "default/a", "192.168.0.3") }, "Sent by interface pod2vxlan", false},
	} {
		var out strings.Builder
		err := tt.print(&out)
		if !strings.Contains(out.String(), tt.want) || errors.Is(err, unix.EPERM) != tt.rules || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%s: %v\n%s", tt.name, err, out.String())
		}
	}
}

// The kernel says which addresses are the node's own, and which it has no route to.
func TestExitReadsTheKernel(t *testing.T) {
	runtime.LockOSThread()
	ns, err := netns.New()
	must(t, err)
	t.Cleanup(func() { _ = ns.Close() })
	must(t, netlink.LinkSetUp(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: 1}}))
	s := &snapshot{}
	if got := fmt.Sprint(s.exit(netip.MustParseAddr("127.0.0.2")), s.exit(netip.MustParseAddr("9.9.9.9"))); got != "{1 true [] false} {0 false [] false}" {
		t.Error(got)
	}
}

// The tables are there while no agent runs.
func TestStatusWhileTheAgentIsStopped(t *testing.T) {
	dir := bpffs(t)
	p, err := bpf.Load(dir)
	must(t, err)
	must(t, p.Write(tables.Change{Key: tables.Key{Map: tables.NodeMap, Address: netip.MustParseAddr("10.9.0.2")}, Value: tables.Wire{Interface: 1}}))
	p.Close()
	var out strings.Builder
	must(t, status(&out, dir, "nodes"))
	if !strings.Contains(out.String(), "10.9.0.2") {
		t.Error(out.String())
	}
}
