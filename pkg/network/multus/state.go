package multus

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// State is all that one decision is made from: one view, read from caches.
type State struct {
	// Now dates the condition, and decides nothing.
	Now       time.Time
	Namespace string
	Name      string
	// Network is nil when none of this name exists.
	Network *v1.Network
	// VNIs that name this Network, in the order of their names, of whatever UID.
	VNIs []*v1.VNI
	// Candidates, of Numbers, are those that no VNI has, in that order.
	Candidates []int32
	// Installed: the cluster knows NetworkAttachmentDefinitions.
	Installed bool
	// Definition of this name, whoever's it is; nil: none.
	Definition *nadv1.NetworkAttachmentDefinition
	// Others are the other Networks of its Wire, in the order of namespaces and names; none
	// for an Overlay.
	Others []*v1.Network
	// UnderlayMTU is what the network of the nodes takes, in bytes.
	UnderlayMTU int32
}

// The numbers that Networks get. Below are those that other users of VXLAN choose by
// themselves: flannel 1, Calico 4096, and what people type.
const (
	FirstVNI = 1 << 16
	lastVNI  = 1<<24 - 1
)

// Numbers are, in the order in which they are to be tried, those that a Network may
// have. Two Networks begin with different ones, mostly; two controllers with the same.
func Numbers(network types.UID, many int) []int32 {
	numbers := make([]int32, 0, many)
	for i := range many {
		hash := fnv.New64a()
		hash.Write([]byte(network))
		hash.Write(binary.BigEndian.AppendUint32(nil, uint32(i)))
		numbers = append(numbers, int32(FirstVNI+hash.Sum64()%(lastVNI-FirstVNI+1)))
	}
	return numbers
}

// Name of the VNI with that number.
func Name(vni int32) string { return strconv.Itoa(int(vni)) }

// number of a VNI; false for a name that the schema does not allow.
func number(vni *v1.VNI) (int32, bool) {
	n, err := strconv.ParseInt(vni.Name, 10, 32)
	return int32(n), err == nil && n > 0 && n <= lastVNI && Name(int32(n)) == vni.Name
}

func overlay(n *v1.Network) bool {
	return n.Spec.Attachment == nil || n.Spec.Attachment.Type != v1.AttachmentCNI
}

// ours says whether the Network controls the object.
func ours(n *v1.Network, o metav1.Object) bool { return metav1.IsControlledBy(o, n) }
