package multus

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// Diff decides which writes one Network needs. It cannot fail: every problem becomes a
// condition.
func Diff(s State) Plan {
	var p Plan
	p.Release = s.release()
	switch {
	case s.Network == nil || s.Network.DeletionTimestamp != nil:
		return p // the garbage collector deletes the definition with its Network
	case !slices.Contains(s.Network.Finalizers, v1.InUseFinalizer):
		return p // the Network could be gone by the time of the write
	case !s.observed():
		return p // the Network's own sync will write the status of this spec; two writes would conflict
	}
	vni, claim := s.vni()
	if claim {
		p.Claim = s.newVNI(vni)
	}
	found := s.define(vni, &p)
	p.Status, p.Events = s.status(vni, found)
	return p
}

// observed says whether the status is of this spec. The sync of the Network writes such a
// status even if other writes fail.
func (s State) observed() bool { return s.Network.Status.ObservedGeneration == s.Network.Generation }

// vni returns the number of an Overlay Network, or 0 if it has none, and whether the number
// must be claimed first. First match wins:
//
//	the number in the status, if this Network holds it
//	the number in the status, to claim, if no Network holds it: its VNI was deleted,
//	or the cache of VNIs lags, and then the claim is refused
//	the lowest number that this Network holds
//	the first candidate, to claim
//	none
//
// If another Network holds the number in the status, this Network has lost it.
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

// held returns the numbers of the Network with this UID, in order.
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

// release returns the VNIs of former Networks with this name. If this Network holds
// several, it also returns those that are not in the status. Without a number in the
// status, it is not yet known which one counts.
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
			r.Deletion = plan.Delete(vni, "the Network has another VNI")
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

// define decides about the definition, and returns the problem to report. First match wins:
//
//	the cluster does not know the kind           nothing
//	an Overlay Network that gets no number       nothing
//	an invalid configuration                     nothing; an existing definition stays
//	no definition                                create it
//	it is being deleted                          wait for its end
//	it is of a former Network with this name     wait for the garbage collector
//	it has another owner                         leave it alone
//	it differs from the desired definition       update it
func (s State) define(vni int32, p *Plan) finding {
	is := s.Definition
	config, err := s.config()
	switch {
	case !s.Installed:
		return finding{ReasonNotInstalled, "the cluster has no NetworkAttachmentDefinitions: pods get addresses but are not attached; install Multus"}
	case overlay(s.Network) && vni == 0:
		return finding{ReasonNoFreeVNI, "found no free VXLAN Network Identifier; delete VNIs that no Network uses"}
	case err != nil:
		return finding{ReasonInvalidConfig, "spec.attachment.config: " + err.Error()}
	case is == nil:
		p.Create = s.newDefinition(config)
		return finding{}
	case is.DeletionTimestamp != nil:
		return finding{ReasonWaitingForDeletion, fmt.Sprintf("NetworkAttachmentDefinition %s is being deleted; the controller then recreates it", is.Name)}
	case former(s.Network, is):
		return finding{ReasonWaitingForDeletion, fmt.Sprintf("NetworkAttachmentDefinition %s belongs to an earlier Network with this name; the garbage collector will delete it", is.Name)}
	case !ours(s.Network, is) && !orphaned(is):
		return finding{ReasonNameTaken, fmt.Sprintf("NetworkAttachmentDefinition %s exists but does not belong to this Network: delete it, or create a Network with another name", is.Name)}
	}
	p.Update = s.rewritten(config)
	return finding{}
}

func former(n *v1.Network, o metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	return ref != nil && ref.APIVersion == v1.GroupVersion.String() && ref.Kind == "Network" && ref.Name == n.Name && ref.UID != n.UID
}

// orphaned says whether we created the object and its owner reference was removed, by a
// user or by a deletion with --cascade=orphan.
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

// rewritten returns the update to the desired definition, or nil if there is no
// difference. It keeps labels and annotations of other clients.
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
