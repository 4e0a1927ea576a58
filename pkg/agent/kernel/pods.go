//go:build linux

package kernel

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// AddPodRoutes adds the missing routes of pods, and returns the steps that were done. A
// failure in one pod does not stop the next.
func (k *Kernel) AddPodRoutes(routes []dataplane.PodRoute) (done dataplane.Plan, failed []error) {
	for _, r := range routes {
		if err := k.in(r.Namespace, func() error {
			is, err := readPod(r)
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
		}); err != nil {
			failed = append(failed, fmt.Errorf("pod %s: it has no route to %s: %w", r.Pod, r.Route.Dst, err))
		}
	}
	return done, failed
}

// readPod reads the pod's interface in the thread's namespace, the interface's addresses, and
// its routes in the table main. It reads no others: a pod may have many routes.
func readPod(pod dataplane.PodRoute) (dataplane.Namespace, error) {
	r := newRoom(pod.Namespace)
	link, err := netlink.LinkByName(pod.Route.Dev)
	if err != nil {
		return r.ns, fmt.Errorf("%s: %w", pod.Route.Dev, err)
	}
	index := link.Attrs().Index
	r.names[index] = pod.Route.Dev
	r.ns.Links = append(r.ns.Links, linkOf(link, &netlink.LinkAttrs{}, nil))
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
