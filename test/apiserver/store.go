package apiserver

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Server is the API server. Lock it to use those of its methods that say so, and functions
// of this package that are given it.
type Server struct {
	sync.Mutex
	// OnWrite and OnChange, if not nil, see every request to write, before it is carried
	// out, and every change of what is stored. The server is locked.
	OnWrite  func(Request)
	OnChange func(Change)
	// ByHand, if not nil, is asked when a watch begins, whether its events are handed over by
	// Deliver, and not as they come, and which resourceVersion its first list shows; 0: the last.
	ByHand func(who string) (byHand bool, at int)

	// Clock and UID, if not nil, give the time, and the UIDs of what is created.
	Clock func() time.Time
	UID   func(Object) types.UID
	// PageSize is the most that a list has at once; 0: as many as are asked for.
	PageSize int

	begin    time.Time
	version  int // the last resourceVersion given
	uids     int
	objects  map[Key]*Version
	history  []Change
	dropped  int // changes up to this resourceVersion are no longer to be had
	watchers []*Watcher
	unserved map[string]bool // resources whose CustomResourceDefinition is not there

	broken []*Fault
	rules  []*Rule

	lines []string // of the trace
}

// User is by whom it is what users do in a test: no rule refuses it.
const User = "user"

// Namespace is where everything is, if nothing else is said.
const Namespace = metav1.NamespaceDefault

// Key is where an object is.
type Key struct{ Resource, Namespace, Name string }

// KeyOf is the key of an object.
func KeyOf(resource, namespace, name string) Key { return Key{resource, namespace, name} }

func (k Key) String() string { return k.Resource + "/" + Placed(k.Namespace, k.Name) }

// Placed is a name, with its namespace if that is another one than usual: see Place.
func Placed(namespace, name string) string {
	if namespace == Namespace || namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// NameOf is the name of an object, placed.
func NameOf(obj Object) string { return Placed(obj.GetNamespace(), obj.GetName()) }

// Version is an object as it was at a resourceVersion.
type Version struct {
	Object Object
	Number int
	text   []byte
}

// Change of one object; Old is nil when it was created, New is what was there last
// when it was removed.
type Change struct {
	By       string
	Key      Key
	Old, New *Version
	Removed  bool
}

// Request of somebody to write.
type Request struct {
	Process, Verb, Resource, Subresource, Name string
	UID, Version                               string // its preconditions
	Object                                     Object // of a create or an update
	Target                                     Object // as it is stored
}

// NewServer has no object.
func NewServer() *Server {
	return &Server{begin: time.Now(), objects: map[Key]*Version{}, unserved: map[string]bool{}}
}

// Trace has a line for each write and what came of it.
func (s *Server) Trace() string {
	s.Lock()
	defer s.Unlock()
	return strings.Join(s.lines, "\n")
}

// Version is the last resourceVersion given.
func (s *Server) Version() int {
	s.Lock()
	defer s.Unlock()
	return s.version
}

// Last is the last resourceVersion given. The server is locked.
func (s *Server) Last() int { return s.version }

// Note writes a line into the trace. The server is locked.
func (s *Server) Note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%-9s ", time.Since(s.begin).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// Put stores an object that the caller may no longer change. The server is locked.
func (s *Server) Put(by string, r *Resource, obj Object) Object {
	k := Key{r.Resource, obj.GetNamespace(), obj.GetName()}
	old := s.objects[k]
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
	obj.GetObjectKind().SetGroupVersionKind(r.GVK())
	next := &Version{Object: obj, Number: s.version}
	s.objects[k] = next
	s.changed(Change{By: by, Key: k, Old: old, New: next})
	return obj
}

// Remove takes an object from the store. The server is locked.
func (s *Server) Remove(by string, r *Resource, obj Object) {
	k := Key{r.Resource, obj.GetNamespace(), obj.GetName()}
	old := s.objects[k]
	delete(s.objects, k)
	last := old.Object.DeepCopyObject().(Object)
	s.version++
	last.SetResourceVersion(strconv.Itoa(s.version))
	s.changed(Change{By: by, Key: k, Old: old, New: &Version{Object: last, Number: s.version}, Removed: true})
}

func (s *Server) changed(c Change) {
	s.history = append(s.history, c)
	for _, w := range s.watchers {
		if !w.ByHand {
			s.DeliverAll(w)
		}
	}
	if s.OnChange != nil {
		s.OnChange(c)
	}
}

// Get is what is stored, nil if nothing is. The server is locked.
func (s *Server) Get(r *Resource, namespace, name string) Object {
	if v, ok := s.objects[Key{r.Resource, namespace, name}]; ok {
		return v.Object
	}
	return nil
}

// All is in the order of namespaces and names; the empty namespace is all.
// The server is locked.
func (s *Server) All(r *Resource, namespace string) []*Version {
	var found []*Version
	for k, v := range s.objects {
		if k.Resource == r.Resource && (namespace == "" || k.Namespace == namespace) {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *Version) int {
		return strings.Compare(a.Object.GetNamespace()+"/"+a.Object.GetName(), b.Object.GetNamespace()+"/"+b.Object.GetName())
	})
	return found
}

// listAt is the list as it was at a resourceVersion.
func (s *Server) listAt(r *Resource, namespace string, number int) []*Version {
	then := &Server{objects: map[Key]*Version{}}
	for _, c := range s.history {
		switch {
		case c.New.Number > number || c.Key.Resource != r.Resource:
		case c.Removed:
			delete(then.objects, c.Key)
		default:
			then.objects[c.Key] = c.New
		}
	}
	return then.All(r, namespace)
}

// List is what is stored now of a resource, in the order of names.
func List[T Object](s *Server, resource string) []T {
	var all []T
	for _, v := range s.All(ResourceNamed(resource), "") {
		all = append(all, v.Object.(T))
	}
	return all
}

// Versions are those that an object with a UID had, the current one included,
// since (and the one before) a moment.
func Versions[T Object](s *Server, resource string, uid types.UID, since int) []T {
	var all []T
	for _, c := range slices.Backward(s.history) {
		if c.Key.Resource == resource && c.New.Object.GetUID() == uid && !c.Removed {
			all = append(all, c.New.Object.(T))
			if c.New.Number <= since {
				break
			}
		}
	}
	return all
}

// JSON is the object as it is sent.
func (v *Version) JSON() []byte {
	if v.text == nil {
		text, err := json.Marshal(v.Object)
		if err != nil {
			panic(fmt.Sprintf("apiserver: encode %T: %v", v.Object, err))
		}
		v.text = text
	}
	return v.text
}

func (s *Server) newUID(obj Object) types.UID {
	if s.UID != nil {
		return s.UID(obj)
	}
	s.uids++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids))
}

