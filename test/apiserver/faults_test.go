package apiserver

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
)

// podsOf returns the client of a server's pods.
func podsOf(s *Server, namespace string) typed.PodInterface {
	return kubernetes.NewForConfigOrDie(s.Config("test")).CoreV1().Pods(namespace)
}

func createPod(t *testing.T, s *Server, namespace, name string) (*corev1.Pod, error) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "one"}}}}
	return podsOf(s, namespace).Create(t.Context(), pod, metav1.CreateOptions{})
}

// mustCreatePod creates pod a as a user.
func mustCreatePod(t *testing.T, s *Server) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "one"}}}}
	if _, err := s.Create(User, ResourceNamed("pods"), Namespace, pod); err != nil {
		t.Fatal(err)
	}
}

// A request that meets a fault or a rule gets the server's usual answer, and the store
// agrees with the answer.
func TestFaultsAndRules(t *testing.T) {
	post := []string{"POST pods"}
	ofOne := func(a Attempt) bool { return a.Name == "a" }
	for _, test := range []struct {
		name  string
		begin func(s *Server)
		want  string // results of the creations of a and b in default, and of a in other
	}{
		{"none", func(*Server) {}, "ok, ok, ok"},
		{"an error", func(s *Server) { s.Break(Fault{On: post, Error: ErrUnavailable}) }, "503 ServiceUnavailable, 503 ServiceUnavailable, 503 ServiceUnavailable"},
		{"any write", func(s *Server) { s.Break(Fault{Error: ErrInternal}) }, "500 InternalError, 500 InternalError, 500 InternalError"},
		{"of another kind", func(s *Server) { s.Break(Fault{On: []string{"PATCH pods"}, Error: ErrInternal}) }, "ok, ok, ok"},
		{"in one namespace", func(s *Server) { s.Break(Fault{On: post, In: "other", Error: ErrInternal}) }, "ok, ok, 500 InternalError"},
		{"the first", func(s *Server) {
			s.Break(Fault{On: post, Hits: First(2), Error: ErrTimeout})
		}, "504 Timeout, 504 Timeout, ok"},
		{"the second", func(s *Server) {
			s.Break(Fault{On: post, Hits: Only(2), Error: ErrTimeout})
		}, "ok, 504 Timeout, ok"},
		{"carried out anyway", func(s *Server) {
			s.Break(Fault{On: post, Hits: First(1), Error: ErrTimeout, Done: true})
		}, "504 Timeout, but done, ok, ok"},
		{"a broken connection", func(s *Server) { s.Break(Fault{On: post, Hits: First(1)}) }, "reset, ok, ok"},
		{"connection broken too late", func(s *Server) { s.Break(Fault{On: post, Hits: First(1), Done: true}) }, "reset, but done, ok, ok"},
		{"chosen by the request", func(s *Server) {
			s.Break(Fault{Answer: func(c *Call) error {
				if c.Namespace == "other" {
					return ErrTimeout
				}
				return nil
			}})
		}, "ok, ok, 504 Timeout"},
		{"connection broken for a reason", func(s *Server) {
			s.Break(Fault{Answer: func(*Call) error { return fmt.Errorf("unplugged: %w", syscall.ECONNRESET) }})
		}, "reset, reset, reset"},
		{"fault ended", func(s *Server) { s.Break(Fault{On: post, Error: ErrTimeout})() }, "ok, ok, ok"},
		{"a policy", func(s *Server) { s.Admit(Rule{On: post, Refuse: Policy("no", ofOne)}) }, "422 Invalid, ok, 422 Invalid"},
		{"a policy of one namespace", func(s *Server) { s.Admit(Rule{On: post, In: "other", Refuse: Policy("no", ofOne)}) }, "ok, ok, 422 Invalid"},
		{"denied by a webhook", func(s *Server) { s.Admit(Rule{On: post, Refuse: Denial("no")}) }, "400 , 400 , 400 "},
		{"a quota", func(s *Server) { s.Admit(Quota(Namespace, "pods", 1)) }, "ok, 403 Forbidden, ok"},
		{"withdrawn", func(s *Server) { s.Admit(Quota(Namespace, "pods", 1))() }, "ok, ok, ok"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := NewServer()
			test.begin(s)
			var got []string
			for _, place := range []string{"a", "b", "other/a"} {
				namespace, name := ResourceNamed("pods").Place(place)
				_, err := createPod(t, s, namespace, name)
				got = append(got, answerTo(err, s.Get(ResourceNamed("pods"), namespace, name) != nil))
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

// A rule changes created and patched objects, those of users too.
func TestMutation(t *testing.T) {
	s := NewServer()
	s.Admit(Rule{On: []string{"POST pods"}, Mutate: func(obj Object) { obj.SetLabels(map[string]string{"injected": "true"}) }})
	mustCreatePod(t, s)
	if got := List[*corev1.Pod](s, "pods")[0].Labels["injected"]; got != "true" {
		t.Error("the label is not injected")
	}
	s.Admit(Rule{On: []string{"PATCH pods"}, Mutate: func(obj Object) { obj.SetLabels(nil) }})
	patched, err := podsOf(s, Namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
	if err != nil || patched.Labels["injected"] != "" || patched.Annotations["a"] != "b" {
		t.Errorf("the patch is not mutated: %v, %v", patched, err)
	}
}

// A JSON patch that cannot be applied is refused before anything else is checked.
func TestJSONPatch(t *testing.T) {
	for body, want := range map[string]string{
		`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`:                                                          "ok",
		`[{"op":"replace","path":"/metadata/resourceVersion","value":"77"}]`:                                                  "409 Conflict",
		`[{"op":"replace","path":"/metadata/resourceVersion","value":"77"},{"op":"remove","path":"/spec/schedulingGates/0"}]`: "422 Invalid",
	} {
		s := NewServer()
		mustCreatePod(t, s)
		_, err := podsOf(s, Namespace).Patch(t.Context(), "a", types.JSONPatchType, []byte(body), metav1.PatchOptions{})
		if got := answerTo(err, false); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

// On an update, preconditions are checked before policies: an update from an old view is a
// conflict, as in a cluster.
func TestPoliciesComeAfterPreconditions(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"current version", `{"metadata":{"labels":{"a":"b"}}}`, "422 Invalid, but done"},
		{"old version", `{"metadata":{"resourceVersion":"77","labels":{"a":"b"}}}`, "409 Conflict, but done"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := NewServer()
			mustCreatePod(t, s)
			s.Admit(Rule{On: []string{"PATCH pods"}, Refuse: Policy("no", nil)})
			_, err := podsOf(s, Namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(test.body), metav1.PatchOptions{})
			if got := answerTo(err, true); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// A rule can refuse a deletion, except one by a user.
func TestRefusedDeletion(t *testing.T) {
	s := NewServer()
	mustCreatePod(t, s)
	s.Admit(Rule{On: []string{"DELETE pods"}, Refuse: Policy("no", nil)})
	if err := podsOf(s, Namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want Invalid", err)
	}
	if _, err := s.Delete(User, ResourceNamed("pods"), s.Get(ResourceNamed("pods"), Namespace, "a"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if pods := List[*corev1.Pod](s, "pods"); len(pods) > 0 {
		t.Errorf("pod %s still exists", pods[0].Name)
	}
}

// The server understands a client that uses protobuf, as the controller does.
func TestProtobuf(t *testing.T) {
	config := NewServer().Config("test")
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	created, err := client.CoreV1().Pods(Namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if err != nil || created.UID == "" || created.Status.Phase != corev1.PodPending {
		t.Errorf("got %v, %v", created, err)
	}
	err = client.CoreV1().Pods(Namespace).Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")})
	if err == nil {
		t.Error("the pod was deleted by another UID")
	}
}

// A page of a list has at most as many objects as the server allows, and a token for the
// next page.
func TestPages(t *testing.T) {
	s := NewServer()
	s.PageSize = 2
	for _, name := range []string{"a", "b", "c"} {
		if _, err := createPod(t, s, Namespace, name); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for options := (metav1.ListOptions{Limit: 500}); len(got) == 0 || options.Continue != ""; {
		list, err := podsOf(s, Namespace).List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		got, options.Continue = append(got, fmt.Sprint(len(list.Items))), list.Continue
	}
	if got := strings.Join(got, ", "); got != "2, 1" {
		t.Errorf("pages of %s pods, want 2, 1", got)
	}
}
