package pod2

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Content is what a replica is made from, but for its ordinal and the addresses
// wanted for it, which differ by replica.
type Content struct {
	Template    corev1.PodTemplateSpec `json:"template"`
	Networks    []string               `json:"networks"`
	ServiceName string                 `json:"serviceName"`
}

// ContentOf a spec.
func ContentOf(p *v1.Pod2) Content {
	networks := make([]string, 0, len(p.Spec.Networks))
	for _, n := range p.Spec.Networks {
		networks = append(networks, n.Name)
	}
	slices.Sort(networks)
	return Content{Template: p.Spec.Template, Networks: networks, ServiceName: p.Spec.ServiceName}
}

// canonical JSON of what the user set, keys sorted and without nulls and empty
// maps and lists. It survives a release of the Kubernetes API whose types have new
// fields, so that a controller upgrade replaces no pod:
//
//	{"containers":[{"name":"a","image":"x","resources":{}}]}   the same
//	{"containers":[{"name":"a","image":"x"}]}                  as this
//
// An empty selector stays: it selects everything, where none selects nothing.
func (c Content) canonical() []byte {
	// Every value that came from the API server encodes. Should another fail, its
	// hash is that of nothing: stable, like any.
	raw, _ := json.Marshal(c)
	return canonical(raw)
}

// RevisionHash identifies the content of a spec. It is a label value of 10
// characters, and the end of the name of a ControllerRevision.
func RevisionHash(p *v1.Pod2) string { return hash(ContentOf(p).canonical(), 0) }

// revision is a ControllerRevision, or one that is to be.
type revision struct {
	object  *appsv1.ControllerRevision
	hash    string
	content Content
}

// revisions of a Pod2. Equal content is one revision, however often it is gone
// back to.
type revisions struct {
	// update is of the spec; current is what all replicas were last made from, update
	// if that is not known any more.
	update, current *revision
	ours            []*revision // that exist, by number
	create          *appsv1.ControllerRevision
	change          []*appsv1.ControllerRevision // adopted, or numbered anew
	collisions      int32
}

func readRevisions(s State) revisions {
	content := ContentOf(s.Pod2)
	data := content.canonical()
	r := revisions{collisions: ptr.Deref(s.Pod2.Status.CollisionCount, 0)}
	taken := map[string]*appsv1.ControllerRevision{}
	latest := int64(0)
	for _, object := range s.Revisions {
		taken[object.Name] = object
		owner := metav1.GetControllerOfNoCopy(object)
		hash := object.Labels[v1.PodTemplateHashLabel]
		if hash == "" || owner != nil && owner.UID != s.Pod2.UID || object.DeletionTimestamp != nil {
			continue
		}
		revision := &revision{object: object, hash: hash}
		if json.Unmarshal(object.Data.Raw, &revision.content) != nil {
			continue
		}
		r.ours = append(r.ours, revision)
		latest = max(latest, object.Revision)
		if bytes.Equal(canonical(object.Data.Raw), data) && (r.update == nil || r.update.object.Revision < object.Revision) {
			r.update = revision
		}
		if object.Name == s.Pod2.Status.CurrentRevision {
			r.current = revision
		}
	}
	slices.SortStableFunc(r.ours, func(a, b *revision) int { return cmp.Compare(a.object.Revision, b.object.Revision) })
	for _, revision := range r.ours {
		changed := revision.object.DeepCopy()
		if metav1.GetControllerOfNoCopy(changed) == nil {
			changed.OwnerReferences = append(changed.OwnerReferences, *metav1.NewControllerRef(s.Pod2, pod2Kind))
		}
		if revision == r.update && changed.Revision < latest {
			changed.Revision = latest + 1
		}
		if changed.Revision != revision.object.Revision || len(changed.OwnerReferences) != len(revision.object.OwnerReferences) {
			r.change = append(r.change, changed)
		}
	}
	if r.update == nil {
		r.add(s.Pod2, content, data, latest+1, taken)
	}
	if r.current == nil {
		r.current = r.update
	}
	return r
}

// add names a new revision. A name that has other content is passed over. One of
// an earlier Pod2 of this name with the same content is about to be removed by the
// garbage collector: the pods can be made before it is gone.
func (r *revisions) add(p *v1.Pod2, content Content, data []byte, number int64, taken map[string]*appsv1.ControllerRevision) {
	for {
		name := p.Name + "-" + hash(data, r.collisions)
		other, exists := taken[name]
		if exists && !bytes.Equal(canonical(other.Data.Raw), data) {
			r.collisions++
			continue
		}
		object := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: p.Namespace, Name: name,
				Labels:          map[string]string{v1.Pod2Label: p.Name, v1.PodTemplateHashLabel: hash(data, r.collisions)},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, pod2Kind)},
			},
			Data: runtime.RawExtension{Raw: data}, Revision: number,
		}
		if cause := p.Annotations[ChangeCauseAnnotation]; cause != "" {
			object.Annotations = map[string]string{ChangeCauseAnnotation: cause}
		}
		r.update = &revision{object: object, hash: hash(data, r.collisions), content: content}
		if !exists {
			r.create = object
		}
		return
	}
}

// unused are the oldest revisions beyond the limit that nothing was made from.
func (v *view) unused() []Deletion {
	used := map[string]bool{v.revisions.update.hash: true, v.revisions.current.hash: true}
	for _, r := range slices.Concat(v.replicas, v.surplus, v.surge) {
		if r.own {
			used[r.pod.Labels[v1.PodTemplateHashLabel]] = true
		}
	}
	var idle []Deletion
	for _, r := range v.revisions.ours {
		if !used[r.hash] && metav1.IsControlledBy(r.object, v.pod2) {
			idle = append(idle, Deletion{Name: r.object.Name, UID: r.object.UID, ResourceVersion: r.object.ResourceVersion, Reason: "beyond the history limit"})
		}
	}
	return idle[:max(0, len(idle)-int(ptr.Deref(v.pod2.Spec.RevisionHistoryLimit, 10)))]
}

// Letters that spell no word and cannot be mistaken for one another, as in the
// names that Kubernetes generates; 10 of them are 47 bits.
const (
	hashLetters = "bcdfghjklmnpqrstvwxz2456789"
	hashLength  = 10
)

func hash(text []byte, collisions int32) string {
	if collisions > 0 {
		text = strconv.AppendInt(slices.Clip(text), int64(collisions), 10)
	}
	sum := sha256.Sum256(text)
	n := binary.BigEndian.Uint64(sum[:])
	letters := make([]byte, hashLength)
	for i := range letters {
		letters[i] = hashLetters[n%uint64(len(hashLetters))]
		n /= uint64(len(hashLetters))
	}
	return string(letters)
}

// canonical JSON; nil for what is not JSON.
func canonical(raw []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // an int64 would lose digits as a float64
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil
	}
	prune(value)
	text, _ := json.Marshal(value)
	return text
}

// prune removes fields without content, from the innermost out. Elements of
// lists stay, because their place may count.
func prune(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			prune(element)
		}
	case map[string]any:
		for key, field := range value {
			prune(field)
			if blank(field, strings.HasSuffix(strings.ToLower(key), "selector")) {
				delete(value, key)
			}
		}
	}
}

func blank(value any, selector bool) bool {
	switch value := value.(type) {
	case nil:
		return true
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0 && !selector
	}
	return false
}
