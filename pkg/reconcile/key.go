package reconcile

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/pod2/pod2/pkg/fenced"
)

// Key names the object of one sync. The object exists, or another object asks for it.
type Key struct{ Kind, Namespace, Name string }

// String is "Network default/blue".
func (k Key) String() string { return k.Kind + " " + path(k.Namespace, k.Name) }

func (k Key) path() string { return path(k.Namespace, k.Name) }

func keyOf(kind string, o metav1.Object) Key { return Key{kind, o.GetNamespace(), o.GetName()} }

// path is <namespace>/<name>, or just the name for a cluster-wide object.
func path(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func pathOf(o metav1.Object) string { return path(o.GetNamespace(), o.GetName()) }

// keysOf returns the keys of the objects that paths name.
func keysOf(kind string, paths []string) []Key {
	keys := make([]Key, 0, len(paths))
	for _, p := range paths {
		namespace, name, _ := cache.SplitMetaNamespaceKey(p)
		keys = append(keys, Key{kind, namespace, name})
	}
	return keys
}

// Result is the result of a sync in addition to its error.
type Result struct {
	// RequeueAfter is when a successful sync wants to run again; zero: not before the next
	// event.
	RequeueAfter time.Duration
	// Rest is how long the key is not synced again after a successful sync. The events of
	// that time share one sync.
	Rest time.Duration
	// Wakes are other keys that have work to do now, even if the sync failed.
	Wakes []Key
}

// Watch maps every event of an informer to the keys that it may concern. Keys is called
// with the old and the new object of an update, and with the last known object of a
// deletion. Patience is how long the keys of an update may wait for similar updates; nil:
// no update waits. Same recognizes updates that concern no key; nil: there are none.
type Watch struct {
	Informer cache.SharedIndexInformer
	Keys     func(obj any) []Key
	Patience func(old, new any) time.Duration
	Same     func(old, new any) bool
	// Optional: the cluster may not have the kind, so the controller does not wait for
	// its list.
	Optional bool
	// Changes: a new object concerns no key, an update or a deletion does.
	Changes bool
}

// ErrStale is wrapped by errors that mean: the view was old, nothing was done, try again.
// Such an error is as normal as a conflict.
var ErrStale = fenced.ErrStale
