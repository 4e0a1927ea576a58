package dns

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/pkg/plan"
)

// Diff plans the writes for the DNS names of one Pod2's replicas. It cannot fail: if
// something is impossible, a condition says so. The garbage collector deletes the objects
// of a Pod2 that is being deleted, except slices that must be withdrawn at once.
func Diff(s State) Plan {
	var p Plan
	if s.Pod2 == nil {
		for _, slice := range s.Slices {
			if abandoned(slice) && slice.DeletionTimestamp == nil {
				p.Withdraw = append(p.Withdraw, plan.Delete(slice, "its Pod2 no longer exists"))
			}
		}
		return p
	}
	v := look(s)
	v.remove(&p)
	if s.Pod2.DeletionTimestamp != nil {
		return Plan{Withdraw: p.Withdraw}
	}
	for _, wanted := range v.services {
		if writes := v.writes(wanted); !writes.empty() {
			p.Services = append(p.Services, writes)
		}
	}
	if len(p.DeleteSlices) > 0 || len(p.DeleteServices) > 0 || len(p.Services) > 0 {
		p.ConfirmGone = v.unseen()
	}
	if len(v.problems()) > 0 || !v.pending() {
		p.Status = v.status()
		p.Events = v.events(p.Status)
	}
	return p
}

// remove deletes owned objects that are not wanted. First it deletes the slices of
// Services that are not fit for them.
func (v *view) remove(p *Plan) {
	services, kept := map[string]bool{}, map[string]discoveryv1.AddressType{}
	for _, wanted := range v.services {
		services[wanted.name] = true
		for _, slice := range wanted.slices {
			kept[slice.Name] = slice.AddressType
		}
	}
	for _, slice := range v.Slices {
		service := slice.Labels[discoveryv1.LabelServiceName]
		switch {
		case !v.made(slice) || slice.DeletionTimestamp != nil:
		case service != "" && !v.fit(service):
			p.Withdraw = append(p.Withdraw, plan.Delete(slice, "the Pod2 owns no Service without ports for it"))
		case v.orphan(slice):
		// The type of a slice is immutable: a slice of the wrong type is deleted.
		case kept[slice.Name] != slice.AddressType:
			p.DeleteSlices = append(p.DeleteSlices, plan.Delete(slice, "no replica belongs in it"))
		}
	}
	for _, is := range v.Services {
		if !services[is.Name] && v.removable(is) {
			p.DeleteServices = append(p.DeleteServices, plan.Delete(is, "no replica is on its Network"))
		}
	}
}

func (v *view) removable(o metav1.Object) bool { return v.ours(o) && o.GetDeletionTimestamp() == nil }

// writes returns the writes for a wanted Service that the Pod2 can have.
func (v *view) writes(s service) ServiceWrites {
	var w ServiceWrites
	switch {
	case s.problem != nil:
		return w
	case s.is == nil:
		w.Create = v.newService(s)
	default:
		want := v.overlayService(s.network, s.is)
		if reason := serviceDiffers(s.is, want); reason != "" {
			w.Update = &plan.Update[*corev1.Service]{Was: s.is, Object: want, Reason: reason}
		}
	}
	for _, slice := range s.slices {
		is := find(v.Slices, slice.Name)
		switch {
		case is == nil:
			w.CreateSlices = append(w.CreateSlices, slice)
		case v.ours(is) && is.AddressType == slice.AddressType:
			want := overlaySlice(is, slice)
			if reason := sliceDiffers(is, want); reason != "" {
				w.UpdateSlices = append(w.UpdateSlices, plan.Update[*discoveryv1.EndpointSlice]{Was: is, Object: want, Reason: reason})
			}
		}
	}
	for _, is := range v.Slices {
		// Its content is decided once the Pod2 controls it.
		if v.fit(s.name) && orphaned(is, v.sliceLabels(s)) {
			adopted := is.DeepCopy()
			v.own(adopted)
			w.UpdateSlices = append(w.UpdateSlices, plan.Update[*discoveryv1.EndpointSlice]{Was: is, Object: adopted, Reason: ownerReference})
		}
	}
	return w
}

// unseen returns the pods that the Pod2's slices name and the view does not have. A live
// one also keeps the Service of a Network that the spec no longer has. If the view has
// another pod with the same name, the former pod is gone. Slices of a Service that is not
// fit for them are deleted anyway. A pod with another name than a replica's has no DNS name:
// another client wrote its endpoint.
func (v *view) unseen() []network.PodRef {
	seen := map[string]bool{}
	for _, pod := range v.Pods {
		seen[pod.Name] = true
	}
	var refs []network.PodRef
	for _, slice := range v.Slices {
		if service := slice.Labels[discoveryv1.LabelServiceName]; !v.ours(slice) || service != "" && !v.fit(service) {
			continue
		}
		for _, e := range slice.Endpoints {
			name := endpointPod(e)
			if _, replica := ordinals.Parse(v.Pod2.Name, name); replica && !seen[name] {
				seen[name] = true
				refs = append(refs, network.PodRef{Name: name, UID: e.TargetRef.UID})
			}
		}
	}
	return refs
}
