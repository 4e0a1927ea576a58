package addressslice

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// full is the number of addresses that an AddressSlice has room for, as in its schema.
// Larger slices cost each agent more bytes for a change, smaller ones more writes while many
// pods start.
const full = 50

// The slices of nodes are in NodesNamespace, which always exists. NodesPrefix begins their
// names. No Network has a dot in its name.
const (
	NodesNamespace = metav1.NamespaceSystem
	NodesPrefix    = "nodes."
)

// Diff decides which writes the AddressSlices of one Network, or of the nodes, need. First
// match wins:
//
//	no Network with this name          delete slices without an owner; the garbage collector deletes the others
//	it is being deleted, and has no
//	finalizer of Pod2 any more         nothing: no pod has an address, and the garbage collector deletes the slices
//	not an Overlay Network             delete its slices
//	no VNI or no gateway in its status nothing: it is new, or a restore lost its status
//	slices of a former Network         delete them; the next view shows that their names are free
//	else                               pack the addresses
func Diff(s State) Plan {
	var p Plan
	switch {
	case s.Name == "":
		s.pack(&p, nil)
	case s.Network == nil:
		for _, slice := range s.Slices {
			if metav1.GetControllerOfNoCopy(slice) == nil {
				s.remove(&p, slice, "its Network is gone")
			}
		}
	case s.Network.DeletionTimestamp != nil && !slices.Contains(s.Network.Finalizers, v1.InUseFinalizer):
	case !isOverlay(s.Network):
		for _, slice := range s.Slices {
			s.remove(&p, slice, "its Network is not an Overlay")
		}
	default:
		if properties := overlay(s.Network); properties != nil {
			s.pack(&p, properties)
		}
	}
	if p.Gathers {
		p.RequeueAfter = s.RemovalsHeld
	}
	p.Confirm = s.Name != "" && len(p.Create)+len(p.Delete) > 0
	return p
}

func (s State) remove(p *Plan, slice *v1.AddressSlice, reason string) {
	if slice.DeletionTimestamp == nil {
		p.Delete = append(p.Delete, plan.Delete(slice, reason))
	}
}

// slot is a slice as it should be. It is the slice that was, and a copy of it once it changes.
type slot struct {
	was, is *v1.AddressSlice // was is nil for a new one
	// past are addresses that may stay for a while: nobody has them any more.
	past []string
}

func (s *slot) changed() bool { return s.is != s.was }

// edit returns the slice to change.
func (s *slot) edit() *v1.AddressSlice {
	if s.is == s.was {
		s.is = s.was.DeepCopy()
	}
	return s.is
}

func (s *slot) room() int { return full + len(s.past) - len(s.is.Spec.Locations) }

// purge removes the past addresses, because the slice is written anyway.
func (s *slot) purge() {
	for _, address := range s.past {
		delete(s.is.Spec.Locations, address)
	}
	s.past = nil
}

// pack puts each address into one slice.
func (s State) pack(p *Plan, properties *v1.OverlayProperties) {
	var slots []*slot
	names := map[string]bool{}
	others, unlocated := maps.Clone(s.Locations), maps.Clone(s.Unlocated) // those that no slot has yet
	for _, slice := range s.Slices {
		switch {
		case slice.DeletionTimestamp != nil:
			names[slice.Name] = true
		case !s.made(slice):
			s.remove(p, slice, "it does not belong to the Network")
		default:
			names[slice.Name] = true
			slots = append(slots, s.keep(slice, others, unlocated))
		}
	}
	if len(p.Delete) > 0 {
		return
	}
	create := func() *slot {
		slots = append(slots, &slot{is: s.create(names)})
		return slots[len(slots)-1]
	}
	if properties != nil {
		head := slices.IndexFunc(slots, func(x *slot) bool { return x.is.Spec.Overlay != nil })
		if head < 0 && len(slots) == 0 {
			create()
		}
		for i, x := range slots {
			var want *v1.OverlayProperties
			if i == max(head, 0) {
				want = properties
			}
			if !equality.Semantic.DeepEqual(x.is.Spec.Overlay, want) {
				x.edit().Spec.Overlay = want
			}
		}
	}
	fill(slots, create, others)
	for _, x := range slots {
		if x.changed() {
			x.purge()
		}
		p.Gathers = p.Gathers || len(x.past) > 0
		switch {
		case len(x.is.Spec.Locations) == 0 && x.is.Spec.Overlay == nil:
			if x.was != nil {
				s.remove(p, x.was, "it has no address")
			}
		case x.was == nil:
			p.Create = append(p.Create, x.is)
		case x.changed():
			p.Update = append(p.Update, plan.Update[*v1.AddressSlice]{Was: x.was, Object: x.is, Reason: difference(x.was, x.is)})
		}
	}
}

