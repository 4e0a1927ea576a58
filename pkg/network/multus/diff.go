package multus

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Diff decides what is to be written for one Network. It cannot fail: what cannot be
// had becomes a condition.
func Diff(s State) Plan {
	var p Plan
	p.Release = s.release()
	switch {
	case s.Network == nil || s.Network.DeletionTimestamp != nil:
		return p // the definition goes with its Network, by the garbage collector
	case !slices.Contains(s.Network.Finalizers, v1.InUseFinalizer):
		return p // it could be gone by the time of the write
	case !s.observed():
		return p // its own sync is about to write the status of this spec, and one of both would conflict
	}
	vni, claim := s.vni()
	if claim {
		p.Claim = s.newVNI(vni)
	}
	found := s.define(vni, &p)
	p.Status, p.Events = s.status(vni, found)
	return p
}

// observed says whether the status is of this spec. The sync of the Network sees to that,
// whatever fails.
func (s State) observed() bool { return s.Network.Status.ObservedGeneration == s.Network.Generation }

// vni is the number of an Overlay Network, and whether it has yet to be claimed; 0:
// it has none. First match wins:
//
//	the number of the status, if we hold it
//	the number of the status, to be claimed, if nobody holds it: its VNI was deleted,
//	or the cache of VNIs lags, and then the claim is refused
//	the lowest that we hold
//	the first candidate, to be claimed
//	none
//
// A number in the status that another Network holds is not ours any more.
func (s State) vni() (vni int32, claim bool) {
	if !overlay(s.Network) {
		return 0, false
	}
	told, held := s.Network.Status.VNI, s.held()
	switch {
	case slices.Contains(held, told):
		return told, false
	case told != 0 && slices.Contains(s.Candidates, told):
		return told, true
	case len(held) > 0:
		return held[0], false
	case len(s.Candidates) > 0:
		return s.Candidates[0], true
	}
	return 0, false
}

// held are the numbers of this incarnation of the Network, in order.
func (s State) held() []int32 {
	var held []int32
	for _, vni := range s.VNIs {
		if n, ok := number(vni); ok && vni.Spec.Network.UID == s.Network.UID && vni.DeletionTimestamp == nil {
			held = append(held, n)
		}
	}
	slices.Sort(held)
	return held
}

// release the VNIs of former incarnations, and of this one those beside the one that
// the status tells. Without a number in the status nobody knows yet which will count.
func (s State) release() []Release {
	var releases []Release
	for _, vni := range s.VNIs {
		n, ok := number(vni)
		if !ok || vni.DeletionTimestamp != nil {
			continue
		}
		r := Release{VNI: n, Network: vni.Spec.Network.UID}
		switch {
		case s.Network == nil || s.Network.UID != r.Network:
			r.Deletion = plan.Delete(vni, "the Network is gone")
		case s.Network.Status.VNI != 0 && s.Network.Status.VNI != n && slices.Contains(s.held(), s.Network.Status.VNI):
			r.Deletion = plan.Delete(vni, "the Network has another")
		default:
			continue
		}
		releases = append(releases, r)
	}
	return releases
}

func (s State) newVNI(vni int32) *v1.VNI {
	return &v1.VNI{
		ObjectMeta: metav1.ObjectMeta{Name: Name(vni)},
		Spec:       v1.VNISpec{Network: v1.NetworkReference{Namespace: s.Namespace, Name: s.Name, UID: s.Network.UID}},
	}
}

// define decides about the definition, and returns what is to be said of it. First
// match wins:
//
//	the cluster has none                         nothing
//	an Overlay that gets no number               nothing
//	a configuration that is none                 nothing; what stands stays
//	no definition                                create it
//	one that is being deleted                    wait for its end
//	one of the Network's former incarnation      wait for the garbage collector
//	somebody else's                              leave it alone
//	not as it should be                          update it
func (s State) define(vni int32, p *Plan) finding {
	is := s.Definition
	config, err := s.config(vni)
	switch {
	case !s.Installed:
		return finding{ReasonNotInstalled, "the cluster has no NetworkAttachmentDefinitions: pods get addresses, and nobody attaches them; install Multus"}
	case overlay(s.Network) && vni == 0:
		return finding{ReasonNoFreeVNI, "no free VXLAN Network Identifier was found; delete VNIs that no Network has"}
	case err != nil:
		return finding{ReasonInvalidConfig, "spec.attachment.config: " + err.Error()}
	case is == nil:
		p.Create = s.newDefinition(config)
		return finding{}
	case is.DeletionTimestamp != nil:
		return finding{ReasonWaitingForDeletion, fmt.Sprintf("NetworkAttachmentDefinition %s is being deleted, and made anew after that", is.Name)}
	case former(s.Network, is):
		return finding{ReasonWaitingForDeletion, fmt.Sprintf("NetworkAttachmentDefinition %s is of an earlier Network of this name, and goes with it", is.Name)}
	case !ours(s.Network, is) && !orphaned(is):
		return finding{ReasonNameTaken, fmt.Sprintf("there is a NetworkAttachmentDefinition %s that is not the Network's: delete it, or create a Network of another name", is.Name)}
	}
	p.Update = s.rewritten(config)
	return finding{}
}

func former(n *v1.Network, o metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.APIVersion == v1.GroupVersion.String() && ref.Kind == "Network" && ref.Name == n.Name && ref.UID != n.UID
}

// orphaned says whether we made the object and its owner reference was removed, by
// hand or by a deletion with --cascade=orphan.
func orphaned(o metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(o) == nil && o.GetLabels()[v1.NetworkLabel] == o.GetName()
}

func (s State) newDefinition(config string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name,
			Labels:          map[string]string{v1.NetworkLabel: s.Name},
			OwnerReferences: []metav1.OwnerReference{controller(s.Network)},
		},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config},
	}
}

// rewritten is the definition as it shall be, nil if it is so. Labels and annotations
// of others stay.
func (s State) rewritten(config string) *plan.Update[*nadv1.NetworkAttachmentDefinition] {
	want, reason := s.Definition.DeepCopy(), ""
	switch {
	case !ours(s.Network, want):
		want.OwnerReferences = append(want.OwnerReferences, controller(s.Network))
		reason = "owner reference"
	case want.Labels[v1.NetworkLabel] != s.Name:
		reason = "label " + v1.NetworkLabel
	case want.Spec.Config != config:
		reason = "config"
	default:
		return nil
	}
	metav1.SetMetaDataLabel(&want.ObjectMeta, v1.NetworkLabel, s.Name)
	want.Spec.Config = config
	return &plan.Update[*nadv1.NetworkAttachmentDefinition]{Was: s.Definition, Object: want, Reason: reason}
}
