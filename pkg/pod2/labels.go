package pod2

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// Relabelling changes the labels of one incarnation of a pod of ours, and nothing that runs.
type Relabelling struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	// Labels to be set; nil takes one away.
	Labels map[string]*string
	// Given is the new value of the annotation v1.Pod2LabelsAnnotation: "" for none, nil to
	// leave it.
	Given *string
}

// keys of the labels, for people.
func (l Relabelling) keys() string { return strings.Join(slices.Sorted(maps.Keys(l.Labels)), ", ") }

func (l Relabelling) String() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(l.Labels)) {
		if value := l.Labels[key]; value != nil {
			all = append(all, "set "+key+"="+*value)
		} else {
			all = append(all, "remove "+key)
		}
	}
	switch {
	case l.Given == nil:
	case *l.Given == "":
		all = append(all, "remove the record")
	default:
		all = append(all, "record "+*l.Given)
	}
	return fmt.Sprintf("label %s (uid %s): %s", l.Name, l.UID, strings.Join(all, "; "))
}

// given are the labels that pods of one revision have from the Pod2 itself.
type given struct {
	labels map[string]string
	// record is their JSON, the annotation v1.Pod2LabelsAnnotation; "" for none.
	record string
	// template has the labels that come before those of the Pod2.
	template map[string]string
	// known says that the revision is.
	known bool
}

var ownLabels = []string{v1.ManagedLabel, v1.Pod2Label, v1.PodIndexLabel, v1.PodTemplateHashLabel}

func newGiven(p *v1.Pod2, template map[string]string) given {
	g := given{labels: maps.Clone(p.Labels), template: template, known: true}
	maps.DeleteFunc(g.labels, func(key, _ string) bool {
		_, overridden := template[key]
		return overridden || slices.Contains(ownLabels, key)
	})
	if len(g.labels) > 0 {
		text, _ := json.Marshal(g.labels) // strings always encode
		g.record = string(text)
	}
	return g
}

// givenTo pods of the revision with that hash; many pods are of the same.
func (v *view) givenTo(hash string) given {
	g, ok := v.given[hash]
	if !ok {
		for _, r := range append(slices.Clone(v.revisions.ours), v.revisions.update) {
			if r.hash == hash {
				g = newGiven(v.pod2, r.content.Template.Labels)
			}
		}
		v.given[hash] = g
	}
	return g
}

// relabelling of a pod of ours whose labels are not as they should be, nil if they are:
//
//	ours, but for the hash   as they are at creation, whatever becomes of the pod: what looks
//	                         for the pod finds it by them. The hash is known to nobody else: a
//	                         pod without it is recreated.
//	those of the Pod2        set and removed when they are other ones than those on record,
//	                         which the pod was given last. What somebody changed in the pod
//	                         stays until then.
//	those of the template    never: they belong to its revision, see inPlace
//
// A pod without a record is of an earlier release, was adopted, or was made when the Pod2 had
// no labels: it gets what it lacks.
func (v *view) relabelling(r replica, g given) *Relabelling {
	var l Relabelling
	l.set(r.pod, v1.ManagedLabel, "true")
	l.set(r.pod, v1.Pod2Label, v.pod2.Name)
	if ordinal, ok := ordinals.Parse(v.pod2.Name, r.pod.Name); ok {
		l.set(r.pod, v1.PodIndexLabel, strconv.Itoa(int(ordinal)))
	}
	if g.known && !r.terminating && !r.over {
		l.give(r.pod, g)
	}
	if l.Labels == nil && l.Given == nil {
		return nil
	}
	l.Name, l.UID, l.ResourceVersion = r.pod.Name, r.pod.UID, r.pod.ResourceVersion
	return &l
}

func (l *Relabelling) set(pod *corev1.Pod, key, value string) {
	if is, ok := pod.Labels[key]; !ok || is != value {
		l.write(key, &value)
	}
}

func (l *Relabelling) write(key string, value *string) {
	if l.Labels == nil { // for most pods there is nothing to write
		l.Labels = map[string]*string{}
	}
	l.Labels[key] = value
}

// give a pod what its Pod2 has for it.
func (l *Relabelling) give(pod *corev1.Pod, g given) {
	text := pod.Annotations[v1.Pod2LabelsAnnotation]
	if text == g.record && text != "" {
		return
	}
	var was map[string]string
	if json.Unmarshal([]byte(text), &was) != nil { // there is none, or we did not write it
		was = nil
	}
	if was != nil && maps.Equal(was, g.labels) {
		return
	}
	before := len(l.Labels)
	for key, value := range g.labels {
		if had, ok := was[key]; !ok || had != value {
			l.set(pod, key, value)
		}
	}
	for key, value := range was {
		_, wanted := g.labels[key]
		_, templates := g.template[key]
		if is, ok := pod.Labels[key]; ok && is == value && !wanted && !templates && !slices.Contains(ownLabels, key) {
			l.write(key, nil)
		}
	}
	if len(l.Labels) > before || text != "" {
		l.Given = ptr.To(g.record)
	}
}

// relabel pods to which this plan does nothing else.
func (v *view) relabel(p Plan) []Relabelling {
	touched := map[types.UID]bool{}
	for _, d := range p.Delete {
		touched[d.UID] = true
	}
	for _, u := range p.Resize {
		touched[u.UID] = true
	}
	for _, u := range p.InPlace {
		touched[u.UID] = true
	}
	var all []Relabelling
	for r := range v.all() {
		if r.relabelling != nil && !touched[r.pod.UID] && len(all) < maxPods {
			all = append(all, *r.relabelling)
		}
	}
	return all
}