// keep returns the slice with those of its addresses that it should still have. It removes
// them from the addresses that no slot has yet.
func (s State) keep(slice *v1.AddressSlice, others map[string]string, unlocated map[string]bool) *slot {
	x := &slot{was: slice, is: slice}
	labels := plan.Overlaid(slice.Labels, s.labels())
	if s.Name != "" { // agents would take it for one of nodes
		delete(labels, v1.NodesLabel)
	}
	if !maps.Equal(labels, slice.Labels) {
		x.edit().Labels = labels
	}
	for address, told := range slice.Spec.Locations {
		if host, wanted := others[address]; wanted {
			delete(others, address)
			if host != told {
				x.edit().Spec.Locations[address] = host
			}
			continue
		}
		if unlocated[address] {
			delete(unlocated, address)
			continue
		}
		if _, twice := s.Locations[address]; !twice && !s.Unlocated[address] && s.RemovalsHeld > 0 {
			x.past = append(x.past, address)
			continue
		}
		delete(x.edit().Spec.Locations, address)
	}
	return x
}

// fill puts the other addresses into slices that change anyway, then into those with room for
// the rest, then into those with the most past addresses, then into the fullest ones, and then
// into new ones. Each slice that changes is an event for each agent that watches it.
func fill(slots []*slot, create func() *slot, others map[string]string) {
	order := slices.DeleteFunc(slices.Clone(slots), func(x *slot) bool { return x.room() <= 0 })
	left := len(others) // for slices that would not change otherwise
	for _, x := range order {
		if x.changed() {
			left -= x.room()
		}
	}
	enough := func(x *slot) bool { return x.room() >= left }
	slices.SortStableFunc(order, func(a, b *slot) int {
		return cmp.Or(compare(b.changed(), a.changed()), compare(enough(b), enough(a)), cmp.Compare(len(b.past), len(a.past)), cmp.Compare(len(b.is.Spec.Locations), len(a.is.Spec.Locations)))
	})
	for _, address := range slices.Sorted(maps.Keys(others)) {
		for len(order) > 0 && order[0].room() <= 0 {
			order = order[1:]
		}
		if len(order) == 0 {
			order = append(order, create())
		}
		into := order[0].edit()
		if into.Spec.Locations == nil {
			into.Spec.Locations = map[string]string{}
		}
		into.Spec.Locations[address] = others[address]
	}
}

// compare puts false before true.
func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// create returns a new slice with the lowest number that no slice has.
func (s State) create(names map[string]bool) *v1.AddressSlice {
	prefix := NodesPrefix
	if s.Name != "" {
		prefix = s.Name + "-"
	}
	number := 0
	for names[prefix+strconv.Itoa(number)] {
		number++
	}
	slice := &v1.AddressSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: prefix + strconv.Itoa(number), Labels: s.labels()}}
	if s.Network != nil {
		owner := metav1.NewControllerRef(s.Network, schema.GroupVersion(v1.GroupVersion).WithKind("Network"))
		// Running pods need it while the Network waits for them. If it blocked a deletion in the foreground, the garbage
		// collector would delete it again with each other object that ends.
		owner.BlockOwnerDeletion = nil
		slice.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	names[slice.Name] = true
	return slice
}

func (s State) labels() map[string]string {
	if s.Name == "" {
		return map[string]string{v1.NodesLabel: "true"}
	}
	return map[string]string{v1.NetworkLabel: s.Name}
}

// difference names the parts that an update changes.
func difference(was, is *v1.AddressSlice) string {
	var d plan.Differences
	d.Compare("labels", was.Labels, is.Labels)
	d.Compare("overlay", was.Spec.Overlay, is.Spec.Overlay)
	d.Compare("locations", was.Spec.Locations, is.Spec.Locations)
	return d.String()
}
