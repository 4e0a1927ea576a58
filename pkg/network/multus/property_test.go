package multus

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/chance"
	"github.com/pod2/pod2/test/spec"
)

// arbitrary returns a random state that users, other controllers and crashes may leave.
func arbitrary(pick func(n int) int) State {
	s := state(func(s *State) { s.VNIs = nil })
	uids := []types.UID{"u1", "u0"}
	for _, name := range []string{"70000", "66000", "66001", "blue"} {
		switch pick(4) {
		case 0:
			s.VNIs = append(s.VNIs, vni(name, uids[pick(2)]))
		case 1:
			gone := vni(name, uids[pick(2)])
			gone.DeletionTimestamp = &metav1.Time{}
			s.VNIs = append(s.VNIs, gone)
		}
	}
	changes := []func(){
		func() { s.Network.Status.VNI = []int32{0, 66000, 66001, 70001}[pick(4)] },
		func() { s.Network.Finalizers = nil },
		func() { s.Network.DeletionTimestamp = &metav1.Time{} },
		func() { s.Network.Status.Conditions = nil },
		func() { s.Network.Generation, s.Network.Status.ObservedGeneration = 2, int64(1+pick(2)) },
		func() {
			s.Network.Spec.Attachment = &v1.NetworkAttachment{Type: v1.AttachmentCNI, Config: []string{`{"type":"a"}`, `{}`}[pick(2)]}
		},
		func() {
			s.Network.Spec.CIDR = "10.0.0.0/24"
			s.Others = []*v1.Network{on([]string{`{"type":"a"}`, `{"type":"b"}`}[pick(2)], "other/red", []string{"10.0.0.0/16", "10.1.0.0/16"}[pick(2)])}
		},
		func() { s.Candidates = nil },
		func() { s.Candidates = append(s.Candidates, 70000) },
		func() { s.Installed, s.Definition = false, nil },
		func() { s.Definition = nil },
		func() { s.Definition = s.Definition.DeepCopy(); s.Definition.OwnerReferences = nil },
		func() {
			kind := []string{"Network", "Other"}[pick(2)]
			s.Definition.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.GroupVersion.String(), Kind: kind, Name: "blue", UID: "u0", Controller: ptr.To(true)}}
		},
		func() { s.Definition.Labels = nil },
		func() { s.Definition.Spec.Config = "{}" },
		func() { s.Definition.DeletionTimestamp = &metav1.Time{} },
		func() { s.Network, s.Definition = nil, nil },
	}
	for range pick(4) {
		if s.Network != nil && s.Definition != nil {
			changes[pick(len(changes))]()
		}
	}
	return s
}

func copied(s State) State {
	s.Network, s.Definition = s.Network.DeepCopy(), s.Definition.DeepCopy()
	s.Candidates, s.VNIs = slices.Clone(s.Candidates), slices.Clone(s.VNIs)
	for i := range s.VNIs {
		s.VNIs[i] = s.VNIs[i].DeepCopy()
	}
	return s
}

func TestNothingBadHappens(t *testing.T) {
	empty, all := 0, 0
	chance.ForSeeds(t, 20_000, func(t *testing.T, dice *rand.Rand) {
		all++
		if nothingBadHappens(t, dice).Empty() {
			empty++
		}
	})
	if empty < all/40 || empty > all-all/40 {
		t.Errorf("%d of %d states were converged", empty, all)
	}
}

func FuzzDiff(f *testing.F) {
	chance.Fuzz(f, func(t *testing.T, dice *rand.Rand) { nothingBadHappens(t, dice) })
}

func nothingBadHappens(t *testing.T, dice *rand.Rand) Plan {
	s := arbitrary(dice.IntN)
	before := copied(s)
	p := Diff(s)
	broken := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\nstate %+v\nplan\n%s", fmt.Sprintf(format, args...), s, p)
	}
	if why := spec.DefinitionDone(objects(s), s.Namespace, s.Name); p.Empty() && why != "" {
		broken("nothing is planned, and it is not done: %s", why)
	}
	if !reflect.DeepEqual(p, Diff(before)) {
		broken("another plan the second time")
	}
	if !reflect.DeepEqual(before, s) {
		broken("the state was changed")
	}
	n, d := s.Network, s.Definition
	if made := p.Claim != nil || p.Create != nil; made && (n == nil || n.DeletionTimestamp != nil || len(n.Finalizers) == 0) {
		broken("made for a Network that may be gone by then")
	}
	if p.Claim != nil && !slices.ContainsFunc(s.Candidates, func(c int32) bool { return Name(c) == p.Claim.Name }) {
		broken("a number is claimed that is not free")
	}
	for _, r := range p.Release {
		if n != nil && n.UID == r.Network && n.Status.VNI == r.VNI {
			broken("VNI %d is released, but the Network still uses it", r.VNI)
		}
	}
	if p.Create != nil && d != nil {
		broken("the name is taken")
	}
	if p.Update != nil && !metav1.IsControlledBy(d, n) && (metav1.GetControllerOf(d) != nil || d.Labels[v1.NetworkLabel] != d.Name) {
		broken("S6: another owner has the definition")
	}
	return p
}

// After its plans are carried out, the next plan is empty or waits for others.
func TestPlansConverge(t *testing.T) {
	chance.ForSeeds(t, 20_000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice.IntN)
		for round := 0; ; round++ {
			p := Diff(s)
			if p.Empty() {
				break
			}
			if round == 4 {
				t.Fatalf("still to do after %d plans:\n%s\nof %+v", round, p, s)
			}
			apply(&s, p)
		}
	})
}

func apply(s *State, p Plan) {
	vnis := s.VNIs
	s.VNIs = nil
	for _, vni := range vnis {
		n, _ := number(vni)
		released := false
		for _, r := range p.Release {
			released = released || r.VNI == n && r.UID == vni.UID && r.Unused(s.Network)
		}
		if !released {
			s.VNIs = append(s.VNIs, vni)
		}
	}
	if p.Claim != nil {
		s.VNIs = append(s.VNIs, p.Claim)
	}
	if p.Create != nil {
		s.Definition = p.Create
	}
	if p.Update != nil {
		s.Definition = p.Update.Object
	}
	if p.Status != nil {
		s.Network = s.Network.DeepCopy()
		s.Network.Status = *p.Status
	}
}

// objects returns the objects of a State as an API server returns them.
func objects(s State) *spec.Cluster {
	c := &spec.Cluster{Now: s.Now, VNIs: s.VNIs}
	if s.Network != nil {
		c.Networks = []*v1.Network{s.Network}
	}
	if s.Installed {
		c.Definitions = []*nadv1.NetworkAttachmentDefinition{}
	}
	if s.Definition != nil {
		c.Definitions = append(c.Definitions, s.Definition)
	}
	return c
}
