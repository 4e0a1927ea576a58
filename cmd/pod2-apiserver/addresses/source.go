package addresses

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
)

// Run lists and watches the sources until the context ends.
func (c *Cache) Run(ctx context.Context, kube kubernetes.Interface, sample versioned.Interface) {
	key := func(o metav1.Object) string { return path(o.GetNamespace(), o.GetName()) }
	run(ctx, sample.SamplecrdV1().AddressBlocks(metav1.NamespaceAll), "", &store[*v1.AddressBlock]{
		cache: c, source: blocks, put: c.putBlock, remove: c.removeBlock,
		all: func() (all []*v1.AddressBlock) {
			for _, b := range c.blocks {
				all = append(all, b.AddressBlock)
			}
			return all
		},
	})
	run(ctx, sample.SamplecrdV1().Networks(metav1.NamespaceAll), "", &store[*v1.Network]{
		cache: c, source: networks,
		put:    func(n *v1.Network) []string { return c.setNetwork(key(n), n) },
		remove: func(n *v1.Network) []string { return c.setNetwork(key(n), nil) },
		all: func() (all []*v1.Network) {
			for _, n := range c.networks {
				all = append(all, n)
			}
			return all
		},
	})
	run(ctx, kube.CoreV1().Pods(metav1.NamespaceAll), v1.ManagedLabel, &store[*corev1.Pod]{
		cache: c, source: pods,
		put:    func(p *corev1.Pod) []string { return c.setPod(key(p), pod{p.UID, p.Spec.NodeName}) },
		remove: func(p *corev1.Pod) []string { return c.setPod(key(p), pod{}) },
		all: func() (all []*corev1.Pod) {
			for at := range c.pods {
				p := &corev1.Pod{}
				p.Namespace, p.Name, _ = cache.SplitMetaNamespaceKey(at)
				all = append(all, p)
			}
			return all
		},
	})
	<-ctx.Done()
}

// store passes the objects of one source to the cache. A reflector fills it: its events have
// their order and versions, unlike those of an informer.
type store[T metav1.Object] struct {
	cache       *Cache
	source      source
	put, remove func(T) []string
	all         func() []T
}

func (s *store[T]) Add(object any) error    { return s.Update(object) }
func (s *store[T]) Update(object any) error { return s.apply(object, s.put) }
func (s *store[T]) Delete(object any) error { return s.apply(object, s.remove) }
func (s *store[T]) Resync() error           { return nil }

func (s *store[T]) apply(object any, change func(T) []string) error {
	typed := object.(T)
	resourceVersion, err := strconv.ParseUint(typed.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("read the resourceVersion of %s %s/%s: %w", s.source, typed.GetNamespace(), typed.GetName(), err)
	}
	s.cache.apply(s.source, resourceVersion, func() []string { return change(typed) })
	return nil
}

func (s *store[T]) Bookmark(resourceVersion string) error {
	at, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("read the resourceVersion of a bookmark of %s: %w", s.source, err)
	}
	s.cache.saw(s.source, at)
	return nil
}

func (s *store[T]) Replace(objects []any, resourceVersion string) error {
	at, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("read the resourceVersion of a list of %s: %w", s.source, err)
	}
	s.cache.listed(s.source, at, func() (keys []string) {
		present := map[string]bool{}
		for _, object := range objects {
			typed := object.(T)
			present[path(typed.GetNamespace(), typed.GetName())] = true
			keys = append(keys, s.put(typed)...)
		}
		for _, object := range s.all() {
			if !present[path(object.GetNamespace(), object.GetName())] {
				keys = append(keys, s.remove(object)...)
			}
		}
		return keys
	})
	return nil
}

// lister lists and watches a resource.
type lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

func run[T metav1.Object, L runtime.Object](ctx context.Context, from lister[L], selector string, into *store[T]) {
	first := true
	lw := listWatch{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			list, err := from.List(ctx, options)
			if err == nil && first {
				first = false
				err = backdate(list)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return from.Watch(ctx, options)
		},
	}}
	var none T
	reflector := cache.NewReflectorWithOptions(lw, none, into, cache.ReflectorOptions{Name: into.source.String()})
	go reflector.RunWithContext(ctx)
}

// backdate gives a list the version of its newest object, so the watch begins there. Then
// replicas that start at different times know the same events, and a client can continue at
// either. If the API server no longer has these events, the reflector lists again.
func backdate(list runtime.Object) error {
	newest := uint64(0)
	if err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		at, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
		newest = max(newest, at)
		return err
	}); err != nil || newest == 0 {
		return err
	}
	accessor, err := meta.ListAccessor(list)
	if err == nil && accessor.GetContinue() == "" { // later pages have newer objects
		accessor.SetResourceVersion(strconv.FormatUint(newest, 10))
	}
	return err
}

// listWatch lists first, because the version of a streamed list cannot be changed.
type listWatch struct{ *cache.ListWatch }

func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }
