package dns

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
	"github.com/pod2/pod2/pkg/pod2"
)

// view is a State with everything in its place.
type view struct {
	State
	// services that are wanted, in the order of the Networks' names: for the Networks of
	// the spec, and for those that a member still has.
	services []service
	// members, in the order of their ordinals.
	members []*fact
}

// service is a wanted Service.
type service struct {
	network, name string
	// left is true if the spec no longer has the Network.
	left bool
	// is is the Service with this name, of any owner; nil if there is none.
	is *corev1.Service
	// problem is why the Pod2 cannot have it.
	problem *plan.Failure
	// slices are the wanted slices: none if the Service is not fit for them.
	slices []*discoveryv1.EndpointSlice
}

func look(s State) *view {
	v := &view{State: s}
	v.members = v.publishing()
	left := map[string]bool{}
	for _, m := range v.members {
		for _, a := range m.addresses {
			left[a.network] = true
		}
	}
	for _, network := range pod2.Networks(s.Pod2) {
		left[network] = false
	}
	for _, network := range slices.Sorted(maps.Keys(left)) {
		name := ServiceName(s.Pod2.Name, network)
		is := find(s.Services, name)
		wanted := service{network: network, name: name, left: left[network], is: is, problem: v.problem(network, name, is)}
		if v.fit(name) {
			wanted.slices = v.slicesOf(wanted)
		}
		v.services = append(v.services, wanted)
	}
	return v
}

// publishing returns the replicas that have DNS names, in the order of their ordinals. Pods are in
// name order, so ordinals with equally many digits are in order: web-2, web-10, web-11 come as web-10,
// web-11, web-2. Members in another order would make two slices with the same name.
func (v *view) publishing() []*fact {
	var byDigits [len("2147483647") + 1][]*fact
	for _, f := range v.Facts.Of(v.Pods) {
		if v.publishes(f) {
			digits := 1
			for n := f.ordinal; n > 9; n /= 10 {
				digits++
			}
			byDigits[digits] = append(byDigits[digits], f)
		}
	}
	return slices.Concat(byDigits[:]...)
}

// publishes reports whether a pod is a replica, scaled down or not, that has DNS names. A
// gated pod has no address yet, even if its annotation says so. An orphaned pod keeps its
// names until it is adopted.
func (v *view) publishes(f *fact) bool {
	if f.prefix != v.Pod2.Name {
		return false
	}
	if f.controller == nil {
		return f.pod.Labels[v1.Pod2Label] == v.Pod2.Name
	}
	return *f.controller == v.Pod2.UID
}

func (v *view) ours(o metav1.Object) bool { return metav1.IsControlledBy(o, v.Pod2) }

// orphaned reports whether an object has no controller, and has the labels that the
// controller sets: a user removed the owner reference, or deleted an earlier Pod2 with
// the same name with --cascade=orphan.
func orphaned(o metav1.Object, labels map[string]string) bool {
	has := o.GetLabels()
	for key, value := range labels {
		if is, ok := has[key]; !ok || is != value {
			return false
		}
	}
	return metav1.GetControllerOfNoCopy(o) == nil
}

// fit reports whether slices may exist beside the Service with that name, see the package
// comment.
func (v *view) fit(name string) bool {
	is := find(v.Services, name)
	return is != nil && is.DeletionTimestamp == nil && v.ours(is) && is.Labels[v1.Pod2Label] == v.Pod2.Name && len(is.Spec.Ports) == 0
}

// made reports whether the Pod2 owns a slice, or owned it before the slice lost its owner
// reference: only this controller writes slices with these labels.
func (v *view) made(slice *discoveryv1.EndpointSlice) bool {
	return v.ours(slice) || slice.Labels[v1.Pod2Label] == v.Pod2.Name && abandoned(slice)
}

// abandoned reports whether this controller made a slice for some Pod2, and it has no
// controller now.
func abandoned(slice *discoveryv1.EndpointSlice) bool {
	return metav1.GetControllerOfNoCopy(slice) == nil && slice.Labels[discoveryv1.LabelManagedBy] == managedBy
}

// orphan reports whether a slice is adopted: it is orphaned, and the Pod2 wants and
// controls its Service.
func (v *view) orphan(slice *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(v.services, func(s service) bool { return v.fit(s.name) && orphaned(slice, v.sliceLabels(s)) })
}

// pending reports whether a write of this plan makes a Service fit: its slices follow,
// and then the status.
func (v *view) pending() bool {
	return slices.ContainsFunc(v.services, func(s service) bool { return s.problem == nil && !v.fit(s.name) && !s.hasPorts() })
}

func (s service) hasPorts() bool { return s.is != nil && len(s.is.Spec.Ports) > 0 }

func (v *view) problem(network, name string, is *corev1.Service) *plan.Failure {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return &plan.Failure{Reason: ReasonInvalidServiceName, Message: fmt.Sprintf("Network %s needs a Service with the name %s, which is invalid (%s): "+
			"replicas have no DNS names there. Use a shorter name for the Pod2 or the Network", network, name, strings.Join(wrong, "; "))}
	}
	if is == nil {
		return nil
	}
	if taken := v.taken("Service", network, is, labels(v.Pod2, network)); taken != nil || is.DeletionTimestamp == nil {
		return taken
	}
	return &plan.Failure{Reason: ReasonWaitingForDeletion, Message: fmt.Sprintf("Service %s is being deleted; the controller then recreates it", name)}
}

// taken returns why the Pod2 cannot have an object with a wanted name; labels are those
// that the object would have.
func (v *view) taken(kind, network string, is metav1.Object, labels map[string]string) *plan.Failure {
	if v.ours(is) || orphaned(is, labels) {
		return nil
	}
	holder := "has no controller"
	if ref := metav1.GetControllerOfNoCopy(is); ref != nil && pod2.IsOwner(ref) && ref.Name == v.Pod2.Name {
		return &plan.Failure{Reason: ReasonWaitingForDeletion, Message: fmt.Sprintf("%s %s of an earlier Pod2 %s still exists", kind, is.GetName(), ref.Name)}
	} else if ref != nil {
		holder = fmt.Sprintf("is owned by %s %s", ref.Kind, ref.Name)
	}
	return &plan.Failure{Reason: ReasonNameTaken, Message: fmt.Sprintf("%s %s already exists and %s: delete it so that replicas can have DNS names on Network %s",
		kind, is.GetName(), holder, network)}
}

// problems returns the problems of all Networks, including those with slices.
func (v *view) problems() []plan.Failure {
	var all []plan.Failure
	for _, s := range v.services {
		switch {
		case s.problem != nil:
			all = append(all, *s.problem)
		case s.hasPorts():
			all = append(all, plan.Failure{Reason: ReasonServiceHasPorts, Message: fmt.Sprintf("Service %s has ports, which let other users forward traffic to any address of Network %s: "+
				"the controller removes them, and replicas have no DNS names there until then", s.name, s.network)})
		}
		for _, want := range s.slices {
			is := find(v.Slices, want.Name)
			if is == nil {
				continue
			}
			if taken := v.taken("EndpointSlice", s.network, is, want.Labels); taken != nil {
				all = append(all, *taken)
			}
		}
	}
	return all
}

func find[T metav1.Object](objects []T, name string) (found T) {
	for _, o := range objects {
		if o.GetName() == name {
			return o
		}
	}
	return found
}

func endpointPod(e discoveryv1.Endpoint) string {
	if e.TargetRef == nil {
		return ""
	}
	return e.TargetRef.Name
}

func labels(p *v1.Pod2, network string) map[string]string {
	return map[string]string{v1.Pod2Label: p.Name, v1.NetworkLabel: network}
}
