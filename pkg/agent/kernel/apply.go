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

// Perform executes the plan in order and returns the steps that were done. If a step of a
// Network fails, the next Network still gets its steps. If a step of the node fails, Perform
// stops.
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

// applyNetwork enters the namespaces in the order of the steps.
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

// applyHere runs on a thread that is in the namespace.
func (k *Kernel) applyHere(steps []dataplane.Step) (done int, err error) {
	for i, step := range steps {
		if err := k.do(step.Action); err != nil && !asGoodAsDone(step.Action, err) {
			return i, fmt.Errorf("%s: %w", step, err)
		}
	}
	return len(steps), nil
}

// do executes an action.
func (k *Kernel) do(action dataplane.Action) error {
	switch a := action.(type) {
	case dataplane.AddNamespace:
		return k.addNamespace(a.Name)
	case dataplane.DelNamespace:
		return k.delNamespace(a.Name)
	case dataplane.AddVeth:
		return k.addVeth(a)
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
	return fmt.Errorf("unknown action: %T", action)
}

// asGoodAsDone says whether the error means that another program was faster: the thing to
// remove is gone, or the thing to add exists. For example, the kernel removed everything on a
// link.
func asGoodAsDone(action dataplane.Action, err error) bool {
	switch action.(type) {
	case dataplane.AddAddress, dataplane.AddRoute, dataplane.AppendRoute, dataplane.AddRule:
		return errors.Is(err, unix.EEXIST)
	case dataplane.DelLink, dataplane.DelAddress, dataplane.DelRoute, dataplane.DelRule:
		return slices.ContainsFunc([]error{unix.ENOENT, unix.ENODEV, unix.ESRCH, unix.EADDRNOTAVAIL}, func(gone error) bool { return errors.Is(err, gone) })
	}
	return false
}
