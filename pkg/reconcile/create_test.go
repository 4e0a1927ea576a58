package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

func refusal(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{Causes: causes},
	}}
}

var quota = refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "exceeded quota")

// Which refusals a user must fix: a 4xx is for the user of the Pod2, unless another look
// or time resolves it. After any failure the status reports the existing pods.
func TestWhichRefusalsTheStatusTells(t *testing.T) {
	const missing = "PodsNotReady: web-0 does not exist yet"
	for _, row := range []struct {
		name   string
		err    error
		reason string // of Ready afterwards
	}{
		{"quota", quota, "FailedCreate: exceeded quota"},
		{"invalid template", refusal(422, metav1.StatusReasonInvalid, "spec.containers[0].image: Required value"), "FailedCreate: spec.containers[0].image: Required value"},
		{"too many requests", refusal(429, metav1.StatusReasonTooManyRequests, "slow down"), missing},
		{"contended quota", refusal(409, metav1.StatusReasonConflict, "the quota has been modified"), missing},
		{"internal error", refusal(500, metav1.StatusReasonInternalError, "webhook"), missing},
		{"no answer", context.DeadlineExceeded, missing},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, newPod2("web", 1))
			w.refuse = refusing("create pods", row.err)
			if _, err := w.sync(KindPod2, "web"); !says(err, row.err) {
				t.Errorf("the queue must hear of it, to back off; got %v", err)
			}
			same(t, readyOf(w), row.reason)
		})
	}
}

// Nothing can be created in the namespace, and everyone knows: no error, no status, no
// event.
func TestANamespaceThatIsBeingDeletedIsNoFailure(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	w.refuse = refusing("create pods", refusal(403, metav1.StatusReasonForbidden, "is being terminated", metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}))
	calls, err := w.sync(KindPod2, "web")
	if err != nil {
		t.Error(err)
	}
	same(t, calls, "get pod2s web\ncreate pods web-0 -> Forbidden")
}

