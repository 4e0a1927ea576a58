package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/pod2"
)

// inFlight limits the pods that one sync sends to the API server at once, in bytes. Each
// pod is in memory as an object, as a request and as an answer.
const inFlight = 4 << 20

// createsFor is how long one sync begins to create pods. Then it writes the status, and the
// events of the new pods begin the next sync, which creates more.
const createsFor = 500 * time.Millisecond

// createPods creates pods in batches of 1, 2, 4, ... A reason to refuse one pod (a quota,
// an invalid template) usually affects all, and should cause only a few refusals. Pods
// that need a PVC are counted separately from those that have theirs. A sync after a
// failed one begins at a later pod, so the next ones are tried too.
func (r *pod2Kind) createPods(ctx context.Context, key Key, creations []pod2.Creation) (done []pod2.Creation, err error) {
	if len(creations) == 0 {
		return nil, nil
	}
	most := min(atOnce, max(1, inFlight/max(1, creations[0].Pod().Size())))
	if n := len(creations); n > mostRefused {
		first := r.outages.syncs(key) * mostRefused % n
		creations = slices.Concat(creations[first:], creations[:first])
	}
	inARow, errs, began := map[bool]int{}, []error(nil), r.clock.Now()
	for size := 1; len(creations) > 0 && r.clock.Since(began) < createsFor; {
		var batch []pod2.Creation
		for len(creations) > 0 && len(batch) < size {
			if next := creations[0]; inARow[next.NeedsClaims] < mostRefused {
				batch = append(batch, next)
			}
			creations = creations[1:]
		}
		created, err := forEachUntil(ctx, most, batch, afterRefusals(), func(ctx context.Context, c pod2.Creation) error { return r.createReplica(ctx, key, c) })
		done = append(done, created...)
		for _, c := range created {
			inARow[c.NeedsClaims] = 0
		}
		if err == nil {
			size = min(2*size, most) // the time is checked between batches
			continue
		}
		if errs = append(errs, err); isNoRefusal(err) {
			break
		}
		size = 1
		for _, c := range batch {
			if !slices.ContainsFunc(created, func(d pod2.Creation) bool { return d.Name == c.Name }) {
				inARow[c.NeedsClaims]++
			}
		}
	}
	return done, errors.Join(errs...)
}

func isNoRefusal(err error) bool {
	_, refusal := forUser(err)
	return !refusal
}

func (r *pod2Kind) createReplica(ctx context.Context, key Key, c pod2.Creation) error {
	r.podEvents.changed([]Key{key}, c.Name) // the cache may show it and its PVCs before their events
	if _, err := r.createClaims(ctx, key, c.Claims()); err != nil {
		return err
	}
	_, err := r.writePods.create(ctx, key, c.Pod(), c.Reason)
	return err
}

// adopt makes the Pod2 the controller of a pod, in one write that carries the pod's UID
// and resourceVersion. The API server refuses it if the pod has changed or got a
// controller. The patch names our owner reference and keeps the references to other
// owners, which are not controllers.
func (r *pod2Kind) adopt(ctx context.Context, key Key, a pod2.Adoption) error {
	metadata := fenced.Fields{"ownerReferences": []metav1.OwnerReference{a.Owner}, "labels": a.Labels}
	if a.Request != nil {
		metadata["annotations"] = fenced.Fields{v1.Pod2RequestAnnotation: orNull(*a.Request)}
	}
	_, err := r.writePods.patch(ctx, key, fenced.Version(a.Name, a.UID, a.ResourceVersion), "adopt: "+a.Reason, metadata, nil)
	return err
}

