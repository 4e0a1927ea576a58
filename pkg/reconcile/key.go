package reconcile

import (
	"errors"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Key names what one sync is about: an object that exists, or one that is
// asked for and does not.
type Key struct{ Kind, Namespace, Name string }

// String is "Network default/blue", or "Node node-1".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

// Kinds of keys.
const (
	KindNetwork = "Network"
	KindPod     = "Pod"
	KindPod2    = "Pod2"
	KindCronTab = "CronTab"
	// KindEndpoints has the name of a Pod2 and is about the names of its replicas:
	// apart, so that trouble with Services never harms pods.
	KindEndpoints = "Endpoints"
	// KindDefinition has the name of a Network and is about its VNI and its
	// NetworkAttachmentDefinition: apart, so that trouble with Multus never keeps
	// addresses from pods.
	KindDefinition = "Definition"
	// KindNode has no namespace, and is about what a Node says of its data plane.
	KindNode = "Node"
)

// Kinds are all of them.
func Kinds() []string {
	return []string{KindNetwork, KindPod, KindPod2, KindCronTab, KindEndpoints, KindDefinition, KindNode}
}

// Result says when a sync that went well wants to run again; zero: not before
// the next event.
type Result struct{ RequeueAfter time.Duration }

// Watch maps every event of an informer to the keys it may concern. Keys is
// called with the old and the new object of an update, and with the last known
// object of a deletion. Patience is how long the keys of an update may wait for
// others like it; nil: no update waits. Same says of which updates there are no keys;
// nil: of none.
type Watch struct {
	Informer cache.SharedIndexInformer
	Keys     func(obj any) []Key
	Patience func(old, new any) time.Duration
	Same     func(old, new any) bool
	// Optional: the cluster may not have the kind. Nobody waits for its list.
	Optional bool
}

// ErrStale is wrapped by errors that say: the view was old, nothing was done on
// it, look again. It is as normal as a conflict.
var ErrStale = errors.New("the view is older than the world")
