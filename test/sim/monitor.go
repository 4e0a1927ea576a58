package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/ordinals"
	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/spec"
)

// Promises is a Monitor that checks the promises of test/spec: S6 and S7 at every request,
// S1 to S5 and S8 at every change.
type Promises struct {
	// kept holds the last seen address of each replica.
	kept spec.Kept
	// ended has the tenures that ended, by UID of the Network.
	ended map[types.UID][]spec.Tenure
}

// NewPromises returns a monitor for one Server.
func NewPromises() *Promises {
	return &Promises{kept: spec.Kept{}, ended: map[types.UID][]spec.Tenure{}}
}

// verbs maps a method to the verb of its request.
var verbs = map[string]string{"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

// Request checks S7, and S6 of a request that is not refused.
func (p *Promises) Request(s *Cluster, r apiserver.Request) string {
	w := spec.Write{Verb: verbs[r.Verb], Resource: r.Resource, Subresource: r.Subresource, Name: r.Name, UID: r.UID, ResourceVersion: r.Version}
	why := w.Unconditional()
	if claim, ok := r.Target.(*corev1.PersistentVolumeClaim); ok && why == "" && string(claim.UID) == r.UID {
		why = w.ClaimInUse(claim, apiserver.List[*corev1.Pod](s.Server, "pods"))
	}
	if pod, ok := r.Target.(*corev1.Pod); ok && why == "" && string(pod.UID) == r.UID && (r.Version == "" || r.Version == pod.ResourceVersion) {
		why = w.NotOurs(pod, func(uid types.UID) bool { return isPod2(s, uid) })
	}
	if why != "" {
		return why + ", by " + r.Process
	}
	return ""
}

// isPod2 says whether a UID is that of an existing Pod2, or of one that the slowest run of
// the controller may still know. A kind and a name do not prove ownership.
func isPod2(s *Cluster, uid types.UID) bool {
	for _, c := range slices.Backward(s.History()) {
		if c.Key.Resource == "pod2s" && c.New.Object.GetUID() == uid {
			return !c.Removed || c.New.Number > window(s, "pod2s")
		}
	}
	return false
}

// Changed checks the stored objects after a change.
func (p *Promises) Changed(s *Cluster, c Change) string {
	switch obj := c.New.(type) {
	case *corev1.Pod:
		said := []string{spec.SharedAddress(apiserver.List[*corev1.Pod](s.Server, "pods")), onEdge(s), p.moved(s, obj)}
		old, existed := c.Old.(*corev1.Pod)
		switch {
		case !isRun(s, c.By):
		case existed:
			said = append(said, tooFew(s, c.By, old, obj))
		default:
			said = append(said, tooMany(s, obj))
		}
		return joined(said)
	case *v1.AddressBlock:
		if c.By == backup {
			return "" // restoring an AddressBlock hands out no address
		}
		old, _ := c.Old.(*v1.AddressBlock)
		p.ends(old, obj)
		return joined([]string{handedOut(s, old, obj), onEdge(s)})
	case *v1.AddressHistory:
		p.trust(c, obj)
	case *v1.Pod2:
		p.forget(obj)
	case nil:
		switch old := c.Old.(type) {
		case *v1.Network:
			blocks := apiserver.List[*v1.AddressBlock](s.Server, "addressblocks")
			return joined([]string{spec.InUse(old, blocks, apiserver.List[*corev1.Pod](s.Server, "pods")), spec.Unsealed(old, blocks)})
		case *v1.VNI:
			if isRun(s, c.By) {
				return released(s, old)
			}
		}
	}
	return ""
}

func onEdge(s *Cluster) string {
	return spec.OnEdge(apiserver.List[*v1.AddressBlock](s.Server, "addressblocks"), apiserver.List[*corev1.Pod](s.Server, "pods"))
}

func isRun(s *Cluster, name string) bool { return s.processes[name] != nil }

func joined(texts []string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "; ")
}

// published returns the addresses of a pod by Network.
func published(pod *corev1.Pod) map[string]string {
	all := map[string]string{}
	for network, prefix := range spec.Published(pod) {
		all[network] = prefix.Addr().String()
	}
	return all
}

// deciding is how long a decision may take to reach the server in these tests.
const deciding = 10 * time.Second

// window is the oldest resourceVersion whose spec the controller may have used: the one
// that its slowest run knew a while ago.
func window(s *Cluster, resource string) int {
	oldest := s.Last()
	for _, w := range s.Watchers() {
		if w.ByHand && w.Resource.Resource == resource && !w.Over() {
			oldest = min(oldest, w.Known(deciding))
		}
	}
	return oldest
}

// handedOut checks S2 of an AddressBlock, by any version of its Network that the controller
// may know.
func handedOut(s *Cluster, old, block *v1.AddressBlock) string {
	return spec.HandedOut(old, block, apiserver.Versions[*v1.Network](s.Server, "networks", block.Spec.NetworkUID, window(s, "networks")), apiserver.List[*corev1.Pod](s.Server, "pods"))
}

// tooMany checks S4, by any version of the Pod2 that the controller may know.
func tooMany(s *Cluster, created *corev1.Pod) string {
	most := 0
	if ref := metav1.GetControllerOf(created); ref != nil {
		most = spec.Most(apiserver.Versions[*v1.Pod2](s.Server, "pod2s", ref.UID, window(s, "pod2s")))
	}
	return spec.TooMany(created, apiserver.List[*corev1.Pod](s.Server, "pods"), most)
}

// moved checks S3: a replica keeps its address for as long as its Pod2 has the replica.
func (p *Promises) moved(s *Cluster, pod *corev1.Pod) string {
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind != "Pod2" {
		return ""
	}
	var said []string
	for _, held := range spec.Holds(pod) {
		if n, _ := s.Get(apiserver.ResourceNamed("networks"), pod.Namespace, held.Network).(*v1.Network); n != nil {
			said = append(said, p.kept.See(spec.Replica{Pod2: ref.UID, Pod: pod.Name, Network: n.UID}, pod, held))
		}
	}
	return joined(said)
}

// forget drops the replicas that a Pod2 no longer has. No scenario removes a Network from a
// Pod2 that continues to exist.
func (p *Promises) forget(pod2 *v1.Pod2) {
	for r := range p.kept {
		ordinal, _ := ordinals.Parse(pod2.Name, r.Pod)
		if r.Pod2 == pod2.UID && ordinal >= ptr.Deref(pod2.Spec.Replicas, 1) {
			delete(p.kept, r)
		}
	}
}

// released checks the reverse of S9: the VNI of an existing Network is not released.
func released(s *Cluster, vni *v1.VNI) string {
	for _, n := range apiserver.List[*v1.Network](s.Server, "networks") {
		if n.UID == vni.Spec.Network.UID && (n.Status.VNI == 0 || strconv.Itoa(int(n.Status.VNI)) == vni.Name) {
			return fmt.Sprintf("VNI %s is released while Network %s uses it", vni.Name, n.Name)
		}
	}
	return ""
}