// now is the time as the API has it.
func (s *Server) now() metav1.Time {
	if s.Clock != nil {
		return metav1.NewTime(s.Clock().Truncate(time.Second))
	}
	return Now()
}

// Skip leaves out some resourceVersions, and returns the last of them.
func (s *Server) Skip(n int) string {
	s.version += n
	return strconv.Itoa(s.version)
}

// Compact forgets the history, as etcd does: a watch from before gets 410 Gone.
func (s *Server) Compact() {
	s.Lock()
	defer s.Unlock()
	s.dropped = s.version
}

// Store puts an updated object in the place of an old one, or removes it when
// nothing keeps it any more. An update that changes nothing writes nothing. The server is
// locked.
func (s *Server) Store(by string, r *Resource, old, next Object) Object {
	switch changed, gone := r.Settle(old, next); {
	case !changed:
		return old
	case gone:
		s.Remove(by, r, next)
		return next
	}
	return s.Put(by, r, next)
}

// Grace is how long an object that is being deleted is given, in seconds.
func Grace(obj metav1.Object) int64 {
	if seconds := obj.GetDeletionGracePeriodSeconds(); seconds != nil {
		return *seconds
	}
	return 0
}

// Edit stores what how makes of an object that is stored. The server is locked.
func Edit[T Object](s *Server, by string, obj T, how func(T)) {
	next := obj.DeepCopyObject().(T)
	how(next)
	s.Store(by, ResourceOf(obj), obj, next)
}

// Unserve takes a kind from the server, with all of its objects, as who deletes its
// CustomResourceDefinition. A watch of it ends. The server is locked.
func (s *Server) Unserve(r *Resource) {
	for _, v := range s.All(r, "") {
		s.Remove(User, r, v.Object)
	}
	s.unserved[r.Resource] = true
	for _, w := range s.watchers {
		if w.Resource == r {
			w.End(io.EOF)
		}
	}
}

// Serve is the end of Unserve. The server is locked.
func (s *Server) Serve(r *Resource) { delete(s.unserved, r.Resource) }

// Snapshot is what a server has stored at a moment: another one can go on from it.
type Snapshot struct {
	version, uids int
	objects       map[Key]*Version
	history       []Change
}

// Snapshot is this server now. The server is locked.
func (s *Server) Snapshot() *Snapshot {
	for _, c := range s.history {
		c.New.JSON() // now: later, several bubbles may want it at once
	}
	return &Snapshot{s.version, s.uids, maps.Clone(s.objects), slices.Clip(slices.Clone(s.history))}
}

// Version is the last resourceVersion that was given.
func (s *Snapshot) Version() int { return s.version }

// Restore has a server that was not used yet go on from a snapshot.
func (s *Server) Restore(from *Snapshot) {
	s.version, s.uids, s.objects, s.history = from.version, from.uids, maps.Clone(from.objects), from.history
}

// Points are the resourceVersions after a moment at which objects of a resource
// changed.
func (s *Server) Points(resource string, after int) (points []int) {
	s.Lock()
	defer s.Unlock()
	for _, c := range s.history {
		if c.Key.Resource == resource && c.New.Number > after {
			points = append(points, c.New.Number)
		}
	}
	return points
}

// History is every change, in order. The server is locked.
func (s *Server) History() []Change { return s.history }

// Objects is all that is stored. The server is locked.
func (s *Server) Objects() map[Key]*Version { return s.objects }
