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

// Adoption makes the Pod2 the controller of one pod, by UID.
type Adoption struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Owner           metav1.OwnerReference
	Labels          map[string]string
	// Request is the new value of the annotation v1.Pod2RequestAnnotation: "" removes it,
	// nil leaves it unchanged.
	Request *string
	Reason  string
}

// adopt returns the pods to adopt. They have the names of replicas and lack only the
// owner, or they belonged to this Pod2 earlier and are to be scaled down. While there are
// any, nothing else is decided about pods: these must count first. Nothing is adopted
// while no revision says how a replica must look.
func (v *view) adopt() []Adoption {
	if !v.revisions.usable(v.revisions.update) {
		return nil
	}
	var adoptions []Adoption
	for place, r := range v.unsteady(v.replicas) {
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

// adoption returns the adoption of the pod in the place of a replica, or why there is
// none. The first match wins. (For a pod in another place only the third row counts.)
//
//	has a controller, or there is no pod              no: the pod names its owner
//	terminating, or terminated                        no: it would not last
//	the Pod2's label and the hash of a known revision yes: someone removed the owner reference
//	matches the update revision (see unlike)          yes: only owner and labels are missing
//	any other                                         no: it differs in that field
//
// An adopted pod stays unchanged. If it has an older revision, it is updated later, like
// any other pod.
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
	return r.pod != nil && !r.terminating && !r.over && r.controller == nil
}

// readoption returns the adoption of a pod that names a known revision; nil for other
// pods.
func (v *view) readoption(r replica) *Adoption {
	if !r.adoptable() {
		return nil
	}
	if r.pod.Labels[v1.Pod2Label] != v.pod2.Name || !v.revisions.has(r.hash) {
		return nil
	}
	return v.newAdoption(r, r.hash, "its owner reference is missing")
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

// Orphan is a pod in the place of a replica, owned by another controller.
type Orphan struct {
	Pod, Owner string
	// Unlike says why it would not be adopted if its controller orphaned it.
	Unlike Unlike
}

// Orphans returns the pods that could be adopted once `kubectl delete --cascade=orphan`
// has removed their controllers, and whether each would be. The pods must be complete:
// the controller's cache drops the spec of pods that another controller owns.
func Orphans(s State) []Orphan {
	v := look(s)
	var orphans []Orphan
	for place, r := range v.unsteady(v.replicas) {
		if r.pod == nil || r.own || r.terminating || r.over || r.predecessor(v.pod2.Name) != "" {
			continue
		}
		if owner := attachment.Owner(r.pod); owner.Name != "" {
			orphans = append(orphans, Orphan{r.pod.Name, owner.Kind + "/" + owner.Name, v.orphaned(place, r)})
		}
	}
	return orphans
}

// orphaned returns the first difference between a pod and the template. It is empty if
// the pod would be adopted once its controller is removed.
func (v *view) orphaned(place int, r replica) Unlike {
	without := r.pod.DeepCopy()
	without.OwnerReferences = nil
	r.fact = factOf(without)
	_, why := v.adoption(place, r)
	return why
}

func (r revisions) has(hash string) bool {
	return hash == r.update.hash || slices.ContainsFunc(r.ours, func(o *revision) bool { return o.hash == hash })
}
