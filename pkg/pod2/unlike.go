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

// Unlike is the first field in which a pod is not what the template makes; the zero
// value when there is none.
type Unlike struct {
	Field        string
	has, differs any // what the pod has there, and the template; nil for nothing
}

// String is "spec.hostname (the pod has "a", the template "b")". The field alone is told where a
// password may stand: who reads the condition may not be one who reads the pod.
func (u Unlike) String() string {
	if strings.Contains(u.Field, "].env[") || strings.Contains(u.Field, "].args") || strings.Contains(u.Field, "].command") {
		return shorten.To(u.Field, maxCause)
	}
	return fmt.Sprintf("%s (the pod has %s, the template %s)", shorten.To(u.Field, maxCause), valueText(u.has), valueText(u.differs))
}

// valueText is a value as JSON, shortened.
func valueText(value any) string {
	if value == nil {
		return "nothing"
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // it was decoded from JSON
	return shorten.To(strings.TrimSuffix(text.String(), "\n"), maxCause)
}

// unlike finds the first field in which a pod is not what the update revision
// makes. What the pod has besides is not looked at: nothing
// tells what a user wrote from what the API server and admission added.
//
//	labels, annotations   those of the template
//	request               reads the same; "b, a" is "a,b"
//	Multus' annotation    our own elements may have been added
//	addresses             given on every Network asked for, or to come: a pod that
//	                      runs without will never have any
//	spec                  what the template and we set, hostname and subdomain too;
//	                      gates only ever go
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
		requests, _ := attachment.Requests(made) // one that cannot be read is like none
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

// unlikeRequest looks at the annotations that ask for addresses and give them.
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
	if isErr != nil || wantErr != nil || !slices.Equal(is, want) {
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

// unlike finds the first field of want that is another one in is:
//
//	objects     may have more fields
//	mergeKeys   by that field: admission adds to them anywhere, and a StatefulSet puts the
//	            volumes of its claims first; of two with one key the last counts
//	lists       by position; those of objects may have more at the end, where
//	            admission adds to them, those of values (a command) may not
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

// keysOf a list are those by which its elements are known, in order.
func keysOf(list []any, field string) []any {
	keys := make([]any, 0, len(list))
	for _, element := range list {
		object, _ := element.(map[string]any)
		keys = append(keys, object[field])
	}
	return keys
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
