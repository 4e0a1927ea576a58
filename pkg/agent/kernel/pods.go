//go:build linux

package kernel

import (
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// AddPodRoutes adds the missing routes of pods, and returns the steps that were done. A
// failure in one pod does not stop the next.
func (k *Kernel) AddPodRoutes(routes []dataplane.PodRoute) (done dataplane.Plan, failed []error) {
	for _, r := range routes {
		add := func(namespace string) error {
			is, err := readPod(namespace, r)
			if err != nil {
				return err
			}
			plan, err := r.Plan(is)
			if err != nil {
				return err
			}
			n, err := k.applyHere(plan)
			done = append(done, plan[:n]...)
			return err
		}
		namespace, err := k.behind(int(r.Interface))
		if err == nil {
			err = k.in(namespace, func() error { return add(namespace) })
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("pod %s: it has no route to %s: %w", r.Pod, r.Route.Dst, err))
		}
	}
	return done, failed
}

// behind returns the name of the network namespace that has the other end of a veth. The
// kernel gives each namespace a number, the nsid, by which the node's end names it.
func (k *Kernel) behind(index int) (name string, err error) {
	files, err := os.ReadDir(k.dir)
	if err != nil {
		return "", fmt.Errorf("list the network namespaces: %w", err)
	}
	err = k.in("", func() error {
		link, err := netlink.LinkByIndex(index)
		if err != nil {
			return fmt.Errorf("interface %d: %w", index, err)
		}
		for _, f := range files {
			ns, err := k.open(f.Name())
			if err != nil {
				continue // not a network namespace, or gone
			}
			id, err := netlink.GetNetNsIdByFd(int(ns))
			_ = ns.Close()
			if err == nil && id >= 0 && id == link.Attrs().NetNsID {
				name = f.Name()
				return nil
			}
		}
		return fmt.Errorf("no network namespace in %s has the other end of interface %s", k.dir, link.Attrs().Name)
	})
	return name, err
}

// readPod reads the pod's interface in the thread's namespace, the interface's addresses, and
// its routes in the table main. It reads no others: a pod may have many routes.
func readPod(namespace string, pod dataplane.PodRoute) (dataplane.Namespace, error) {
	r := newRoom(namespace)
	link, err := netlink.LinkByName(pod.Route.Dev)
	if err != nil {
		return r.ns, fmt.Errorf("%s: %w", pod.Route.Dev, err)
	}
	index := link.Attrs().Index
	r.names[index] = pod.Route.Dev
	r.ns.Links = append(r.ns.Links, linkOf(link, "", nil))
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return r.ns, fmt.Errorf("addresses: %w", err)
	}
	for _, a := range addresses {
		r.address(a)
	}
	of := unix.RtMsg{Family: unix.AF_INET, Table: unix.RT_TABLE_MAIN}
	if pod.IP.Is6() {
		of.Family = unix.AF_INET6
	}
	if err := askRoutes(of, index, func(m []byte) {
		if route, counts := r.route(m); counts {
			r.ns.Routes = append(r.ns.Routes, route)
		}
	}); err != nil {
		return r.ns, fmt.Errorf("routes: %w", err)
	}
	return r.ns, nil
}
