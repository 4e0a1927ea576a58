package sim

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
)

// Promises is a Monitor that holds the controller to what docs/reliability.md
// numbers: at every request S6 and S7, at every change S1 to S5 and S8. It reads
// annotations and addresses by itself: a mistake in how the controller reads them is
// not to be made here too.
type Promises struct {
	// published is what a replica had when it was last seen, by Pod2, ordinal and
	// UID of the Network.
	published map[replica]string
}

type replica struct {
	pod2    types.UID
	ordinal string
	network types.UID
}

// NewPromises is for one Server.
func NewPromises() *Promises { return &Promises{published: map[replica]string{}} }

// Request is S7, every write carries its precondition, and S6, only pods of ours are
// deleted or changed: those that a Pod2 controls, and, changed only, those that wait
// for addresses or that nobody controls; and no claim is deleted that a pod has.
func (p *Promises) Request(s *Cluster, r apiserver.Request) string {
	what := fmt.Sprintf("%s: %s %s/%s %s", r.Process, r.Verb, r.Resource, r.Name, r.Subresource)
	switch {
	case r.Verb == "POST" && r.Name == "":
		return "S7: " + what + " has no name"
	case r.Verb == "PUT":
		return "S7: " + what + " deletes the fields that the controller does not know"
	case (r.Verb == "PATCH" || r.Verb == "DELETE") && r.UID == "":
		return "S7: " + what + " has no UID"
	case r.Verb != "POST" && r.Version == "" && (r.Resource != "pods" || r.Subresource != "status"):
		return "S7: " + what + " has no resourceVersion"
	}
	if claim, ok := r.Target.(*corev1.PersistentVolumeClaim); ok && r.Verb == "DELETE" && string(claim.UID) == r.UID {
		for _, pod := range apiserver.List[*corev1.Pod](s.Server, "pods") {
			if pod.Namespace == claim.Namespace && slices.Contains(claimsOf(pod), claim.Name) {
				return "S6: " + what + ", which " + pod.Name + " has"
			}
		}
	}
	pod, ok := r.Target.(*corev1.Pod)
	if !ok || string(pod.UID) != r.UID || r.Version != "" && r.Version != pod.ResourceVersion {
		return "" // it is refused
	}
	ref := metav1.GetControllerOf(pod)
	waits := slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == v1.AddressesGate })
	switch {
	case ref != nil && isPod2(s, ref.UID),
		ref == nil && r.Verb == "PATCH",
		r.Verb == "PATCH" && r.Subresource == "status" && pod.Annotations[v1.NetworksAnnotation] != "", // it is told that it waits, and waits no more
		waits && r.Verb == "PATCH":
		return ""
	}
	return "S6: " + what + ", which is of somebody else"
}

// isPod2 says whether a UID is that of a Pod2 which is there, or was for all that the
// slowest run of the controller may know: neither a kind nor a name makes an owner.
func isPod2(s *Cluster, uid types.UID) bool {
	for _, c := range slices.Backward(s.History()) {
		if c.Key.Resource == "pod2s" && c.New.Object.GetUID() == uid {
			return !c.Removed || c.New.Number > window(s, "pod2s")
		}
	}
	return false
}

// Changed looks at what is stored after a change.
func (p *Promises) Changed(s *Cluster, c Change) string {
	switch obj := c.New.(type) {
	case *corev1.Pod:
		said := []string{shared(s), onEdge(s), p.moved(s, obj)}
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
			return "" // who restores a block hands out nothing
		}
		old, _ := c.Old.(*v1.AddressBlock)
		return joined([]string{handedOut(s, old, obj), onEdge(s)})
	case *v1.Pod2:
		p.forget(obj)
	case nil:
		switch old := c.Old.(type) {
		case *v1.Network:
			return removed(s, old)
		case *v1.VNI:
			if isRun(s, c.By) {
				return released(s, old)
			}
		}
	}
	return ""
}

func isRun(s *Cluster, name string) bool { return s.processes[name] != nil }

func joined(texts []string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "; ")
}

