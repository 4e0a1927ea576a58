package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// podsOf a world, as a client of its server sees them.
func podsOf(w *World, namespace string) typed.PodInterface {
	return kubernetes.NewForConfigOrDie(w.Config("test")).CoreV1().Pods(namespace)
}

func createPod(t *testing.T, w *World, namespace, name string) (*corev1.Pod, error) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "one"}}}}
	return podsOf(w, namespace).Create(t.Context(), pod, metav1.CreateOptions{})
}

// A request that meets a fault or a rule is answered in the server's words, and what
// is stored is as the answer says.
func TestFaultsAndRules(t *testing.T) {
	post := []string{"POST pods"}
	ofOne := func(a Attempt) bool { return a.Name == "a" }
	for _, test := range []struct {
		name  string
		begin func(w *World)
		want  string // what the creations of a and b in default, and of a in other, came to
	}{
		{"none", func(*World) {}, "ok, ok, ok"},
		{"an error", func(w *World) { w.Break(Fault{On: post, Error: ErrUnavailable}) }, "503 ServiceUnavailable, 503 ServiceUnavailable, 503 ServiceUnavailable"},
		{"any write", func(w *World) { w.Break(Fault{Error: ErrInternal}) }, "500 InternalError, 500 InternalError, 500 InternalError"},
		{"of another kind", func(w *World) { w.Break(Fault{On: []string{"PATCH pods"}, Error: ErrInternal}) }, "ok, ok, ok"},
		{"in one namespace", func(w *World) { w.Break(Fault{On: post, In: "other", Error: ErrInternal}) }, "ok, ok, 500 InternalError"},
		{"the first", func(w *World) { w.Break(Fault{On: post, Hits: First(2), Error: ErrTimeout}) }, "504 Timeout, 504 Timeout, ok"},
		{"the second", func(w *World) { w.Break(Fault{On: post, Hits: Only(2), Error: ErrTimeout}) }, "ok, 504 Timeout, ok"},
		{"done all the same", func(w *World) { w.Break(Fault{On: post, Hits: First(1), Error: ErrTimeout, Done: true}) }, "504 Timeout, but done, ok, ok"},
		{"a broken connection", func(w *World) { w.Break(Fault{On: post, Hits: First(1)}) }, "reset, ok, ok"},
		{"one that breaks too late", func(w *World) { w.Break(Fault{On: post, Hits: First(1), Done: true}) }, "reset, but done, ok, ok"},
		{"mended", func(w *World) { w.Break(Fault{On: post, Error: ErrTimeout})() }, "ok, ok, ok"},
		{"a policy", func(w *World) { w.Admit(Rule{On: post, Refuse: Policy("no", ofOne)}) }, "422 Invalid, ok, 422 Invalid"},
		{"a policy of one namespace", func(w *World) { w.Admit(Rule{On: post, In: "other", Refuse: Policy("no", ofOne)}) }, "ok, ok, 422 Invalid"},
		{"a webhook says no", func(w *World) { w.Admit(Rule{On: post, Refuse: Denial("no")}) }, "400 , 400 , 400 "},
		{"a quota", func(w *World) { w.Admit(Quota(Namespace, "pods", 1)) }, "ok, 403 Forbidden, ok"},
		{"withdrawn", func(w *World) { w.Admit(Quota(Namespace, "pods", 1))() }, "ok, ok, ok"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &World{Server: NewServer()}
			test.begin(w)
			var got []string
			for _, place := range []string{"a", "b", "other/a"} {
				namespace, name := resourceNamed("pods").place(place)
				_, err := createPod(t, w, namespace, name)
				got = append(got, answerTo(err, w.get(resourceNamed("pods"), namespace, name) != nil))
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func answerTo(err error, done bool) string {
	text, status := "ok", (*apierrors.StatusError)(nil)
	switch {
	case errors.As(err, &status):
		text = fmt.Sprintf("%d %s", status.ErrStatus.Code, status.ErrStatus.Reason)
	case errors.Is(err, syscall.ECONNRESET):
		text = "reset"
	case err != nil:
		text = err.Error()
	}
	if err != nil && done {
		text += ", but done"
	}
	return text
}

// A rule changes what is created, for users too.
func TestMutation(t *testing.T) {
	w := &World{Server: NewServer()}
	w.Admit(Rule{On: []string{"POST pods"}, Mutate: mirror})
	w.Create("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: app, image: one}]}}")
	pod := List[*corev1.Pod](w.Server, "pods")[0]
	if got, want := fmt.Sprintf("%v %s %s", pod.Labels, pod.Spec.Containers[0].Name, pod.Spec.Containers[1].Image), "map[injected:true] proxy mirror/one"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Of an update, a policy is asked last: one from an old view is a conflict, as it is
// in a cluster.
func TestPoliciesComeAfterPreconditions(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"as it is", `{"metadata":{"labels":{"a":"b"}}}`, "422 Invalid, but done"},
		{"as it was", `{"metadata":{"resourceVersion":"77","labels":{"a":"b"}}}`, "409 Conflict, but done"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &World{Server: NewServer()}
			w.Create("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: app, image: one}]}}")
			w.Admit(Rule{On: []string{"PATCH pods"}, Refuse: Policy("no", nil)})
			_, err := podsOf(w, Namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(test.body), metav1.PatchOptions{})
			if got := answerTo(err, true); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// A deletion can be refused, and is not when users ask for it.
func TestRefusedDeletion(t *testing.T) {
	w := &World{Server: NewServer()}
	w.Create("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: app, image: one}]}}")
	w.Admit(Rule{On: []string{"DELETE pods"}, Refuse: Policy("no", nil)})
	if err := podsOf(w, Namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want Invalid", err)
	}
	w.Delete("pods", "a", "")
	if pods := List[*corev1.Pod](w.Server, "pods"); len(pods) > 0 {
		t.Errorf("%s is still there", pods[0].Name)
	}
}

// A client does as it is told by Retry-After, with a director too: it asks again, and
// nobody else has to.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var took time.Duration
		w := NewWorld(func(ctx context.Context, config *rest.Config) error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				t.Errorf("create: %v", err)
			}
			took = time.Since(began)
			<-ctx.Done()
			return ctx.Err()
		}, nil, nil)
		w.Break(Fault{On: []string{"POST pods"}, Hits: First(2), Error: ErrBusy})
		w.Start("client", nil)
		time.Sleep(time.Minute)
		w.Close()
		if took != 2*time.Second {
			t.Errorf("created after %s, want 2s", took)
		}
	})
}
