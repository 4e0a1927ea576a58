package pod2

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
)

// Relabelling changes the labels of one owned pod, by UID, and restarts nothing.
type Relabelling struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	// Labels to set; nil removes one.
	Labels map[string]*string
	// Given is the new value of the annotation v1.Pod2LabelsAnnotation: "" removes it,
	// nil leaves it unchanged.
	Given *string
}

// keys returns the keys of the labels, for people.
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

// given holds the labels that pods of one revision get from the Pod2 itself.
type given struct {
	labels map[string]string
	// record is their JSON, the annotation v1.Pod2LabelsAnnotation; "" for none.
	record string
	// template has the labels that take precedence over those of the Pod2.
	template map[string]string
	// known is true if the revision is known.
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

// givenTo returns the labels for pods of the revision with that hash. It keeps them,
// because many pods have the same revision.
func (v *view) givenTo(hash string) given {
	if update := v.revisions.update; hash == update.hash { // nearly always
		if !v.givenNow.known {
			v.givenNow = newGiven(v.pod2, update.content.Template.Labels)
		}
		return v.givenNow
	}
	g, ok := v.given[hash]
	if !ok {
		for _, r := range v.revisions.ours {
			if r.hash == hash {
				g = newGiven(v.pod2, r.content.Template.Labels)
			}
		}
		v.given[hash] = g
	}
	return g
}

// relabelling returns the change that an owned pod's labels need, nil if they are
// correct:
//
//	the controller's, except the hash   as at creation, in any state of the pod: the labels are
//	                                    how components find the pod. Nothing else knows the
//	                                    hash, so a pod without it is recreated.
//	those of the Pod2                   set and removed when they differ from the record, which
//	                                    has those that the pod was given last. Until then, a
//	                                    user's change in the pod stays.
//	those of the template               never: they belong to its revision, see inPlace
//
// A pod without a record is from an earlier release, was adopted, or was created when the
// Pod2 had no labels. It gets the labels that it lacks.
func (v *view) relabelling(r replica, g given) *Relabelling {
	if r.labelled && r.prefix == v.pod2.Name && (r.given == g.record || !g.known || r.terminating || r.over) {
		return nil
	}
	var l Relabelling
	l.set(r.pod, v1.ManagedLabel, "true")
	l.set(r.pod, v1.Pod2Label, v.pod2.Name)
	if _, ok := ordinals.Parse(v.pod2.Name, r.pod.Name); ok {
		l.set(r.pod, v1.PodIndexLabel, r.pod.Name[len(v.pod2.Name)+len("-"):]) // the ordinal
	}
	if g.known && !r.terminating && !r.over {
		l.give(r.pod, g)
	}
	if l.Labels == nil && l.Given == nil {
		return nil
	}
	return &Relabelling{Name: r.pod.Name, UID: r.pod.UID, ResourceVersion: r.pod.ResourceVersion, Labels: l.Labels, Given: l.Given}
}

func (l *Relabelling) set(pod *corev1.Pod, key, value string) {
	if is, ok := pod.Labels[key]; !ok || is != value {
		l.write(key, ptr.To(value)) // a copy, which only the pods to be changed need
	}
}

func (l *Relabelling) write(key string, value *string) {
	if l.Labels == nil { // for most pods there is nothing to write
		l.Labels = map[string]*string{}
	}
	l.Labels[key] = value
}

// give adds the changes that give a pod the labels of its Pod2.
func (l *Relabelling) give(pod *corev1.Pod, g given) {
	text := pod.Annotations[v1.Pod2LabelsAnnotation]
	if text == g.record && text != "" {
		return
	}
	was := givenBefore(text)
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

// givenBefore reads the record of a pod; nil if the controller did not write it.
func givenBefore(record string) map[string]string {
	if record == "" { // most pods have none
		return nil
	}
	var labels map[string]string
	if json.Unmarshal([]byte(record), &labels) != nil {
		return nil
	}
	return labels
}

// relabel returns the label changes of pods that this plan does not change otherwise.
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
	for r := range v.allUnsteady() {
		if r.relabelling != nil && !touched[r.pod.UID] && len(all) < maxPods {
			all = append(all, *r.relabelling)
		}
	}
	return all
}