// live says whether a pod may use its addresses.
func live(pod *corev1.Pod) bool {
	return len(pod.Spec.SchedulingGates) == 0 && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// published is the address of a pod by Network.
func published(pod *corev1.Pod) map[string]string {
	var raw map[string]struct {
		Address string `json:"address"`
	}
	_ = json.Unmarshal([]byte(pod.Annotations[v1.AddressesAnnotation]), &raw)
	all := map[string]string{}
	for network, a := range raw {
		all[network], _, _ = strings.Cut(a.Address, "/")
	}
	return all
}

// shared is S1: no two live pods hold one address of one Network.
func shared(s *Cluster) string {
	holder := map[string]string{}
	for _, pod := range apiserver.List[*corev1.Pod](s.Server, "pods") {
		if !live(pod) {
			continue
		}
		for network, address := range published(pod) {
			k := apiserver.Placed(pod.Namespace, network) + " " + address
			if other, taken := holder[k]; taken {
				return fmt.Sprintf("S1: %s of Network %s is held by %s and %s", address, apiserver.Placed(pod.Namespace, network), other, pod.Name)
			}
			holder[k] = pod.Name
		}
	}
	return ""
}

// deciding is how long a decision may be on its way to the server in these tests.
const deciding = 10 * time.Second

// window is the resourceVersion from which on a spec counts as one that the
// controller may have decided by: what its slowest run was shown a while ago.
func window(s *Cluster, resource string) int {
	oldest := s.Last()
	for _, w := range s.Watchers() {
		if w.ByHand && w.Resource.Resource == resource && !w.Over() {
			oldest = min(oldest, w.Known(deciding))
		}
	}
	return oldest
}

// handedOut is S2: no address is handed out that is outside the CIDR, network,
// broadcast, gateway or excluded.
func handedOut(s *Cluster, old, block *v1.AddressBlock) string {
	had := map[string]bool{}
	if old != nil {
		for _, e := range old.Spec.Entries {
			had[e.Address] = true
		}
	}
	for _, e := range block.Spec.Entries {
		if had[e.Address] || e.State != v1.AddressBound {
			continue
		}
		why := "its Network does not exist"
		for _, n := range apiserver.Versions[*v1.Network](s.Server, "networks", block.Spec.NetworkUID, window(s, "networks")) {
			if why = unusable(n, e.Address); why == "" {
				break
			}
		}
		// What a live pod has is written back, to it, whatever the Network says now.
		has := func(p *corev1.Pod) bool {
			return p.UID == e.PodUID && live(p) && published(p)[block.Spec.Network] == e.Address
		}
		if why != "" && !slices.ContainsFunc(apiserver.List[*corev1.Pod](s.Server, "pods"), has) {
			return fmt.Sprintf("S2: %s of Network %s is handed out to %s: %s", e.Address, block.Spec.Network, e.Pod, why)
		}
	}
	return ""
}

func unusable(n *v1.Network, text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return "it is none"
	}
	cidr := netip.MustParsePrefix(n.Spec.CIDR)
	switch {
	case !cidr.Contains(address):
		return "it is outside " + n.Spec.CIDR
	case address == cidr.Masked().Addr() && cidr.Bits() < address.BitLen()-1:
		return "it is the network's"
	case address.Is4() && !cidr.Contains(address.Next()) && cidr.Bits() < 31:
		return "it is the broadcast address"
	case text == n.Status.Gateway || text == n.Annotations[v1.GatewayAnnotation]:
		return "it is the gateway"
	}
	for _, excluded := range n.Spec.Exclude {
		e := string(excluded)
		first, last, isRange := strings.Cut(e, "-")
		switch {
		case isRange && !address.Less(netip.MustParseAddr(first)) && !netip.MustParseAddr(last).Less(address),
			!isRange && strings.Contains(e, "/") && netip.MustParsePrefix(e).Contains(address),
			e == text:
			return "it is excluded"
		}
	}
	return ""
}

// tooMany is S4: no pod is created while there are as many as replicas + maxSurge,
// terminating ones included.
func tooMany(s *Cluster, created *corev1.Pod) string {
	ref := metav1.GetControllerOf(created)
	if ref == nil || ref.Kind != "Pod2" {
		return "S4: " + created.Name + " is created for nobody"
	}
	most := 0
	for _, p := range apiserver.Versions[*v1.Pod2](s.Server, "pod2s", ref.UID, window(s, "pod2s")) {
		replicas := int(ptr.Deref(p.Spec.Replicas, 1))
		most = max(most, replicas+surge(p, replicas))
	}
	count := 0
	for _, pod := range apiserver.List[*corev1.Pod](s.Server, "pods") {
		if other := metav1.GetControllerOf(pod); other != nil && other.UID == ref.UID {
			count++
		}
	}
	if count > most {
		return fmt.Sprintf("S4: %s is created: %d pods of %s, of which there may be %d", created.Name, count, ref.Name, most)
	}
	return ""
}

// moved is S3: a replica keeps its address, for as long as its Pod2 has it, unless it asks
// for another one by name.
func (p *Promises) moved(s *Cluster, pod *corev1.Pod) string {
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind != "Pod2" || !live(pod) {
		return ""
	}
	for name, address := range published(pod) {
		n, _ := s.Get(apiserver.ResourceNamed("networks"), pod.Namespace, name).(*v1.Network)
		if n == nil {
			continue
		}
		r := replica{ref.UID, pod.Name[strings.LastIndex(pod.Name, "-")+1:], n.UID}
		asked := strings.Contains(strings.ReplaceAll(pod.Annotations[v1.NetworksAnnotation], " ", "")+",", "="+address+",")
		if before, ok := p.published[r]; ok && before != address && !asked {
			return fmt.Sprintf("S3: %s had %s of Network %s, and now %s", pod.Name, before, name, address)
		}
		p.published[r] = address
	}
	return ""
}

// forget drops the replicas that a Pod2 no longer has. No scenario takes a Network from
// a Pod2 that goes on.
func (p *Promises) forget(pod2 *v1.Pod2) {
	for r := range p.published {
		n, _ := strconv.Atoi(r.ordinal)
		if r.pod2 == pod2.UID && int32(n) >= ptr.Deref(pod2.Spec.Replicas, 1) {
			delete(p.published, r)
		}
	}
}

// removed is S8: no Network is removed whose ledger is not sealed.
func removed(s *Cluster, n *v1.Network) string {
	for _, block := range apiserver.List[*v1.AddressBlock](s.Server, "addressblocks") {
		if block.Spec.NetworkUID == n.UID && !block.Spec.Sealed {
			return fmt.Sprintf("S8: Network %s is removed while block %s is not sealed", n.Name, block.Name)
		}
	}
	return ""
}

// released is S9 the other way round: a number that a Network goes by is not set free.
func released(s *Cluster, vni *v1.VNI) string {
	for _, n := range apiserver.List[*v1.Network](s.Server, "networks") {
		if n.UID == vni.Spec.Network.UID && (n.Status.VNI == 0 || strconv.Itoa(int(n.Status.VNI)) == vni.Name) {
			return fmt.Sprintf("VNI %s is released while Network %s has it", vni.Name, n.Name)
		}
	}
	return ""
}
