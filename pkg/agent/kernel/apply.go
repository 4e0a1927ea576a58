//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// Perform does what the plan says, in its order, and returns the steps that were done. What
// stops a Network does not stop the next; what stops the node's part stops all.
func (k *Kernel) Perform(p dataplane.Plan) (done dataplane.Plan, err error) {
	var errs []error
	for len(p) > 0 {
		end := slices.IndexFunc(p, func(s dataplane.Step) bool { return s.Network != p[0].Network })
		if end < 0 {
			end = len(p)
		}
		n, err := k.applyNetwork(p[:end])
		done = append(done, p[:n]...)
		if err != nil {
			errs = append(errs, err)
			if p[0].Network == 0 {
				break
			}
		}
		p = p[end:]
	}
	return done, errors.Join(errs...)
}

// applyNetwork goes from namespace to namespace as the steps do.
func (k *Kernel) applyNetwork(steps []dataplane.Step) (done int, err error) {
	for len(steps) > 0 {
		namespace := steps[0].Namespace
		end := slices.IndexFunc(steps, func(s dataplane.Step) bool { return s.Namespace != namespace })
		if end < 0 {
			end = len(steps)
		}
		n, err := 0, error(nil)
		if err = k.in(namespace, func() error {
			n, err = k.applyHere(steps[:end])
			return err
		}); err != nil {
			return done + n, err
		}
		done += n
		steps = steps[end:]
	}
	return done, nil
}

// applyHere has a thread that is in the namespace. Entries that come in a row are sent
// together.
func (k *Kernel) applyHere(steps []dataplane.Step) (done int, err error) {
	for done < len(steps) {
		some := steps[done:]
		end := slices.IndexFunc(some, func(s dataplane.Step) bool { return !isEntry(s.Action) })
		if end < 0 {
			end = len(some)
		}
		if end > 0 {
			n, err := applyEntries(some[:end])
			if done += n; err != nil {
				return done, err
			}
			continue
		}
		if err := k.do(some[0].Action); err != nil && !asGoodAsDone(some[0], err) {
			return done, fmt.Errorf("%s: %w", some[0], err)
		}
		done++
	}
	return done, nil
}

// do what is no entry.
func (k *Kernel) do(action dataplane.Action) error {
	switch a := action.(type) {
	case dataplane.AddNamespace:
		return k.addNamespace(a.Name)
	case dataplane.DelNamespace:
		return k.delNamespace(a.Name)
	case dataplane.AddLink:
		return k.addLink(a)
	case dataplane.SetLink:
		return setLink(a)
	case dataplane.DelLink:
		return delLink(a.Name)
	case dataplane.AddAddress:
		return addAddress(a.Address)
	case dataplane.DelAddress:
		return changeAddress(netlink.AddrDel, a.Address)
	case dataplane.AddRoute:
		return addRoute(a.Route)
	case dataplane.AppendRoute:
		return appendRoute(a.Route)
	case dataplane.DelRoute:
		return delRoute(a.Route)
	case dataplane.AddRule:
		return addRule(a.Rule)
	case dataplane.DelRule:
		return delRule(a.Rule)
	case dataplane.SetSysctl:
		return setSysctl(a.Sysctl)
	case dataplane.ReplaceTable:
		return replaceTable(a.Table)
	case dataplane.DelTable:
		return delTable(a.Family, a.Name)
	case dataplane.ChangeElements:
		return changeElements(a)
	}
	return fmt.Errorf("no such action: %T", action)
}

// asGoodAsDone: what is to be removed is gone, or what is to be made is there, since
// somebody was faster: CNI with the bridge, or with the port of a pod that has ended, the
// kernel with what was on a link.
func asGoodAsDone(step dataplane.Step, err error) bool {
	ended := func(port string) bool {
		return step.Namespace == "" && dataplane.OwnLink(port) == 0 && errors.Is(err, unix.ENODEV)
	}
	switch a := step.Action.(type) {
	case dataplane.SetLink:
		return ended(a.Want.Name)
	case dataplane.ReplaceFDB:
		return ended(a.Dev)
	case dataplane.AddLink:
		return a.Link.Kind == dataplane.KindBridge && errors.Is(err, unix.EEXIST)
	case dataplane.AddAddress, dataplane.AddRoute, dataplane.AppendRoute, dataplane.AddRule:
		return errors.Is(err, unix.EEXIST)
	case dataplane.DelLink, dataplane.DelAddress, dataplane.DelRoute, dataplane.DelRule, dataplane.DelFDB, dataplane.DelNeighbour:
		return slices.ContainsFunc([]error{unix.ENOENT, unix.ENODEV, unix.ESRCH, unix.EADDRNOTAVAIL}, func(gone error) bool { return errors.Is(err, gone) })
	}
	return false
}
