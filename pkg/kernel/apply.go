//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/dataplane"
)

const (
	addrGenModeNone  = 1    // IN6_ADDR_GEN_MODE_NONE
	addrGenModeEUI64 = 0    // IN6_ADDR_GEN_MODE_EUI64
	ntfSelf          = 0x02 // NTF_SELF
	ntfMaster        = 0x04 // NTF_MASTER
	ntfSticky        = 0x40 // NTF_STICKY
	vethInfoPeer     = 1    // VETH_INFO_PEER
)

// Apply does what the plan says, in its order, and returns how many steps were done. What
// stops a Network does not stop the next; what stops the node's part stops all.
func (k *Kernel) Apply(p dataplane.Plan) (done int, err error) {
	var errs []error
	for len(p) > 0 {
		end := slices.IndexFunc(p, func(s dataplane.Step) bool { return s.Network != p[0].Network })
		if end < 0 {
			end = len(p)
		}
		n, err := k.applyNetwork(p[:end])
		done += n
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

// applyHere has a thread that is in the namespace. What rtnetlink does is put off, to be
// sent at once, until something else is to be done.
func (k *Kernel) applyHere(steps []dataplane.Step) (done int, err error) {
	c, err := dialRoute()
	if err != nil {
		return 0, err
	}
	defer c.close()
	var pending []request
	var owners []int // of which step each is
	flush := func(upTo int) error {
		errs, err := c.send(pending)
		if err != nil {
			return err
		}
		for i, err := range errs {
			if step := steps[owners[i]]; err != nil && !asGoodAsDone(step.Action, err) {
				done = owners[i]
				return fmt.Errorf("%s: %w", step, err)
			}
		}
		pending, owners, done = pending[:0], owners[:0], upTo
		return nil
	}
	for i := 0; i < len(steps); i++ {
		step := steps[i]
		if other := k.other(step.Action); other != nil {
			if err := flush(i); err != nil {
				return done, err
			}
			if err := other(); err != nil {
				return done, fmt.Errorf("%s: %w", step, err)
			}
			done = i + 1
			continue
		}
		both := i+1 < len(steps) && inOneMessage(step.Action, steps[i+1].Action)
		requests, err := k.encode(c, step.Action, both)
		if err != nil && !asGoodAsDone(step.Action, err) {
			return done, errors.Join(flush(i), fmt.Errorf("%s: %w", step, err))
		}
		for _, r := range requests {
			pending, owners = append(pending, r), append(owners, i)
		}
		if both {
			i++
		}
		switch step.Action.(type) {
		case dataplane.AddLink, dataplane.DelLink:
			// Names of links mean others from here on.
			if err := flush(i + 1); err != nil {
				return done, err
			}
			clear(c.index)
		}
	}
	return done, flush(len(steps))
}

// other is what is not rtnetlink's to do; nil: it is.
func (k *Kernel) other(action dataplane.Action) func() error {
	switch a := action.(type) {
	case dataplane.AddNamespace:
		return func() error { return k.addNamespace(a.Name) }
	case dataplane.DelNamespace:
		return func() error { return k.delNamespace(a.Name) }
	case dataplane.SetSysctl:
		return func() error { return setSysctl(a.Sysctl) }
	case dataplane.ReplaceTable:
		return func() error { return replaceTable(a.Table) }
	case dataplane.DelTable:
		return func() error { return delTable(a.Family, a.Name) }
	case dataplane.ChangeElements:
		return func() error { return changeElements(a) }
	}
	return nil
}

// asGoodAsDone: what is to be removed is gone, or what is to be made is there, since
// somebody was faster: CNI with the bridge, the kernel with what was on a link.
func asGoodAsDone(action dataplane.Action, err error) bool {
	switch a := action.(type) {
	case dataplane.AddLink:
		return a.Link.Kind == dataplane.KindBridge && errors.Is(err, unix.EEXIST)
	case dataplane.AddAddress, dataplane.AddRoute:
		return errors.Is(err, unix.EEXIST)
	case dataplane.DelLink, dataplane.DelAddress, dataplane.DelRoute, dataplane.DelFDB, dataplane.DelNeighbour:
		return slices.ContainsFunc([]error{unix.ENOENT, unix.ENODEV, unix.ESRCH, unix.EADDRNOTAVAIL}, func(gone error) bool { return errors.Is(err, gone) })
	}
	return false
}

// inOneMessage says whether b, the bridge's entry, can go with a, the VXLAN device's.
func inOneMessage(a, b dataplane.Action) bool {
	self, ok := a.(dataplane.ReplaceFDB)
	master, also := b.(dataplane.ReplaceFDB)
	return ok && also && self.Dst.IsValid() && !master.Dst.IsValid() && self.Dev == master.Dev && self.MAC == master.MAC && master.Sticky
}
