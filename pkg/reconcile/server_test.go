package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

func (w *world) react(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		call := render(action)
		var err error
		if w.refuse != nil {
			err = w.refuse(call)
		}
		var obj runtime.Object
		if err == nil {
			obj, err = w.serve(tracker, action)
		}
		if err != nil {
			call += " -> " + string(apierrors.ReasonForError(err))
		}
		w.calls = append(w.calls, call)
		return true, obj, err
	}
}

// serve answers as an API server would.
func (w *world) serve(tracker clienttesting.ObjectTracker, action clienttesting.Action) (runtime.Object, error) {
	resource := action.GetResource().GroupResource()
	stored := func(name string) (runtime.Object, error) {
		return tracker.Get(action.GetResource(), action.GetNamespace(), name)
	}
	switch a := action.(type) {
	case clienttesting.CreateActionImpl:
		if w.answer != nil {
			w.answer(a.Object)
		}
		created := object(a.Object)
		created.SetUID(types.UID("uid-of-" + created.GetName()))
		created.SetResourceVersion(w.next())
	case clienttesting.UpdateActionImpl:
		return nil, apierrors.NewBadRequest("an update deletes the fields that our types do not know: patch")
	case clienttesting.PatchActionImpl:
		old, err := stored(a.Name)
		if err != nil {
			return nil, err
		}
		if err := w.checkPatch(a, object(old)); err != nil {
			return nil, err
		}
		a.Patch = withVersion(a.Patch, w.next())
		return w.patch(tracker, a)
	case clienttesting.DeleteActionImpl:
		old, err := stored(a.Name)
		if err != nil {
			return nil, err
		}
		p := a.DeleteOptions.Preconditions
		if p != nil && (p.UID != nil && *p.UID != object(old).GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != object(old).GetResourceVersion()) {
			return nil, apierrors.NewConflict(resource, a.Name, nil)
		}
	case clienttesting.ListActionImpl:
		return w.page(tracker, a)
	}
	_, obj, err := clienttesting.ObjectReaction(tracker)(action)
	return obj, err
}

func (w *world) patch(tracker clienttesting.ObjectTracker, a clienttesting.PatchActionImpl) (runtime.Object, error) {
	_, obj, err := clienttesting.ObjectReaction(tracker)(a)
	if err == nil && w.answer != nil {
		w.answer(obj)
		err = tracker.Update(a.GetResource(), obj, a.GetNamespace())
	}
	return obj, err
}

// checkPatch refuses as an API server does: another resourceVersion is a
// conflict, another UID an attempt to change an immutable field. What an API server
// would ignore, as a status is written apart, is refused too.
func (w *world) checkPatch(a clienttesting.PatchActionImpl, old metav1.Object) error {
	uid, version := preconditions(a.Patch)
	var body map[string]any
	if err := json.Unmarshal(a.Patch, &body); err != nil {
		return err
	}
	_, status := body["status"]
	switch {
	case status != (a.Subresource == "status"), status && len(body) != 2:
		return apierrors.NewBadRequest("a status is written apart: " + string(a.Patch))
	case uid != "" && uid != string(old.GetUID()):
		path := field.NewPath("metadata", "uid")
		return apierrors.NewInvalid(schema.GroupKind{Kind: a.Resource.Resource}, a.Name, field.ErrorList{field.Invalid(path, uid, "field is immutable")})
	case version != "" && version != old.GetResourceVersion():
		return apierrors.NewConflict(a.Resource.GroupResource(), a.Name, nil)
	}
	return nil
}

func (w *world) page(tracker clienttesting.ObjectTracker, a clienttesting.ListActionImpl) (runtime.Object, error) {
	_, obj, err := clienttesting.ObjectReaction(tracker)(a)
	if err != nil {
		return nil, err
	}
	pods, ok := obj.(*corev1.PodList)
	if !ok {
		return obj, nil
	}
	slices.SortFunc(pods.Items, func(x, y corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	start, _ := strconv.Atoi(a.ListOptions.Continue)
	end := len(pods.Items)
	if w.pageSize > 0 && start+w.pageSize < end {
		end = start + w.pageSize
		pods.Continue, pods.RemainingItemCount = strconv.Itoa(end), ptr.To(int64(len(pods.Items)-end))
	}
	pods.Items = pods.Items[start:end]
	return pods, nil
}

// recorder writes events among the calls.
type recorder struct{ w *world }

func (r recorder) Event(on runtime.Object, kind, reason, message string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.calls = append(r.w.calls, fmt.Sprintf("event on %s: %s %s: %s", object(on).GetName(), kind, reason, message))
}

func (r recorder) Eventf(on runtime.Object, kind, reason, format string, args ...any) {
	r.Event(on, kind, reason, fmt.Sprintf(format, args...))
}

func (r recorder) AnnotatedEventf(on runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Event(on, kind, reason, fmt.Sprintf(format, args...))
}

func object(obj runtime.Object) metav1.Object {
	o, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return o
}

func preconditions(patch []byte) (uid, version string) {
	var body metav1.PartialObjectMetadata
	if err := json.Unmarshal(patch, &body); err != nil {
		panic(err)
	}
	return string(body.UID), body.ResourceVersion
}
