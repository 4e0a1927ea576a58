//go:build integration

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// follower sees every state of a namespace's pods, in the order of the API server's writes,
// including states that last for a millisecond.
type follower struct {
	mu      sync.Mutex
	pods    map[string]*corev1.Pod
	changed chan struct{} // closed by the next change
}

// follow calls check with the pods by name, now and after each change until the
// test ends. It fails the test with the first answer that is not "".
func follow(t *testing.T, namespace string, check func(pods map[string]*corev1.Pod) string) *follower {
	t.Helper()
	list, err := kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The API server ends the watch of a slow reader. The next watch continues after the
	// last event, so none is missed.
	events, err := watchtools.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return kube.CoreV1().Pods(namespace).Watch(ctx, options)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{pods: map[string]*corev1.Pod{}, changed: make(chan struct{})}
	for i := range list.Items {
		f.pods[list.Items[i].Name] = &list.Items[i]
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		failed := false
		for event := range events.ResultChan() {
			if t.Context().Err() != nil {
				continue // the end of the watch is not an event of a pod
			}
			if why := f.step(event, check); why != "" && !failed {
				failed = true
				t.Error(why)
			}
		}
		if t.Context().Err() == nil {
			t.Error("the watch of pods ended before the test")
		}
	}()
	t.Cleanup(func() { <-done }) // t.Context() has already ended
	return f
}

func (f *follower) step(event watch.Event, check func(map[string]*corev1.Pod) string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return fmt.Sprintf("the watch of pods ended: %v", event.Object)
	}
	f.pods[pod.Name] = pod
	if event.Type == watch.Deleted {
		delete(f.pods, pod.Name)
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return check(f.pods)
}

// until returns at the first change after which reached is true.
func (f *follower) until(t *testing.T, what string, reached func(pods map[string]*corev1.Pod) bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		f.mu.Lock()
		ok, changed := reached(f.pods), f.changed
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// seenAll waits until the watch has caught up with a list, so every earlier event has been
// checked.
func (f *follower) seenAll(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "the watch has caught up", func(context.Context) (string, error) {
		listed := listPods(t, namespace)
		f.mu.Lock()
		defer f.mu.Unlock()
		for name, pod := range listed {
			if seen := f.pods[name]; seen == nil || seen.ResourceVersion != pod.ResourceVersion {
				return name + " is newer than in the watch", nil
			}
		}
		if len(f.pods) != len(listed) {
			return fmt.Sprintf("there are %d pods, and the watch has %d", len(listed), len(f.pods)), nil
		}
		return "", nil
	})
}
