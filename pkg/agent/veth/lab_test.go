//go:build linux && kernel

package veth

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
)

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Println("needs root: FAIL")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// namespace returns a new one, in which the test's thread is afterwards.
func namespace(t *testing.T) *os.File {
	t.Helper()
	ns, err := netns.New()
	must(t, err)
	f := os.NewFile(uintptr(ns), "namespace")
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// lab has a pod's namespace. The test's thread is in that of the node, and ends with the test.
type lab struct {
	*testing.T
	pod *os.File
}

func newLab(t *testing.T) lab {
	t.Helper()
	runtime.LockOSThread()
	pod := namespace(t)
	namespace(t)
	return lab{t, pod}
}

// inPod runs f in the pod.
func (l lab) inPod(f func() error) {
	l.Helper()
	must(l, iface.Inside(netns.NsHandle(l.pod.Fd()), f))
}

var blue = Pair{
	Owner: Owner{ID: cni.ID{ContainerID: "5b0c", Interface: "net1"}, Network: "default.blue", PodUID: "8f31", PodName: "a"},
	MAC:   dataplane.MAC{0x0a, 0x58, 192, 168, 0, 2}, MTU: 1450, Address: netip.MustParsePrefix("192.168.0.2/24"),
	Routes: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/23")},
}

func v6() Pair {
	p := blue
	p.Address, p.Routes = netip.MustParsePrefix("fd00:10::2/64"), []netip.Prefix{netip.MustParsePrefix("fd00:10::/60")}
	return p
}

const whole = `node pod247a35d2cb39 veth 1450 down "default.blue 8f31 net1 5b0c a"
pod net1 veth 0a:58:c0:a8:00:02 1450 up 192.168.0.2/24
pod route 192.168.0.0/23 dev net1 src 192.168.0.2
pod route 192.168.0.0/24 dev net1 src 192.168.0.2
`

// dump both namespaces, without loopbacks and the pod's link-local addresses.
func (l lab) dump() string {
	l.Helper()
	text := strings.Join(lines(l, "node", func(i *netlink.LinkAttrs) string { return fmt.Sprintf("%d %s %q", i.MTU, upText(i), i.Alias) }), "")
	l.inPod(func() error {
		text += strings.Join(lines(l, "pod", func(i *netlink.LinkAttrs) string { return fmt.Sprintf("%s %d %s", i.HardwareAddr, i.MTU, upText(i)) }), "")
		routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
		slices.SortFunc(routes, func(a, b netlink.Route) int {
			return cmp.Compare(a.Dst.String(), b.Dst.String())
		})
		for _, r := range routes {
			if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil && !r.Dst.IP.IsLinkLocalUnicast() && !r.Dst.IP.IsMulticast() {
				text += fmt.Sprintf("pod route %s dev %s", iface.Prefix(r.Dst), link.Attrs().Name)
				if r.Src != nil {
					text += " src " + r.Src.String()
				}
				text += "\n"
			}
		}
		return err
	})
	return text
}

func upText(i *netlink.LinkAttrs) string {
	if i.Flags&net.FlagUp != 0 {
		return "up"
	}
	return "down"
}

func lines(t testing.TB, where string, more func(*netlink.LinkAttrs) string) []string {
	links, err := netlink.LinkList()
	if err != nil {
		t.Error(err)
	}
	var text []string
	for _, link := range links {
		is := link.Attrs()
		if is.Flags&net.FlagLoopback != 0 || is.HardwareAddr == nil || len(is.HardwareAddr) != 6 {
			continue // also the kernel's own tunnels
		}
		line := where + " " + is.Name + " " + link.Type() + " " + more(is)
		addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			t.Error(err)
		}
		for _, a := range addresses {
			if where == "node" || !a.IP.IsLinkLocalUnicast() {
				line += " " + iface.Prefix(a.IPNet).String()
			}
		}
		text = append(text, line+"\n")
	}
	slices.Sort(text)
	return text
}

func (l lab) isWhole(name string, p Port) {
	l.Helper()
	if got := l.dump(); got != whole || p.Owner != blue.Owner || p.Name != blue.HostInterface() || p.Up {
		l.Errorf("%s: got %+v\n%swant\n%s", name, p, got, whole)
	}
}

// waitFor the kernel, which removes namespaces in the background.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for range 500 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("still not done after 5 seconds")
}
