package apiserver

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Server is the API server. Some of its methods, and some functions of this package,
// require that the caller holds its lock.
type Server struct {
	sync.Mutex
	// OnWrite and OnChange, if not nil, see every write request before it is carried out,
	// and every change of the store. The server is locked then.
	OnWrite  func(Request)
	OnChange func(Change)
	// ByHand, if not nil, is called when a watch begins. byHand means that only Deliver
	// delivers events to the watch. at is the resourceVersion of its first list, 0 for the
	// latest.
	ByHand func(who string) (byHand bool, at int)

	// Clock and UID, if not nil, return the time, and the UIDs of created objects.
	Clock func() time.Time
	UID   func(Object) types.UID
	// PageSize is the largest page of a list; 0 means that the client's limit applies.
	PageSize int

	begin    time.Time
	version  int // the latest resourceVersion
	uids     int
	objects  map[Key]*Version
	history  []Change
	dropped  int // changes up to this resourceVersion are forgotten
	watchers []*Watcher
	unserved map[string]bool // resources without a CustomResourceDefinition

	broken []*Fault
	rules  []*Rule

	lines []string // of the trace
}

// User is the name under which a test's users act. No rule refuses their requests.
const User = "user"

// Namespace is the default namespace of objects.
const Namespace = metav1.NamespaceDefault

// Version is an object at a resourceVersion.
type Version struct {
	Object Object
	Number int
	text   []byte
}

// Change is a change of one object. Old is nil for a created object. New is the last
// version of a removed object.
type Change struct {
	By       string
	Key      Key
	Old, New *Version
	Removed  bool
}

// Request is a write request.
type Request struct {
	Process, Verb, Resource, Subresource, Name string
	UID, Version                               string // the preconditions
	Object                                     Object // the object of a create or an update
	Target                                     Object // the stored object
}

// NewServer returns a server without objects.
func NewServer() *Server {
	return &Server{begin: time.Now(), objects: map[Key]*Version{}, unserved: map[string]bool{}}
}

// Trace has a line for each write and its result.
func (s *Server) Trace() string {
	s.Lock()
	defer s.Unlock()
	return strings.Join(s.lines, "\n")
}

// Version is the latest resourceVersion.
func (s *Server) Version() int {
	s.Lock()
	defer s.Unlock()
	return s.version
}

// Last is the latest resourceVersion. The server is locked.
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

// Remove removes an object from the store. The server is locked.
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

// Get returns a stored object, nil if it does not exist. The server is locked.
func (s *Server) Get(r *Resource, namespace, name string) Object {
	if v, ok := s.objects[Key{r.Resource, namespace, name}]; ok {
		return v.Object
	}
	return nil
}

// All returns objects in the order of namespaces and names. The empty namespace means all.
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

// listAt returns the list at an earlier resourceVersion.
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

// List returns the stored objects of a resource, in the order of names.
func List[T Object](s *Server, resource string) []T {
	var all []T
	for _, v := range s.All(ResourceNamed(resource), "") {
		all = append(all, v.Object.(T))
	}
	return all
}

// Versions returns the versions of the object with this UID since a resourceVersion, newest
// first, and the last version before it.
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

// JSON returns the object in the form in which it is sent.
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

// now returns the time in the precision of the API.
func (s *Server) now() metav1.Time {
	if s.Clock != nil {
		return metav1.NewTime(s.Clock().Truncate(time.Second))
	}
	return Now()
}

// Skip skips some resourceVersions, and returns the last of them.
func (s *Server) Skip(n int) string {
	s.version += n
	return strconv.Itoa(s.version)
}

// Compact forgets the history like etcd: a watch from an earlier version gets 410 Gone.
func (s *Server) Compact() {
	s.Lock()
	defer s.Unlock()
	s.dropped = s.version
}

// Store replaces an object with its update, or removes it if nothing keeps it any more. An
// update without a change writes nothing. The server is locked.
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

// Grace is the remaining grace period, in seconds, of an object that is being deleted.
func Grace(obj metav1.Object) int64 {
	if seconds := obj.GetDeletionGracePeriodSeconds(); seconds != nil {
		return *seconds
	}
	return 0
}

// Edit changes a stored object with the function how. The server is locked.
func Edit[T Object](s *Server, by string, obj T, how func(T)) {
	next := obj.DeepCopyObject().(T)
	how(next)
	s.Store(by, ResourceOf(obj), obj, next)
}

// Unserve removes a kind and all of its objects, like the deletion of its
// CustomResourceDefinition. Its watches end. The server is locked.
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

// Serve reverts Unserve. The server is locked.
func (s *Server) Serve(r *Resource) { delete(s.unserved, r.Resource) }
