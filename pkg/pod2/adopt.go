package pod2

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/ordinals"
)

// Adoption makes one incarnation of a pod ours.
type Adoption struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Owner           metav1.OwnerReference
	Labels          map[string]string
	// Request is the new value of the annotation v1.Pod2RequestAnnotation: "" for
	// none, nil to leave it.
	Request *string
	Reason  string
}

// adopt takes the pods in the places of replicas that lack nothing but us, and
// those beyond that were ours, to be scaled down. While there are any, nothing else
// becomes of pods: what is missing or too many is decided once these count. There are
// none while nothing says what a replica is to be like.
func (v *view) adopt() []Adoption {
	if !v.revisions.usable(v.revisions.update) {
		return nil
	}
	var adoptions []Adoption
	for place, r := range v.replicas {
		if a, _ := v.adoption(place, r); a != nil && !v.refusedAdoption(a.UID) {
			adoptions = append(adoptions, *a)
		}
	}
	for _, r := range v.beyond {
		if a := v.readoption(r); a != nil && !v.refusedAdoption(a.UID) {
			adoptions = append(adoptions, *a)
		}
	}
	return adoptions
}

func (v *view) refusedAdoption(uid types.UID) bool {
	_, failed := v.unadoptable[uid]
	return failed
}

// adoption of the pod in the place of a replica, or why not; first match wins. (Of
// a pod in another place the third row alone counts.)
//
//	has a controller, or there is none                no: whose it is stands in the pod
//	terminating, or over                              no: nobody would keep it
//	our label and the hash of one of our revisions    yes: somebody took the owner reference
//	as the update revision has it (see unlike)        yes: it is one of ours but for owner and labels
//	any other                                         no: it differs in that field
//
// Whatever is adopted goes on as it is. One of an older revision of ours is
// updated later, like any.
func (v *view) adoption(place int, r replica) (a *Adoption, why Unlike) {
	if !r.adoptable() {
		return nil, Unlike{}
	}
	if a = v.readoption(r); a != nil {
		return a, Unlike{}
	}
	if why = v.unlike(place, r.pod); why.Field != "" {
		return nil, why
	}
	a = v.newAdoption(r, v.revisions.update.hash, "it matches the template")
	a.Request = ptr.To(v.requests.of(v.ordinals.At(place)))
	return a, Unlike{}
}

func (r replica) adoptable() bool {
	return r.pod != nil && !r.terminating && !r.over && metav1.GetControllerOfNoCopy(r.pod) == nil
}

// readoption of a pod that says of which of our revisions it is; nil for others.
func (v *view) readoption(r replica) *Adoption {
	if !r.adoptable() {
		return nil
	}
	hash := r.pod.Labels[v1.PodTemplateHashLabel]
	if r.pod.Labels[v1.Pod2Label] != v.pod2.Name || !v.revisions.has(hash) {
		return nil
	}
	return v.newAdoption(r, hash, "its owner reference is missing")
}

func (v *view) newAdoption(r replica, hash, reason string) *Adoption {
	ordinal, _ := ordinals.Parse(v.pod2.Name, r.pod.Name)
	return &Adoption{
		Name: r.pod.Name, UID: r.pod.UID, ResourceVersion: r.pod.ResourceVersion,
		Owner: *metav1.NewControllerRef(v.pod2, pod2Kind),
		Labels: map[string]string{
			v1.ManagedLabel:         "true",
			v1.Pod2Label:            v.pod2.Name,
			v1.PodIndexLabel:        strconv.Itoa(int(ordinal)),
			v1.PodTemplateHashLabel: hash,
		},
		Reason: reason,
	}
}

// Orphan is a pod in the place of a replica that another controller owns.
type Orphan struct {
	Pod, Owner string
	// Unlike says why it would not be adopted if its controller left it behind.
	Unlike Unlike
}

// Orphans are the pods that would be adopted, or not, once `kubectl delete
// --cascade=orphan` has removed their controllers. The pods have to be whole: the
// controller's cache keeps no spec of those that another controller owns.
func Orphans(s State) []Orphan {
	v := look(s)
	var orphans []Orphan
	for place, r := range v.replicas {
		if r.pod == nil || r.own || r.terminating || r.over || r.predecessor(v.pod2.Name) != "" {
			continue
		}
		if owner := attachment.Owner(r.pod); owner.Name != "" {
			orphans = append(orphans, Orphan{r.pod.Name, owner.Kind + "/" + owner.Name, v.orphaned(place, r)})
		}
	}
	return orphans
}

// orphaned says in what a pod with a controller is unlike the template; in nothing, if
// it would be adopted without its controller.
func (v *view) orphaned(place int, r replica) Unlike {
	r.pod = r.pod.DeepCopy()
	r.pod.OwnerReferences = nil
	_, why := v.adoption(place, r)
	return why
}

func (r revisions) has(hash string) bool {
	return hash == r.update.hash || slices.ContainsFunc(r.ours, func(o *revision) bool { return o.hash == hash })
}
