package multus

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Converged says "" when no write is due, else the first thing that is not as it
// should be. It is what "done" means, written apart from the way there:
//
//   - a VNI names a Network that exists, and beside the one that the status tells it
//     has none;
//   - nothing else is due while the status is of an earlier spec;
//   - an Overlay Network that lives has the VNI that its status tells, unless no number
//     is free; others have none;
//   - where the cluster knows definitions, there is one of the Network's name; if it is
//     the Network's, it says what it should;
//   - the condition says all this, and which other Network hands out some of the same
//     addresses on the same wire.
func Converged(s State) string {
	for _, vni := range s.VNIs {
		if _, ok := number(vni); ok && vni.DeletionTimestamp == nil && (s.Network == nil || vni.Spec.Network.UID != s.Network.UID) {
			return fmt.Sprintf("VNI %s is of a Network that is gone", vni.Name)
		}
	}
	if s.Network == nil {
		return ""
	}
	told, held := s.Network.Status.VNI, s.held()
	if slices.Contains(held, told) && len(held) > 1 {
		return fmt.Sprintf("the Network has %d VNIs", len(held))
	}
	if s.Network.DeletionTimestamp != nil || !slices.Contains(s.Network.Finalizers, v1.InUseFinalizer) || !s.observed() {
		return ""
	}
	switch {
	case !overlay(s.Network):
		if told != 0 {
			return fmt.Sprintf("the status tells VNI %d of a Network that is no Overlay", told)
		}
	case slices.Contains(held, told):
	case len(held) > 0 || len(s.Candidates) > 0:
		return fmt.Sprintf("the Network does not have the VNI of its status, %d", told)
	case told != 0:
		return fmt.Sprintf("the status tells VNI %d, which another has", told)
	}
	attachable, why := s.defined()
	if why != "" {
		return why
	}
	c := meta.FindStatusCondition(s.Network.Status.Conditions, v1.ConditionAttachable)
	switch {
	case c == nil:
		return "the condition is missing"
	case c.ObservedGeneration != s.Network.Generation:
		return "the condition is of an older generation"
	case (c.Status == metav1.ConditionTrue) != attachable:
		return fmt.Sprintf("the condition is %s", c.Status)
	}
	if next := Diff(s).Status; next != nil {
		return "the condition would be: " + statusText(next)
	}
	return ""
}

// defined says whether the definition attaches pods; why is what is yet to be written
// of it.
func (s State) defined() (attachable bool, why string) {
	vni, _ := s.vni()
	want, err := s.config(vni)
	is := s.Definition
	switch {
	case !s.Installed, err != nil, overlay(s.Network) && vni == 0:
		return false, ""
	case is == nil:
		return false, "there is no definition"
	case is.DeletionTimestamp != nil:
		return false, ""
	case orphaned(is):
		return false, "the definition has no owner"
	case !ours(s.Network, is):
		return false, ""
	case is.Spec.Config != want || is.Labels[v1.NetworkLabel] != s.Name:
		return false, "the definition is not as it should be"
	}
	return true, ""
}