func readyOf(w *world) string {
	for _, c := range stored[*v1.Pod2](w, "web").Status.Conditions {
		if c.Type == v1.ConditionReady {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func TestARefusedDeletionIsTold(t *testing.T) {
	w := newWorld(t, newPod2("web", 0), replica("web-0"))
	w.refuse = refusing("delete pods", refusal(403, metav1.StatusReasonForbidden, "the policy forbids it"))
	_, _ = w.sync(KindPod2, "web")
	same(t, readyOf(w), "FailedDelete: the policy forbids it")
}

func TestARefusalIsToldByStatusThenEvent(t *testing.T) {
	w := newWorld(t, newPod2("web", 3))
	w.refuse = refusing("create pods", quota)
	calls, _ := w.sync(KindPod2, "web")
	same(t, calls, `
get pod2s web
create pods web-0 -> Forbidden
create pods web-1 -> Forbidden
create pods web-2 -> Forbidden
patch pod2s/status web uid=uid-of-web rv=101
event on web: Warning FailedCreate: exceeded quota`)
}

// Otherwise its own status update would wake the Pod2 at once, forever. It is not
// reported again.
func TestARefusalThatGoesOnIsNotWrittenAgain(t *testing.T) {
	w := newWorld(t, newPod2("web", 3))
	w.refuse = refusing("create pods", quota)
	_, _ = w.sync(KindPod2, "web")
	w.catchUp()
	calls, _ := w.sync(KindPod2, "web")
	same(t, onlyWrites(calls), "create pods web-0 -> Forbidden\ncreate pods web-1 -> Forbidden\ncreate pods web-2 -> Forbidden")
}

// The API server names the pod, and each sync begins with another one. A new text would wake the Pod2 at once, without
// backoff.
func TestTheTextOfARefusalStays(t *testing.T) {
	w := newWorld(t, newPod2("web", 40))
	w.refuse = func(call string) error {
		if name, ok := strings.CutPrefix(call, "create pods "); ok {
			return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "pods "+name+" is forbidden: exceeded quota")
		}
		return nil
	}
	_, _ = w.sync(KindPod2, "web")
	for range 3 {
		w.catchUp()
		calls, _ := w.sync(KindPod2, "web")
		if strings.Contains(calls, "create pods web-0 ") || strings.Contains(calls, "patch pod2s/status") {
			t.Errorf("want refusals of other pods, and no write, got\n%s", calls)
		}
	}
}

// One pod of many met a quota that others change, too.
func TestAConflictDoesNotHideARefusal(t *testing.T) {
	w := newWorld(t, newPod2("web", 3))
	w.refuse = func(call string) error {
		switch {
		case strings.HasPrefix(call, "create pods web-0"):
			return refusal(http.StatusConflict, metav1.StatusReasonConflict, "the quota has been modified")
		case strings.HasPrefix(call, "create pods"):
			return quota
		}
		return nil
	}
	_, _ = w.sync(KindPod2, "web")
	same(t, readyOf(w), "FailedCreate: exceeded quota")
}

func TestAForeignPodOfAReplicasNameIsRemembered(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	w.add(newPod("web-0 unlabelled of=ReplicaSet/other"))
	calls, err := w.sync(KindPod2, "web")
	if !errors.Is(err, ErrStale) {
		t.Errorf("not stale: %v", err)
	}
	same(t, calls, "get pod2s web\ncreate pods web-0 -> AlreadyExists\nget pods web-0") // without a status that the next sync would revert
	calls, err = w.sync(KindPod2, "web")
	if err != nil {
		t.Error(err)
	}
	same(t, withoutEvents(calls), "patch pod2s/status web uid=uid-of-web rv=101")
	same(t, readyOf(w), "NameTaken: pod web-0 already exists and is owned by ReplicaSet other: delete it so that the replica can use the name (the controller notices within 30 seconds)")
}

// The sync returns the cause too, for the queue and the log.
func TestARefusalIsNotLostWhenTheStatusCannotBeWritten(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	w.refuse = func(call string) error {
		switch {
		case strings.HasPrefix(call, "create pods"):
			return quota
		case strings.HasPrefix(call, "get"):
			return nil
		}
		return errConflict
	}
	if _, err := w.sync(KindPod2, "web"); !says(err, quota) || !says(err, errConflict) {
		t.Errorf("got %v", err)
	}
}

// The sync repeats every sightingTTL: the status must not flap in between.
func TestAForeignPodThatStaysChangesNothing(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	w.add(newPod("web-0 unlabelled"))
	for range 2 {
		_, _ = w.sync(KindPod2, "web")
		w.catchUp()
	}
	w.clock.SetTime(now.Add(sightingTTL))
	calls, _ := w.sync(KindPod2, "web")
	more, _ := w.sync(KindPod2, "web")
	same(t, onlyWrites(calls+"\n"+more), "create pods web-0 -> AlreadyExists")
}

func TestANameThatIsFreeAgainIsTaken(t *testing.T) {
	foreign := newPod("web-0 unlabelled")
	w := newWorld(t, newPod2("web", 1))
	w.add(foreign)
	_, _ = w.sync(KindPod2, "web")
	w.remove(foreign)
	w.clock.SetTime(now.Add(sightingTTL))
	calls, err := w.sync(KindPod2, "web")
	if err != nil || !strings.HasPrefix(calls, "get pod2s web\ncreate pods web-0\n") {
		t.Errorf("error %v, calls:\n%s", err, calls)
	}
}

// AlreadyExists, but gone in the live read: there is nothing to remember, so look again.
func TestAPodThatGoesBetweenTheTwoCallsIsStale(t *testing.T) {
	w := newWorld(t, newPod2("web", 1))
	w.refuse = refusing("create pods", apierrors.NewAlreadyExists(podResource, "web-0"))
	if _, err := w.sync(KindPod2, "web"); !errors.Is(err, ErrStale) || len(w.r.writePods.unwatched.sightings) > 0 {
		t.Errorf("error %v, found %v", err, w.r.writePods.unwatched.sightings)
	}
}

func TestWhatRefusesEveryPodIsAskedAFewTimes(t *testing.T) {
	w := newWorld(t, newPod2("web", 100))
	w.refuse = refusing("create pods", quota)
	calls, _ := w.sync(KindPod2, "web")
	if n := strings.Count(calls, "create pods"); n != mostRefused {
		t.Errorf("%d calls, want %d", n, mostRefused)
	}
}

// If a webhook is down, each call waits.
func TestWhatFailsIsAskedOnce(t *testing.T) {
	w := newWorld(t, newPod2("web", 100))
	w.refuse = refusing("create pods", refusal(500, metav1.StatusReasonInternalError, "webhook"))
	calls, _ := w.sync(KindPod2, "web")
	if n := strings.Count(calls, "create pods"); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// Creations of one batch begin together. Batches double in size, up to a hundred.
func TestCreationStartsSlowly(t *testing.T) {
	same(t, batchesOf(t, 400, 10*time.Millisecond), "1 2 4 8 16 32 64 100 100 73")
}

// A sync that creates pods for long begins no further batch, so the status can be written.
func TestCreationPausesForTheStatus(t *testing.T) {
	same(t, batchesOf(t, 400, createsFor/4), "1 2 4 8")
}

// batchesOf returns the batches in which a sync creates replicas. Each call takes a while.
func batchesOf(t *testing.T, replicas int32, takes time.Duration) (batches string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		slow := &slowClient{Interface: w.clients.Kube, began: time.Now(), takes: takes, clock: w.clock}
		w.speakTo(Clients{Kube: slow, Sample: w.clients.Sample})
		creations := pod2.Diff(pod2.State{Pod2: newPod2("web", replicas)}).Create
		done, err := w.r.kinds.pod2.createPods(klog.NewContext(t.Context(), klog.Logger{}), web, creations)
		if err != nil || len(done) != len(slow.started) {
			t.Fatalf("%d of %d were created, error %v", len(done), len(slow.started), err)
		}
		batches = slow.batches()
	})
	return batches
}

type slowClient struct {
	kubernetes.Interface
	began   time.Time
	takes   time.Duration
	clock   *clocktesting.FakePassiveClock // of the world
	mu      sync.Mutex
	started []time.Time
}

func (c *slowClient) CoreV1() typedcorev1.CoreV1Interface {
	return slowCore{c.Interface.CoreV1(), c}
}

type slowCore struct {
	typedcorev1.CoreV1Interface
	client *slowClient
}

func (c slowCore) Pods(string) typedcorev1.PodInterface { return slowPods{client: c.client} }

type slowPods struct {
	typedcorev1.PodInterface
	client *slowClient
}

func (p slowPods) Create(_ context.Context, pod *corev1.Pod, _ metav1.CreateOptions) (*corev1.Pod, error) {
	p.client.mu.Lock()
	p.client.started = append(p.client.started, time.Now())
	p.client.mu.Unlock()
	time.Sleep(p.client.takes)
	p.client.clock.SetTime(now.Add(time.Since(p.client.began)))
	return pod, nil
}

// batches counts the calls that began at the same time.
func (c *slowClient) batches() string {
	var sizes []string
	for rest := c.started; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(at time.Time) bool { return !at.Equal(rest[0]) })
		if n < 0 {
			n = len(rest)
		}
		sizes = append(sizes, fmt.Sprint(n))
		rest = rest[n:]
	}
	return strings.Join(sizes, " ")
}
