package dashboard

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/internal/dashboard/view"
)

// feed keeps the records of one resource in a Store. It implements cache.TransformingStore: a reflector lists and watches
// with the rights of the user, and no object stays in memory.
type feed struct {
	source
	store *Store
	now   func() time.Time

	mu   sync.Mutex
	keys map[string][]string // of records, by object
	// since when the data is old; zero while it is current.
	failing time.Time
}

// shown are the records of an object.
type shown struct {
	metav1.ObjectMeta
	records []view.Record
}

// Source is the record that says whether the data of a resource is current.
type Source struct {
	// Missing is the right that the user lacks, such as "list pods in namespace default".
	Missing string `json:"missing,omitempty"`
	// Error is the answer to the last request; empty if the data is current.
	Error string `json:"error,omitempty"`
	// Since when the data is old, in seconds since 1970.
	Since int64 `json:"since,omitempty"`
	// Loaded says whether the page has the first list.
	Loaded bool `json:"loaded"`
}

// retryAfter bounds how long the page shows old data after the API server is back.
const retryAfter = 5 * time.Second

func newFeed(s source, store *Store, now func() time.Time) *feed {
	f := &feed{source: s, store: store, now: now, keys: map[string][]string{}}
	f.tell(Source{})
	return f
}

// run until ctx ends.
func (f *feed) run(ctx context.Context) {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := f.list(ctx, f.selecting(o))
			f.answered(err, false)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := f.watch(ctx, f.selecting(o))
			f.answered(err, o.SendInitialEvents == nil)
			return w, err
		},
	}
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, f.client), nil, f, cache.ReflectorOptions{
		Name: "dashboard " + f.resource, TypeDescription: f.resource,
		Backoff: &wait.Backoff{Duration: 500 * time.Millisecond, Cap: retryAfter, Steps: 10, Factor: 2, Jitter: 0.2},
	}).RunWithContext(klog.NewContext(ctx, klog.Logger{})) // the page has its errors, not the terminal
}

func (f *feed) selecting(o metav1.ListOptions) metav1.ListOptions {
	o.LabelSelector, o.FieldSelector = f.labels, f.fields
	return o
}

// answered reports the answer to a request. A watch without a list shows that the data is current again.
func (f *feed) answered(err error, current bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err):
		for name := range f.keys { // from before the user lost the right
			f.put(name, nil)
		}
		f.tell(Source{Missing: fmt.Sprintf("list and watch %s%s", f.resource, f.where), Loaded: true})
	case apierrors.IsNotFound(err):
		f.tell(Source{Missing: "", Error: fmt.Sprintf("the cluster has no %s: Pod2, or this part of it, is not installed", f.resource), Loaded: true})
	case err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
		if f.failing.IsZero() {
			f.failing = f.now()
		}
		f.tell(Source{Error: err.Error(), Since: f.failing.Unix(), Loaded: len(f.keys) > 0})
	case err == nil && current:
		f.failing = time.Time{}
		f.tell(Source{Loaded: true})
	}
}

func (f *feed) tell(s Source) {
	f.store.Replace(nil, []view.Record{{Key: "sources/" + f.name, Value: s}})
}

// Transformer makes the reflector drop objects while it still reads the list.
func (f *feed) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return f.show(object) }
}

func (f *feed) show(object any) (*shown, error) {
	if s, ok := object.(*shown); ok {
		return s, nil
	}
	meta, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("watch %s: %T is no object", f.resource, object)
	}
	return &shown{metav1.ObjectMeta{Namespace: meta.GetNamespace(), Name: meta.GetName()}, f.records(object)}, nil
}

// Add puts a new or changed object into the Store.
func (f *feed) Add(object any) error {
	s, err := f.show(object)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(s.Namespace+"/"+s.Name, s.records)
	return nil
}

func (f *feed) put(name string, records []view.Record) {
	if keys := f.store.Replace(f.keys[name], records); len(keys) > 0 {
		f.keys[name] = keys
	} else {
		delete(f.keys, name)
	}
}

// Update is Add.
func (f *feed) Update(object any) error { return f.Add(object) }

// Delete removes the records of an object.
func (f *feed) Delete(object any) error {
	s, err := f.show(object)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(s.Namespace+"/"+s.Name, nil)
	return nil
}

// Replace takes a whole list.
func (f *feed) Replace(objects []any, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	stays := make(map[string]bool, len(objects))
	for _, object := range objects {
		s, err := f.show(object)
		if err != nil {
			return err
		}
		stays[s.Namespace+"/"+s.Name] = true
		f.put(s.Namespace+"/"+s.Name, s.records)
	}
	for name := range f.keys {
		if !stays[name] {
			f.put(name, nil)
		}
	}
	f.failing = time.Time{}
	f.tell(Source{Loaded: true})
	return nil
}

// Resync does nothing: the Store has no second consumer.
func (*feed) Resync() error { return nil }
