package definition

import (
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/internal/chance"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// arbitrary is a state as users, other controllers and crashes may leave it.
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
		func() { s.Network.Generation = 2 },
		func() {
			s.Network.Spec.Attachment = &v1.NetworkAttachment{Type: v1.AttachmentCNI, Config: []string{`{"type":"a"}`, `{}`}[pick(2)]}
		},
		func() { s.Candidates = nil },
		func() { s.Candidates = append(s.Candidates, 70000) },
		func() { s.Installed, s.Definition = false, nil },
		func() { s.Definition = nil },
		func() { s.Definition = s.Definition.DeepCopy(); s.Definition.OwnerReferences = nil },
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

func TestEmptyExactlyWhenConverged(t *testing.T) {
	empty, all := 0, 0
	chance.ForSeeds(t, 20_000, func(t *testing.T, dice *rand.Rand) {
		s := arbitrary(dice.IntN)
		all++
		p, why := Diff(s), Converged(s)
		if p.Empty() != (why == "") {
			t.Fatalf("converged says %q, and the plan is\n%s\nof %+v", why, p, s)
		}
		if p.Empty() {
			empty++
		}
	})
	if empty < all/40 || empty > all-all/40 {
		t.Errorf("%d of %d states were converged", empty, all)
	}
}

// Plans carried out are followed by none, or by one that waits for what others do.
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
		s.Definition = p.Update
	}
	if p.Status != nil {
		s.Network = s.Network.DeepCopy()
		s.Network.Status = *p.Status
	}
}
