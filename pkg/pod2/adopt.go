package pod2

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
func (v *view) adoption(place int, r replica) (a *Adoption, why string) {
	if !r.adoptable() {
		return nil, ""
	}
	if a = v.readoption(r); a != nil {
		return a, ""
	}
	if field := v.unlike(place, r.pod); field != "" {
		return nil, field
	}
	a = v.newAdoption(r, v.revisions.update.hash, "it is as the template has it")
	a.Request = ptr.To(v.requests.of(v.ordinals.At(place)))
	return a, ""
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

func (r revisions) has(hash string) bool {
	return hash == r.update.hash || slices.ContainsFunc(r.ours, func(o *revision) bool { return o.hash == hash })
}

// unlike names the first field in which a pod is not what the update revision
// makes, "" when there is none. What the pod has besides is not looked at: nothing
// tells what a user wrote from what the API server and admission added.
//
//	labels, annotations   those of the template
//	request               reads the same; "b, a" is "a,b"
//	Multus' annotation    our own elements may have been added
//	addresses             given on every Network asked for, or to come: a pod that
//	                      runs without will never have any
//	spec                  what the template and we set, hostname and subdomain too;
//	                      gates only ever go
func (v *view) unlike(place int, pod *corev1.Pod) string {
	made := v.build(place, v.revisions.update)
	want := metav1.ObjectMeta{
		Labels:      maps.Clone(v.revisions.update.content.Template.Labels),
		Annotations: maps.Clone(made.Annotations),
	}
	for _, ours := range ownLabels {
		delete(want.Labels, ours)
	}
	if want.Annotations[v1.MultusAnnotation] != "" {
		requests, _ := attachment.Requests(made) // one that cannot be read is like none
		with, err := attachment.AppendMultus(want.Annotations, pod.Namespace, attachment.Elements(requests, attachment.Published(pod)))
		if err == nil && with.Networks == pod.Annotations[v1.MultusAnnotation] {
			delete(want.Annotations, v1.MultusAnnotation)
		}
	}
	if field := unlikeRequest(pod, made); field != "" {
		return "metadata.annotations[" + field + "]"
	}
	for _, ours := range []string{v1.NetworksAnnotation, v1.Pod2RequestAnnotation, v1.Pod2LabelsAnnotation} {
		delete(want.Annotations, ours)
	}
	made.Spec.SchedulingGates = nil
	is := metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}
	return unlike(document(want, made.Spec), document(is, pod.Spec), "", "")
}

// unlikeRequest names the annotation that is not as it should be.
func unlikeRequest(pod, made *corev1.Pod) string {
	is, isErr := attachment.Requests(pod)
	want, wantErr := attachment.Requests(made)
	if isErr != nil || wantErr != nil || !slices.Equal(is, want) {
		return v1.NetworksAnnotation
	}
	if attachment.Gated(pod) {
		return ""
	}
	published := attachment.Published(pod)
	for _, request := range want {
		if _, ok := published[request.Network]; !ok {
			return v1.AddressesAnnotation
		}
	}
	return ""
}

func document(meta metav1.ObjectMeta, spec corev1.PodSpec) any {
	// What came from the API server encodes, and what is encoded decodes.
	raw, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": meta.Labels, "annotations": meta.Annotations}, "spec": spec,
	})
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	_ = decoder.Decode(&value)
	return value
}

// mergeKeys of the lists whose elements are known by one of their fields, and whether the order
// of those that the template has counts: containers start in it, and a variable may be made
// of those before it.
var mergeKeys = map[string]struct {
	field   string
	ordered bool
}{
	"containers": {"name", true}, "initContainers": {"name", true}, "env": {"name", true},
	"volumes": {"name", false}, "imagePullSecrets": {"name", false}, "ports": {"containerPort", false},
	"volumeMounts": {"mountPath", false}, "volumeDevices": {"devicePath", false},
}

// unlike names the first field of want that is another one in is:
//
//	objects     may have more fields
//	mergeKeys   by that field: admission adds to them anywhere, and a StatefulSet puts the
//	            volumes of its claims first; of two with one key the last counts
//	lists       by position; those of objects may have more at the end, where
//	            admission adds to them, those of values (a command) may not
func unlike(want, is any, path, key string) string {
	switch want := want.(type) {
	case nil:
		return ""
	case map[string]any:
		has, _ := is.(map[string]any)
		if has == nil {
			return path
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if field := unlike(want[key], has[key], below(path, key), key); field != "" {
				return field
			}
		}
		return ""
	case []any:
		has, _ := is.([]any)
		key, before := mergeKeys[key], -1
		for i, element := range want {
			at, _ := element.(map[string]any)
			if at == nil && len(has) != len(want) {
				return path
			}
			name, other := strconv.Itoa(i), any(nil)
			if i < len(has) {
				other = has[i]
			}
			if key.field != "" {
				index := keyed(has, key.field, at)
				if key.ordered && index >= 0 && index < before {
					return path
				}
				if name, other, before = fmt.Sprint(at[key.field]), nil, index; index >= 0 {
					other = has[index]
				}
			}
			if field := unlike(element, other, path+"["+name+"]", ""); field != "" {
				return field
			}
		}
		return ""
	}
	if want != is {
		return path
	}
	return ""
}

// keyed is the index of the last element with the key that another one has, -1 if there is
// none. A port is told by its protocol too, which is TCP where none is given.
func keyed(list []any, field string, of map[string]any) int {
	protocol := func(object map[string]any) string {
		text, _ := object["protocol"].(string)
		return cmp.Or(text, string(corev1.ProtocolTCP))
	}
	for i, element := range slices.Backward(list) {
		object, _ := element.(map[string]any)
		if object[field] == of[field] && (field != "containerPort" || protocol(object) == protocol(of)) {
			return i
		}
	}
	return -1
}

// below writes a path as kubectl explain has it, and keys of users in brackets.
func below(path, key string) string {
	switch {
	case path == "":
		return key
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	}
	return path + "." + key
}
