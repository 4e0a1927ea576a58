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

// follower sees every state that the pods of a namespace go through, in the order
// of the API server's writes: what lasts for a millisecond, too.
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
	// The API server ends the watch of a reader that it finds slow; the next one
	// goes on after the last event read, so that none is missed.
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
				continue // what the watch says of its own end is no news
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
	t.Cleanup(func() { <-done }) // t.Context() has ended before
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

// until returns at the very change that makes reached true.
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

// seenAll waits until the watch shows what a list does, so that nothing which
// happened before is still unchecked.
func (f *follower) seenAll(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "the watch has caught up", func(context.Context) (string, error) {
		listed := listPods(t, namespace)
		f.mu.Lock()
		defer f.mu.Unlock()
		for name, pod := range listed {
			if seen := f.pods[name]; seen == nil || seen.ResourceVersion != pod.ResourceVersion {
				return name + " is newer than the watch has it", nil
			}
		}
		if len(f.pods) != len(listed) {
			return fmt.Sprintf("%d pods, seen are %d", len(listed), len(f.pods)), nil
		}
		return "", nil
	})
}
