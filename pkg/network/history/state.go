package history

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// full is the number of records that an AddressHistory has room for, as in its schema.
const full = 256

// How long the controller waits before it writes.
const (
	// EndsEvery is the time for which it collects tenures that ended. A controller that is
	// killed loses these.
	EndsEvery = 8 * time.Second
	// HoldersEvery is the time for which the checksum may be out of date, if only new holders
	// came.
	HoldersEvery = time.Minute
	// ViewAge is how old the view of AddressBlocks may be at a write. A gap begins this long before
	// the last write.
	ViewAge = 8 * time.Second
	// WritesEvery is the time between two writes for one Network.
	WritesEvery = time.Second
)

// State is the input of one decision. It is one view, read from caches.
type State struct {
	Now             time.Time
	Namespace, Name string
	// Network is nil if no Network with this name exists.
	Network *v1.Network
	// Histories have the label of this Network, or are owned by it, in any order.
	Histories []*v1.AddressHistory
	// Blocks of Networks with this name, in name order.
	Blocks []*v1.AddressBlock
	// Nodes of pods, by UID: those that Seen.Located does not know.
	Nodes map[types.UID]string
	// Stopping: this is the last sync before the controller stops, so nothing waits for more.
	Stopping bool
	// Seen is the memory of the last sync of this process. It is nil for the first sync.
	Seen *Seen
	// Versions of Blocks since the last sync, by name and in their order. An address may have
	// changed hands several times. For the first sync, they begin with the version at the time
	// at which this process began to write.
	Versions map[string][]*v1.AddressBlock
}

// Bounds returns the bounds in the spec of a Network.
func Bounds(n *v1.Network) (limit int, age time.Duration) {
	b := ptr.Deref(n.Spec.AddressHistory, v1.AddressHistoryBounds{})
	return int(ptr.Deref(b.Limit, 1000)), time.Duration(ptr.Deref(b.MaxAgeSeconds, 30*24*3600)) * time.Second
}

// room is the number of records in an AddressHistory of a Network with this limit.
func room(limit int) int { return min(max(limit/4, 1), full) }

// Sorted returns the AddressHistories of a Network, the oldest first.
func Sorted(n *v1.Network, all []*v1.AddressHistory) []*v1.AddressHistory {
	own := slices.DeleteFunc(slices.Clone(all), func(h *v1.AddressHistory) bool { return !metav1.IsControlledBy(h, n) })
	slices.SortFunc(own, func(a, b *v1.AddressHistory) int {
		return cmp.Or(cmp.Compare(number(a), number(b)), strings.Compare(a.Name, b.Name))
	})
	return own
}

// number is the number at the end of a name; -1 if there is none.
func number(h *v1.AddressHistory) int {
	digits := h.Name[strings.LastIndexByte(h.Name, '-')+1:]
	if n, err := strconv.Atoi(digits); err == nil {
		return n
	}
	return -1
}

// expires is the time at which the last record of an AddressHistory reaches the age. It
// returns false if there are no records.
func expires(h *v1.AddressHistory, age time.Duration) (time.Time, bool) {
	if len(h.Spec.Records) == 0 {
		return time.Time{}, false
	}
	return h.Spec.Records[len(h.Spec.Records)-1].Until.Add(age), true
}
