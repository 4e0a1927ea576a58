package model

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pod2/pod2/test/spec"
)

// Key identifies the object of a sync, in the only namespace.
type Key struct{ Kind, Name string }

func (k Key) String() string { return k.Kind + " " + k.Name }

// Memory is the knowledge that a controller keeps between syncs, and loses in a crash.
type Memory struct {
	Wrote   []Wrote
	Deleted []Deleted
	Found   []*corev1.Pod
	Over    []Over
	// History is the memory about AddressHistories.
	History History
}

// Wrote is a write that a cache may not show yet.
type Wrote struct {
	Key      Key
	Resource string
	Version  string
}

// Deleted is an object that a cache may still show. With a Version, the object was not
// deleted: the controller's watch does not select that version.
type Deleted struct {
	Key            Key
	Resource, Path string
	UID            types.UID
	Version        string
}

// Over is a pod that a live read confirmed as terminated.
type Over struct {
	Key Key
	Pod string
	UID types.UID
}

// state is the whole world: the API server, the controllers, and the faults and edits that
// are left.
type state struct {
	server  [kinds][]*object // in name order
	last    [kinds]uint16    // resourceVersion of the last event of the kind
	uids    uint16           // number of assigned UIDs
	control []control
	ticks   uint8
	left    []uint8 // of each fault and edit of the configuration
	// kept has the address that each replica published last.
	kept []keptAddress
	// ended has the tenures of addresses that ended, for AddressHistories.
	ended []spec.Tenure
	// versions are those of AddressBlocks that a watch may still show, if states are Numbered.
	versions []*object
}

type keptAddress struct {
	pod, network string
	address      netip.Addr
}

// control is a controller: its caches, its memory, and its unfinished sync. Its caches
// change only when a sync starts, because no code reads them between syncs.
type control struct {
	cache  [kinds][]*object
	at     [kinds]uint16 // the version up to which the cache is current
	memory memory
	sync   *syncing
}

// syncing is an unfinished sync. A sync is a function of its view and of the answers to its
// calls, so these fields describe it completely.
type syncing struct {
	key     uint8 // index of the configuration's keys
	ticks   uint8 // when it began
	answers []answer
}

// answer is the answer to a call.
type answer struct {
	to      string // the call, without its numbers
	err     failure
	objects []*object
}

type failure uint8

const (
	none failure = iota
	notFound
	conflict
	alreadyExists
	otherUID
	inapplicable
	invalid
	timeout
)

func (f failure) String() string {
	return [...]string{"", "NotFound", "Conflict", "AlreadyExists", "Invalid (another UID)", "Invalid (patch)", "Invalid", "Timeout"}[f]
}

// memory is Memory with its numbers extracted.
type memory struct {
	wrote   []wrote
	deleted []deleted
	found   []*object
	over    []over
	history *remembered
}

type wrote struct {
	key     Key
	kind    Kind
	version uint16
}

type deleted struct {
	key     Key
	kind    Kind
	path    string
	uid     uint16
	version uint16
}

// shownBy says whether the cached object is the deleted one.
func (d deleted) shownBy(o *object) bool {
	if o.uid != d.uid || namespace+"/"+o.name != d.path {
		return false
	}
	if d.version == 0 {
		return o.value.GetDeletionTimestamp() == nil
	}
	return o.version < d.version
}

type over struct {
	key Key
	pod string
	uid uint16
}

func (m memory) empty() bool { return len(m.wrote)+len(m.deleted)+len(m.found)+len(m.over) == 0 }

func (s *state) clone() *state {
	next := *s
	for k := range next.server {
		next.server[k] = slices.Clip(next.server[k])
	}
	next.control = slices.Clone(s.control)
	next.left = slices.Clone(s.left)
	next.kept = slices.Clone(s.kept)
	next.ended, next.versions = slices.Clip(s.ended), slices.Clip(s.versions)
	return &next
}

func (s *state) find(k Kind, name string) (int, *object) {
	for i, o := range s.server[k] {
		if o.name == name {
			return i, o
		}
	}
	return -1, nil
}

// put stores a new or changed object.
func (s *state) put(o *object) {
	list := slices.Clone(s.server[o.kind])
	if i, old := s.find(o.kind, o.name); old != nil {
		list[i] = o
	} else {
		list = append(list, o)
		slices.SortFunc(list, func(a, b *object) int { return cmp.Compare(a.name, b.name) })
	}
	s.server[o.kind] = list
}

func (s *state) remove(o *object) {
	s.server[o.kind] = slices.DeleteFunc(slices.Clone(s.server[o.kind]), func(x *object) bool { return x.name == o.name })
}

func (s *state) nextVersion(k Kind) uint16 {
	s.last[k]++
	return s.last[k]
}

// shown returns the objects of a kind that a current cache shows.
func (s *state) shown(k Kind, watched func(*object) bool) []*object {
	if k != Pods {
		return s.server[k]
	}
	for i, o := range s.server[k] {
		if !watched(o) {
			list := slices.Clone(s.server[k][:i])
			for _, o := range s.server[k][i:] {
				if watched(o) {
					list = append(list, o)
				}
			}
			return list
		}
	}
	return s.server[k]
}