// resize asks for other resources of a running pod, through the subresource that allows
// this and nothing else (KEP-1287). An earlier write records the request; a change
// between the two writes makes the API server refuse the second. A resize that the API
// server calls invalid is remembered and causes no error.
func (r *pod2Kind) resize(ctx context.Context, key Key, resize pod2.Resize) error {
	version := resize.ResourceVersion
	if resize.Annotation != "" {
		marked, err := r.writePods.patch(ctx, key, fenced.Version(resize.Name, resize.UID, version), "about to resize: "+resize.Reason,
			fenced.Fields{"annotations": fenced.Fields{v1.InPlaceAnnotation: resize.Annotation}}, nil)
		if err != nil {
			return r.lookAgain(ctx, key, resize.Name, err)
		}
		version = marked.ResourceVersion
	}
	var containers []any
	for _, name := range slices.Sorted(maps.Keys(resize.Resources)) {
		containers = append(containers, fenced.Fields{"name": name, "resources": resize.Resources[name]})
	}
	_, err := r.writePods.patch(ctx, key, fenced.Version(resize.Name, resize.UID, version), "resize: "+resize.Reason,
		nil, fenced.Fields{"spec": fenced.Fields{"containers": containers}}, "resize")
	if message, mendable := forUser(err); mendable && apierrors.IsInvalid(err) {
		// The reason (the QoS class, changes by admission, a node that cannot) is about
		// this pod, and another pod may succeed.
		r.refusedResizes.remember(key, resize.UID, pod2.Refusal{Resources: resize.Resources, Message: message})
		klog.FromContext(ctx).Info("Pod cannot be resized and will be recreated", "pod", resize.Name, "reason", message)
		return nil
	}
	return r.lookAgain(ctx, key, resize.Name, err)
}

// updateInPlace changes a running pod. The same write records its new revision or
// Sidecars, and which containers restart for it.
func (r *shared) updateInPlace(ctx context.Context, key Key, u pod2.InPlaceUpdate) error {
	spec := fenced.Fields{}
	for list, images := range map[string]map[string]string{"containers": u.Images, "initContainers": u.InitImages} {
		var containers []any
		for _, name := range slices.Sorted(maps.Keys(images)) {
			containers = append(containers, fenced.Fields{"name": name, "image": images[name]})
		}
		if len(containers) > 0 {
			spec[list] = containers
		}
	}
	rest, annotations := fenced.Fields{}, given(u.Given, fenced.Fields{})
	if len(spec) > 0 {
		rest["spec"] = spec
	}
	for annotation, value := range map[string]string{v1.InPlaceAnnotation: u.Annotation, v1.SidecarsAnnotation: u.Sidecars} {
		if value != "" {
			annotations[annotation] = value
		}
	}
	metadata := fenced.Fields{"annotations": annotations}
	if len(u.Labels) > 0 {
		metadata["labels"] = u.Labels
	}
	_, err := r.writePods.patch(ctx, key, fenced.Version(u.Name, u.UID, u.ResourceVersion), "update in place: "+u.Reason, metadata, rest)
	return r.lookAgain(ctx, key, u.Name, err)
}

// relabel changes labels of a pod. The same write records which of them the Pod2 set.
func (r *pod2Kind) relabel(ctx context.Context, key Key, l pod2.Relabelling) error {
	_, err := r.writePods.patch(ctx, key, fenced.Version(l.Name, l.UID, l.ResourceVersion), l.String(),
		fenced.Fields{"labels": l.Labels, "annotations": given(l.Given, fenced.Fields{})}, nil)
	return r.lookAgain(ctx, key, l.Name, err)
}

// lookAgain remembers the current version of a changed pod. It may have lost the label
// that our watch selects.
func (r *shared) lookAgain(ctx context.Context, key Key, name string, err error) error {
	if apierrors.IsConflict(err) {
		_ = r.writePods.look(ctx, key.Namespace, name) // the caller reports the conflict, and the next sync looks again
	}
	return err
}

func (r *pod2Kind) delete(ctx context.Context, key Key, d pod2.PodDeletion) error {
	return r.lookAgain(ctx, key, d.Name, r.writePods.delete(ctx, key, d.Deletion))
}

// given adds the record of the labels that a Pod2 set to the annotations of a patch.
func given(record *string, annotations fenced.Fields) fenced.Fields {
	if record != nil {
		annotations[v1.Pod2LabelsAnnotation] = orNull(*record)
	}
	return annotations
}

// orNull is the value of an annotation in a patch: null deletes it.
func orNull(value string) any {
	if value == "" {
		return nil
	}
	return value
}
