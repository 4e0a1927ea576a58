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

	"github.com/pod2/pod2/internal/shorten"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
)

// Unlike is the first field in which a pod differs from the one that the template makes;
// the zero value if there is none.
type Unlike struct {
	Field        string
	has, differs any // the values of the pod and of the template; nil for none
}

// String returns "spec.hostname (the pod has "a", the template "b")". It returns the
// field alone if its value may be a password, because people who read the condition may
// not be allowed to read the pod.
func (u Unlike) String() string {
	if strings.Contains(u.Field, "].env[") || strings.Contains(u.Field, "].args") || strings.Contains(u.Field, "].command") {
		return shorten.To(u.Field, maxCause)
	}
	return fmt.Sprintf("%s (the pod has %s, the template %s)", shorten.To(u.Field, maxCause), valueText(u.has), valueText(u.differs))
}

// valueText returns a value as JSON, shortened.
func valueText(value any) string {
	if value == nil {
		return "nothing"
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // decoded from JSON, so it encodes
	return shorten.To(strings.TrimSuffix(text.String(), "\n"), maxCause)
}

// unlike returns the first field in which a pod differs from the one that the update
// revision makes. It ignores fields that only the pod has, because nothing distinguishes
// a user's fields from those that the API server and admission added.
//
//	labels, annotations   those of the template
//	request               the meaning must be equal; "b, a" equals "a,b". A pod with Sidecars
//	                      may ask for their Networks too
//	Multus' annotation    may have the controller's elements too
//	addresses             published for every requested Network, or still to come: a pod
//	                      that runs without one never gets it
//	spec                  the fields that the template and the controller set, also hostname
//	                      and subdomain; gates are ignored, because they are only removed
func (v *view) unlike(place int, pod *corev1.Pod) Unlike {
	made := v.build(place, v.revisions.update)
	want := metav1.ObjectMeta{
		Labels:      maps.Clone(v.revisions.update.content.Template.Labels),
		Annotations: maps.Clone(made.Annotations),
	}
	for _, ours := range ownLabels {
		delete(want.Labels, ours)
	}
	if want.Annotations[v1.MultusAnnotation] != "" {
		requests, _ := attachment.Requests(made) // an unreadable one counts as none
		with, err := attachment.AppendMultus(want.Annotations, pod.Namespace, attachment.Elements(requests, attachment.Published(pod)))
		if err == nil && with.Networks == pod.Annotations[v1.MultusAnnotation] {
			delete(want.Annotations, v1.MultusAnnotation)
		}
	}
	if why := unlikeRequest(pod, made); why.Field != "" {
		return why
	}
	for _, ours := range []string{v1.NetworksAnnotation, v1.Pod2RequestAnnotation, v1.Pod2LabelsAnnotation} {
		delete(want.Annotations, ours)
	}
	made.Spec.SchedulingGates = nil
	is := metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}
	return unlike(document(want, made.Spec), document(is, pod.Spec), "", "")
}

// unlikeRequest compares the annotations that request and publish addresses.
func unlikeRequest(pod, made *corev1.Pod) Unlike {
	annotation := func(key string, differs any) Unlike {
		why := Unlike{Field: "metadata.annotations[" + key + "]", differs: differs}
		if value, ok := pod.Annotations[key]; ok {
			why.has = value
		}
		return why
	}
	is, isErr := attachment.Requests(pod)
	want, wantErr := attachment.Requests(made)
	if isErr != nil || wantErr != nil || !asksFor(pod, is, want) {
		if value, ok := made.Annotations[v1.NetworksAnnotation]; ok {
			return annotation(v1.NetworksAnnotation, value)
		}
		return annotation(v1.NetworksAnnotation, nil)
	}
	if attachment.Gated(pod) {
		return Unlike{}
	}
	published := attachment.Published(pod)
	for _, request := range want {
		if _, ok := published[request.Network]; !ok {
			return annotation(v1.AddressesAnnotation, "an address of "+request.Network)
		}
	}
	return Unlike{}
}

// asksFor says whether the requests of a pod are those that the template makes.
func asksFor(pod *corev1.Pod, is, want []attachment.Request) bool {
	if pod.Annotations[v1.SidecarsAnnotation] != "" {
		is = slices.DeleteFunc(slices.Clone(is), func(r attachment.Request) bool { return !slices.Contains(want, r) })
	}
	return slices.Equal(is, want)
}

func document(meta metav1.ObjectMeta, spec corev1.PodSpec) any {
	// Objects from the API server encode, and their encoding decodes.
	raw, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": meta.Labels, "annotations": meta.Annotations}, "spec": spec,
	})
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	_ = decoder.Decode(&value)
	return value
}

// mergeKeys are the lists whose elements are identified by a field, and whether the order
// of the template's elements counts. Containers start in that order, and a variable may
// use those before it.
var mergeKeys = map[string]struct {
	field   string
	ordered bool
}{
	"containers": {"name", true}, "initContainers": {"name", true}, "env": {"name", true},
	"volumes": {"name", false}, "imagePullSecrets": {"name", false}, "ports": {"containerPort", false},
	"volumeMounts": {"mountPath", false}, "volumeDevices": {"devicePath", false},
}

// unlike returns the first field of want that has another value in is:
//
//	objects     may have more fields
//	mergeKeys   by that field: admission adds elements anywhere, and a StatefulSet puts the
//	            volumes of its PVCs first; of two with the same key the last counts
//	lists       by position; lists of objects may have more at the end, where
//	            admission adds them, and lists of values (a command) may not
func unlike(want, is any, path, key string) Unlike {
	switch want := want.(type) {
	case nil:
		return Unlike{}
	case map[string]any:
		has, _ := is.(map[string]any)
		if has == nil {
			return Unlike{path, is, want}
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if why := unlike(want[key], has[key], below(path, key), key); why.Field != "" {
				return why
			}
		}
		return Unlike{}
	case []any:
		has, _ := is.([]any)
		key, before := mergeKeys[key], -1
		for i, element := range want {
			at, _ := element.(map[string]any)
			if at == nil && len(has) != len(want) {
				return Unlike{path, is, want}
			}
			name, other := strconv.Itoa(i), any(nil)
			if i < len(has) {
				other = has[i]
			}
			if key.field != "" {
				index := keyed(has, key.field, at)
				if key.ordered && index >= 0 && index < before {
					return Unlike{path, keysOf(has, key.field), keysOf(want, key.field)}
				}
				if name, other, before = fmt.Sprint(at[key.field]), nil, index; index >= 0 {
					other = has[index]
				}
			}
			if why := unlike(element, other, path+"["+name+"]", ""); why.Field != "" {
				return why
			}
		}
		return Unlike{}
	}
	if want != is {
		return Unlike{path, is, want}
	}
	return Unlike{}
}

// keysOf returns the keys of the elements of a list, in order.
func keysOf(list []any, field string) []any {
	keys := make([]any, 0, len(list))
	for _, element := range list {
		object, _ := element.(map[string]any)
		keys = append(keys, object[field])
	}
	return keys
}

// keyed returns the index of the last element with the same key, -1 if there is none. The
// key of a port includes its protocol, which defaults to TCP.
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

// below appends a key to a path. Keys with a dot or a slash are in brackets:
// annotations[example.com/a].
func below(path, key string) string {
	switch {
	case path == "":
		return key
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	}
	return path + "." + key
}
