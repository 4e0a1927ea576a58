//go:build linux

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
)

// AddPodRoutes adds the missing routes of ports that have a Route, and returns the steps that were done. A failure in
// one pod does not stop the next.
func (k *Kernel) AddPodRoutes(ports []dataplane.Port) (done dataplane.Plan, failed []error) {
	for _, p := range ports {
		if !p.Route.IsValid() { // it would become the pod's default route
			continue
		}
		namespace, ns, err := k.behind(int(p.Interface))
		if err == nil {
			w := &worker{}
			err = iface.Inside(ns, func() error { w.podRoute(namespace, p); return w.err })
			done = append(done, w.done...)
			_ = ns.Close()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("pod %s: it has no route to %s: %w", p.Pod, p.Route, err))
		}
	}
	return done, failed
}

// podRoute adds the route in the pod. It does nothing if the interface is down, or already has a route to that
// destination, whichever program made it. An interface without the pod's MAC address and IP address is an error.
func (w *worker) podRoute(namespace string, p dataplane.Port) {
	link, err := netlink.LinkByName(p.Inner)
	if err != nil {
		w.err = fmt.Errorf("%s: %w", p.Inner, err)
		return
	}
	family, ip := netlink.FAMILY_V4, "ip -n "+namespace
	if p.IP.Is6() {
		family, ip = netlink.FAMILY_V6, ip+" -6"
	}
	addresses, err := netlink.AddrList(link, family)
	if err != nil {
		w.err = fmt.Errorf("addresses: %w", err)
		return
	}
	has := slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.IP.Equal(p.IP.AsSlice()) })
	if !has || !bytes.Equal(link.Attrs().HardwareAddr, p.MAC[:]) {
		w.err = fmt.Errorf("%s does not have the MAC address %s and the address %s", p.Inner, p.MAC, p.IP)
		return
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: iface.IPNet(p.Route), Protocol: unix.RTPROT_STATIC, Scope: netlink.SCOPE_LINK, Table: unix.RT_TABLE_MAIN}
	found, err := netlink.RouteListFiltered(family, route, netlink.RT_FILTER_OIF|netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
	if err != nil {
		w.err = fmt.Errorf("routes: %w", err)
		return
	}
	text := fmt.Sprintf("%s route append %s dev %s", ip, p.Route, p.Inner)
	if p.IP.Is4() {
		route.Src = p.IP.AsSlice()
		text += " src " + p.IP.String()
	}
	w.do(len(found) == 0 && link.Attrs().RawFlags&unix.IFF_UP != 0, dataplane.KindRoute, text, func() error {
		if err := netlink.RouteAppend(route); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return nil
	})
}

// behind returns the network namespace that has the other end of a veth, and its name. The kernel gives each
// namespace a number, the nsid, by which the node's end names it.
func (k *Kernel) behind(index int) (name string, ns netns.NsHandle, err error) {
	files, err := os.ReadDir(k.dir)
	if err != nil {
		return "", ns, fmt.Errorf("list the network namespaces: %w", err)
	}
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return "", ns, fmt.Errorf("interface %d: %w", index, err)
	}
	for _, f := range files {
		ns, err := netns.GetFromPath(filepath.Join(k.dir, f.Name()))
		if err != nil {
			continue // gone
		}
		if id, err := netlink.GetNetNsIdByFd(int(ns)); err == nil && id >= 0 && id == link.Attrs().NetNsID {
			return f.Name(), ns, nil
		}
		_ = ns.Close()
	}
	return "", ns, fmt.Errorf("no network namespace in %s has the other end of interface %s", k.dir, link.Attrs().Name)
}

// sorted list without duplicates.
func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
