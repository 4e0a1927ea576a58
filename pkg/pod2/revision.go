package pod2

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/plan"
)

// revision is a ControllerRevision that exists or is to be created.
type revision struct {
	object *appsv1.ControllerRevision
	// hash is on the pods; revisions that differ only in interfaces or addresses share
	// it.
	hash    string
	content Content
	// exists is true if the object was read, and is not one to create or refuse.
	exists bool
	hashed []byte // the input of the hash
}

// revisions are those of a Pod2. Equal content is one revision, however often users roll
// back to it. Interfaces and addresses are part of the content, but not of the hash on
// the pods.
type revisions struct {
	// update is the revision of the spec. current is the revision that all replicas last
	// had, or update if that is no longer known.
	update, current *revision
	ours            []*revision // those that exist, by number
	create          *appsv1.ControllerRevision
	change          []*appsv1.ControllerRevision // adopted, or with a new number
	collisions      int32
	// tooLarge is the size, in bytes, of a content that is refused; 0 if it is not. Then
	// update is the newest revision that exists, or one that no pod is created from.
	tooLarge int
}

// maxContent bounds the canonical JSON of the content, in bytes. Each pod has all of it,
// in the API server and on its node; CEL cannot measure it. A larger revision that exists
// was accepted by an earlier version, and stays in use.
const maxContent = 256 << 10

// usable reports whether pods can be created from a revision: it exists, or is created
// first.
func (r revisions) usable(from *revision) bool { return from.exists || r.tooLarge == 0 }

func readRevisions(s State) revisions {
	content := ContentOf(s.Pod2)
	hashed := content.withoutDetails().canonical()
	r := revisions{collisions: ptr.Deref(s.Pod2.Status.CollisionCount, 0)}
	taken := map[string]*appsv1.ControllerRevision{}
	records := map[*revision]string{}
	latest := int64(0)
	for _, object := range s.Revisions {
		taken[object.Name] = object
		owner := metav1.GetControllerOfNoCopy(object)
		hash := object.Labels[v1.PodTemplateHashLabel]
		if hash == "" || owner != nil && owner.UID != s.Pod2.UID || object.DeletionTimestamp != nil {
			continue
		}
		revision := &revision{object: object, hash: hash, exists: true}
		if json.Unmarshal(object.Data.Raw, &revision.content) != nil {
			continue
		}
		revision.hashed = withoutDetails(object.Data.Raw)
		revision.content.Networks, records[revision] = revision.recordedNetworks(content.Networks)
		r.ours = append(r.ours, revision)
		latest = max(latest, object.Revision)
		if bytes.Equal(revision.hashed, hashed) && equality.Semantic.DeepEqual(revision.content.Networks, content.Networks) && (r.update == nil || r.update.object.Revision < object.Revision) {
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
		if record := records[revision]; record != "" {
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1.RevisionNetworksAnnotation, record)
		}
		if changed.Revision != revision.object.Revision || len(changed.OwnerReferences) != len(revision.object.OwnerReferences) || records[revision] != "" {
			r.change = append(r.change, changed)
		}
	}
	switch {
	case r.update != nil:
	case len(hashed) <= maxContent || hasReplicas(s, hash(hashed, r.collisions)):
		r.add(s.Pod2, content, latest+1, taken)
	default:
		r.refuse(len(hashed))
	}
	if r.current == nil {
		r.current = r.update
	}
	return r
}

// hasReplicas reports whether replicas have this hash: of a revision that someone
// deleted.
func hasReplicas(s State, hash string) bool {
	return slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool {
		return metav1.IsControlledBy(pod, s.Pod2) && pod.Labels[v1.PodTemplateHashLabel] == hash
	})
}

// refuse keeps replicas at the newest revision, as if the spec had never changed. Without
// one, no replica can be created, and existing ones stay.
func (r *revisions) refuse(size int) {
	r.tooLarge = size
	if len(r.ours) > 0 {
		r.update = r.ours[len(r.ours)-1]
		return
	}
	r.update = &revision{object: &appsv1.ControllerRevision{}}
}

// add names a new revision. It skips a name that has other content. A revision with the
// same content can belong to an earlier Pod2 with the same name, and the garbage
// collector is about to delete it: pods can be created before it is gone.
func (r *revisions) add(p *v1.Pod2, content Content, number int64, taken map[string]*appsv1.ControllerRevision) {
	data, hashed := content.canonical(), content.withoutDetails().canonical()
	known := slices.IndexFunc(r.ours, func(o *revision) bool { return bytes.Equal(o.hashed, hashed) })
	for {
		name, label := p.Name+"-"+hash(data, r.collisions), hash(hashed, r.collisions)
		if known >= 0 {
			label = r.ours[known].hash // pods carry it
		}
		isOther := func(o *revision) bool {
			return o.object.Name == name || known < 0 && o.hash == label // a revision from an earlier release, with other addresses
		}
		other, exists := taken[name]
		if exists && !bytes.Equal(canonical(other.Data.Raw), data) || slices.ContainsFunc(r.ours, isOther) {
			r.collisions++
			continue
		}
		object := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: p.Namespace, Name: name,
				Labels:          map[string]string{v1.Pod2Label: p.Name, v1.PodTemplateHashLabel: label},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, pod2Kind)},
			},
			Data: runtime.RawExtension{Raw: data}, Revision: number,
		}
		if cause := p.Annotations[ChangeCauseAnnotation]; cause != "" {
			metav1.SetMetaDataAnnotation(&object.ObjectMeta, ChangeCauseAnnotation, cause)
		}
		if len(content.Networks) > 0 && bytes.Equal(data, hashed) { // otherwise it would look like one from an earlier release
			metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1.RevisionNetworksAnnotation, networksRecord(content.Networks))
		}
		r.update = &revision{object: object, hash: label, content: content, hashed: hashed}
		if !exists {
			r.create = object
		}
		return
	}
}

// WithCollision returns the status to write when an object has the name of a new revision.
// It is nil for a revision of this Pod2, which the watch will show. The watch never shows
// an object without the label of the Pod2, so the next decision needs another name.
func WithCollision(p *v1.Pod2, holder *appsv1.ControllerRevision) *v1.Pod2Status {
	if holder.Labels[v1.Pod2Label] == p.Name {
		return nil
	}
	status := p.Status.DeepCopy()
	status.CollisionCount = ptr.To(ptr.Deref(status.CollisionCount, 0) + 1)
	return status
}

// unused returns the oldest revisions beyond the limit that no pod uses. Of the revisions
// that share the hash of a pod, the newest is kept.
func (v *view) unused() []plan.Deletion {
	limit := int(ptr.Deref(v.pod2.Spec.RevisionHistoryLimit, 10))
	if len(v.revisions.ours) <= limit {
		return nil
	}
	of := map[string]bool{v.revisions.update.hash: v.steady.count > 0}
	for _, r := range v.unsteady(v.slots) {
		if r.own {
			of[r.hash] = true
		}
	}
	for _, r := range v.surplus {
		of[r.hash] = true
	}
	used := map[*revision]bool{v.revisions.update: true, v.revisions.current: true}
	for _, r := range slices.Backward(v.revisions.ours) {
		used[r] = used[r] || of[r.hash]
		delete(of, r.hash)
	}
	var idle []plan.Deletion
	for _, r := range v.revisions.ours {
		if !used[r] && metav1.IsControlledBy(r.object, v.pod2) {
			idle = append(idle, plan.Delete(r.object, "beyond revisionHistoryLimit"))
		}
	}
	return idle[:max(0, len(idle)-limit)]
}
