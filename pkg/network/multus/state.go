package multus

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nadv1 "github.com/pod2/pod2/pkg/apis/k8scnicncfio/v1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// State is the input of one decision. It is one view, read from caches.
type State struct {
	// Now dates the condition. No decision depends on it.
	Now       time.Time
	Namespace string
	Name      string
	// Network is nil if no Network with this name exists.
	Network *v1.Network
	// VNIs that name this Network, of any UID, in name order.
	VNIs []*v1.VNI
	// Candidates are those that the function Candidates returns.
	Candidates []int32
	// Installed: the cluster has the kind NetworkAttachmentDefinition.
	Installed bool
	// Definition with this name, of any owner; nil: none.
	Definition *nadv1.NetworkAttachmentDefinition
	// Others are the other Networks on the same Wire, ordered by namespace and name; none
	// for an Overlay Network.
	Others []*v1.Network
}

// The range of the numbers that Networks get. Other users of VXLAN choose lower numbers:
// flannel 1, Calico 4096, and small numbers that people type.
const (
	FirstVNI = 1 << 16
	lastVNI  = 1<<24 - 1
)

// Numbers returns the numbers that a Network may have, in the order to try them. Two
// Networks usually begin with different numbers; two controllers begin with the same.
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

// candidates is how many Numbers a Network tries at a time. With half of all sixteen
// million taken, one in a million Networks would find none.
const candidates = 20

// Candidates returns the numbers that a Network may claim, in the order to try them: its
// Numbers, and then the number in its status, whose VNI a user may have deleted.
func Candidates(n *v1.Network, taken func(vni string) bool) []int32 {
	numbers := Numbers(n.UID, candidates)
	if told := n.Status.VNI; told != 0 {
		numbers = append(numbers, told)
	}
	return slices.DeleteFunc(numbers, func(vni int32) bool { return taken(Name(vni)) })
}

// Name of the VNI with this number.
func Name(vni int32) string { return strconv.Itoa(int(vni)) }

// number returns the number of a VNI; false for a name that the schema does not allow.
func number(vni *v1.VNI) (int32, bool) {
	n, err := strconv.ParseInt(vni.Name, 10, 32)
	return int32(n), err == nil && n > 0 && n <= lastVNI && Name(int32(n)) == vni.Name
}

func overlay(n *v1.Network) bool {
	return n.Spec.Attachment == nil || n.Spec.Attachment.Type != v1.AttachmentCNI
}

// The function says whether the Network controls the object.
func ours(n *v1.Network, o metav1.Object) bool { return metav1.IsControlledBy(o, n) }
