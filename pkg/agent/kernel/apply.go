//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
	"github.com/pod2/pod2/pkg/agent/sysctl"
)

// Kernel is the kernel of one node.
type Kernel struct {
	dir string // of network namespaces: each is mounted on a file with its name

	mu sync.Mutex
	// past are the packets that rules of replaced tables dropped.
	past map[string]uint64
}

// New returns the kernel of the node. dir holds the namespaces of pods: container runtimes keep them in /run/netns.
func New(dir string) *Kernel {
	nl.EnableErrorMessageReporting = true // with the kernel's own text
	return &Kernel{dir: dir, past: map[string]uint64{}}
}

// worker does steps until one fails.
type worker struct {
	done dataplane.Plan
	err  error
}

// do a step that is needed. text is the command that does the same.
func (w *worker) do(needed bool, kind, text string, step func() error) {
	if !needed || w.err != nil {
		return
	}
	if err := step(); err != nil {
		w.err = fmt.Errorf("%s: %w", text, err)
		return
	}
	w.done = append(w.done, dataplane.Step{Kind: kind, Text: text})
}

// Apply brings the kernel to the desired state, and returns the steps that were done. The filter comes before
// each path that it closes, and after routers of an earlier agent, which need that agent's filter.
func (k *Kernel) Apply(want dataplane.Host) (dataplane.Plan, error) {
	w := &worker{}
	w.removeLeftovers(k.dir)
	w.table(k, want.Table)
	w.gateway(want.Transits)
	return w.done, w.err
}

// Remove everything that Apply makes, and perhaps the things of earlier agents. It keeps sysctls. The table has the same
// name in all versions, so it stays with the things of earlier ones.
func (k *Kernel) Remove(earlierToo bool) (dataplane.Plan, error) {
	w := &worker{}
	if earlierToo {
		w.removeLeftovers(k.dir)
	}
	for _, name := range []string{dataplane.GatewayName, dataplane.GatewayPeer} {
		link, err := iface.ByName(name)
		w.err = errors.Join(w.err, err)
		w.do(link != nil, dataplane.KindLink, "ip link del "+name, func() error { return netlink.LinkDel(link) })
	}
	if earlierToo {
		w.removeTables(true)
	}
	return w.done, w.err
}

// gateway makes the pair of interfaces, and leads the transit addresses to it. Neither end has an address, and neither
// asks for neighbours. The MTU allows every packet: the end of the pair in which the programs are passes them on.
func (w *worker) gateway(transits []netip.Prefix) {
	const name, peer, mtu = dataplane.GatewayName, dataplane.GatewayPeer, 65535
	ends := [2]netlink.Link{}
	for i, end := range []string{name, peer} {
		link, err := iface.ByName(end)
		if ends[i] = link; err != nil {
			w.err = errors.Join(w.err, err)
			return
		}
	}
	mac := net.HardwareAddr(dataplane.NodeMAC[:])
	if !isPair(ends) {
		for i, end := range []string{name, peer} {
			w.do(ends[i] != nil, dataplane.KindLink, "ip link del "+end, func() error {
				if err := netlink.LinkDel(ends[i]); !errors.Is(err, unix.ENODEV) { // it went with its other end
					return err
				}
				return nil
			})
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = name, mtu, mac
		w.do(true, dataplane.KindLink, fmt.Sprintf("ip link add %s mtu %d address %s type veth peer name %s mtu %[2]d", name, mtu, mac, peer), func() (err error) {
			if err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer, PeerMTU: mtu}); err != nil {
				return err
			}
			for i, end := range []string{name, peer} {
				if ends[i], err = netlink.LinkByName(end); err == nil {
					err = netlink.LinkSetIP6AddrGenMode(ends[i], 1 /* IN6_ADDR_GEN_MODE_NONE */)
				}
				if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) { // a kernel without IPv6
					return err
				}
			}
			return nil
		})
	}
	if w.err != nil {
		return
	}
	node := ends[0].Attrs()
	w.do(node.HardwareAddr.String() != mac.String(), dataplane.KindLink, fmt.Sprintf("ip link set %s address %s", name, mac), func() error { return netlink.LinkSetHardwareAddr(ends[0], mac) })
	w.do(node.RawFlags&unix.IFF_NOARP == 0, dataplane.KindLink, "ip link set "+name+" arp off", func() error { return netlink.LinkSetARPOff(ends[0]) })
	for i, end := range []string{name, peer} {
		is := ends[i].Attrs()
		w.do(is.MTU != mtu, dataplane.KindLink, fmt.Sprintf("ip link set %s mtu %d", end, mtu), func() error { return netlink.LinkSetMTU(ends[i], mtu) })
		w.do(is.MasterIndex != 0, dataplane.KindLink, "ip link set "+end+" nomaster", func() error { return netlink.LinkSetNoMaster(ends[i]) })
		w.do(is.RawFlags&unix.IFF_UP == 0, dataplane.KindLink, "ip link set "+end+" up", func() error { return netlink.LinkSetUp(ends[i]) })
	}
	for _, transit := range transits {
		w.route(node.Index, transit)
	}
}

// isPair says whether the interfaces are the two ends of one veth.
func isPair(ends [2]netlink.Link) bool {
	return ends[0] != nil && ends[1] != nil && ends[0].Type() == "veth" && ends[1].Type() == "veth" &&
		ends[0].Attrs().ParentIndex == ends[1].Attrs().Index && ends[1].Attrs().ParentIndex == ends[0].Attrs().Index
}

// route the transit addresses of a family, and let the node forward packets of this family. It removes the route of an
// agent with another --transit-cidr: another program may want these addresses now.
func (w *worker) route(index int, transit netip.Prefix) {
	forwarding, family, ip := "net/ipv4/ip_forward", netlink.FAMILY_V4, "ip"
	if transit.Addr().Is6() {
		forwarding, family, ip = "net/ipv6/conf/all/forwarding", netlink.FAMILY_V6, "ip -6"
	}
	w.sysctl(forwarding, "1")
	if transit.Addr().Is6() { // without it, a node that has turned IPv6 off takes neither the route nor packets
		w.sysctl("net/ipv6/conf/"+dataplane.GatewayName+"/disable_ipv6", "0")
	}
	route := &netlink.Route{LinkIndex: index, Dst: iface.IPNet(transit), Protocol: unix.RTPROT_STATIC, Table: unix.RT_TABLE_MAIN}
	if transit.Addr().Is4() {
		route.Scope = netlink.SCOPE_LINK
	}
	all, err := netlink.RouteListFiltered(family, &netlink.Route{Table: route.Table}, netlink.RT_FILTER_TABLE)
	if err != nil {
		w.err = errors.Join(w.err, fmt.Errorf("find the route to %s: %w", transit, err))
	}
	var found, former []netlink.Route
	for _, r := range all {
		own := r.LinkIndex == index
		switch {
		case !overlaps(r.Dst, transit):
			if own && r.Protocol == unix.RTPROT_STATIC && iface.Prefix(r.Dst).Bits() > 0 {
				former = append(former, r)
			}
		case own:
			found = append(found, r)
		default:
			w.err = errors.Join(w.err, fmt.Errorf("lead %s to %s: the node has a route to %s by interface %d, which is not the agent's: choose another --transit-cidr", transit, dataplane.GatewayName, r.Dst, r.LinkIndex))
			return
		}
	}
	there := len(found) == 1 && found[0].Dst.String() == transit.String() && found[0].Gw == nil && found[0].Via == nil && found[0].Type == unix.RTN_UNICAST
	del := func(r netlink.Route) error {
		if err := netlink.RouteDel(&r); !errors.Is(err, unix.ESRCH) { // somebody removed it meanwhile
			return err
		}
		return nil
	}
	w.do(!there, dataplane.KindRoute, fmt.Sprintf("%s route replace %s dev %s", ip, transit, dataplane.GatewayName), func() error {
		for _, r := range found { // replace would leave routes with other metrics, and add to one of IPv6 that leads elsewhere
			if err := del(r); err != nil {
				return err
			}
		}
		return netlink.RouteReplace(route)
	})
	for _, r := range former {
		w.do(true, dataplane.KindRoute, fmt.Sprintf("%s route del %s dev %s", ip, r.Dst, dataplane.GatewayName), func() error { return del(r) })
	}
}

// sysctl of the node gets a value. On a kernel without the sysctl, the step fails.
func (w *worker) sysctl(path, want string) {
	name := strings.ReplaceAll(path, "/", ".")
	value, err := sysctl.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.err = errors.Join(w.err, fmt.Errorf("read sysctl %s: %w", name, err))
	}
	w.do(value != want, dataplane.KindSysctl, "sysctl -w "+name+"="+want, func() error { return sysctl.Write(path, want) })
}

// overlaps says whether a route, apart from the default route, is for some of the addresses.
func overlaps(dst *net.IPNet, p netip.Prefix) bool {
	to := iface.Prefix(dst)
	return to.Bits() > 0 && to.Overlaps(p)
}

// Bridges are those of an earlier agent that have ports of pods, in order. These pods keep their paths if nothing
// of that agent changes.
func (*Kernel) Bridges() ([]string, error) {
	links, err := iface.List()
	if err != nil {
		return nil, err
	}
	names, bridges := map[int]string{}, []string(nil)
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, l := range links {
		if master := names[l.Attrs().MasterIndex]; dataplane.IsBridge(master) && !dataplane.IsLeftover(l.Attrs().Name) {
			bridges = append(bridges, master)
		}
	}
	return sorted(bridges), nil
}

// removeLeftovers of earlier agents: bridges, VXLAN devices, routers, and tables of other families.
func (w *worker) removeLeftovers(dir string) {
	links, err := iface.List()
	w.err = errors.Join(w.err, err)
	var names []string
	for _, l := range links {
		if dataplane.IsLeftover(l.Attrs().Name) {
			names = append(names, l.Attrs().Name)
		}
	}
	for _, name := range sorted(names) {
		link, err := iface.ByName(name) // it may have gone with its other end
		w.err = errors.Join(w.err, err)
		w.do(link != nil, dataplane.KindLink, "ip link del "+name, func() error { return netlink.LinkDel(link) })
	}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.err = errors.Join(w.err, fmt.Errorf("list the network namespaces: %w", err))
	}
	for _, f := range files {
		w.do(dataplane.IsRouter(f.Name()), dataplane.KindLink, "ip netns del "+f.Name(), func() error {
			path := filepath.Join(dir, f.Name())
			if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				return err
			}
			return os.Remove(path)
		})
	}
	w.removeTables(false)
}
