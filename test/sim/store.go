package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Server is the API server. Make it, and use it, in a synctest bubble, or without
// a director outside of one.
type Server struct {
	mu      sync.Mutex
	begin   time.Time
	version int // the last resourceVersion given
	uids    int
	objects map[key]*version
	history []change
	dropped int // changes up to this resourceVersion are no longer to be had

	processes map[string]*Process
	watchers  []*watcher
	pending   []*step // requests
	// That there may be something to do.
	toDirector, toCluster chan struct{}
	asked                 map[string]bool // the kinds of requests of processes
	unserved              map[string]bool // resources whose CustomResourceDefinition is not there

	broken []*Fault
	rules  []*Rule

	monitors []Monitor
	lines    []string // of the trace
	faults   []string
}

type key struct{ resource, namespace, name string }

func (k key) String() string { return k.resource + "/" + placed(k.namespace, k.name) }

// placed is a name, with its namespace if that is another one than usual: see place.
func placed(namespace, name string) string {
	if namespace == Namespace || namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func nameOf(obj Object) string { return placed(obj.GetNamespace(), obj.GetName()) }

// version is an object as it was at a resourceVersion.
type version struct {
	object Object
	number int
	text   []byte
}

// change of one object; old is nil when it was created, new is what was there last
// when it was removed.
type change struct {
	by       string
	key      key
	old, new *version
	removed  bool
	view     *view // of the sync that wrote it, if one did
}

// Monitor looks at every request to write, and at every change of what is stored.
// What it returns is wrong; "" is nothing.
type Monitor interface {
	Request(s *Server, r Request) string
	Changed(s *Server, c Change) string
}

// Request of a process to write.
type Request struct {
	Process, Verb, Resource, Subresource, Name string
	UID, Version                               string // its preconditions
	Object                                     Object // of a create or an update
	Target                                     Object // as it is stored
}

// Change of what is stored. Old or New is nil.
type Change struct {
	By, Resource string
	Old, New     Object
}

// NewServer has no object. With a director, requests of processes are executed one
// at a time, when nothing else in the bubble can run.
func NewServer() *Server {
	return &Server{begin: time.Now(), objects: map[key]*version{}, processes: map[string]*Process{}, asked: map[string]bool{}, unserved: map[string]bool{}, toDirector: make(chan struct{}, 1), toCluster: make(chan struct{}, 1)}
}

// Watch has a monitor see all that is there, and all that follows.
func (s *Server) Watch(m Monitor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range resources {
		for _, v := range s.list(r, "") {
			s.fault(m.Changed(s, Change{Resource: r.Resource, Old: v.object, New: v.object}))
		}
	}
	s.monitors = append(s.monitors, m)
}

// Faults are what monitors found wrong.
func (s *Server) Faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

// Trace has a line for each write and what came of it.
func (s *Server) Trace() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// Asked are the kinds of requests that processes made, in order.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.asked))
}

// Version is the last resourceVersion given.
func (s *Server) Version() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *Server) note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%-9s ", time.Since(s.begin).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (s *Server) fault(text string) {
	if text != "" {
		s.note("WRONG: %s", text)
		s.faults = append(s.faults, text)
	}
}

// put stores an object that the caller may no longer change.
func (s *Server) put(by string, r *resource, obj Object) Object {
	k := key{r.Resource, obj.GetNamespace(), obj.GetName()}
	old := s.objects[k]
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
	obj.GetObjectKind().SetGroupVersionKind(r.gvk())
	next := &version{object: obj, number: s.version}
	s.objects[k] = next
	s.changed(change{by: by, key: k, old: old, new: next})
	return obj
}

func (s *Server) remove(by string, r *resource, obj Object) {
	k := key{r.Resource, obj.GetNamespace(), obj.GetName()}
	old := s.objects[k]
	delete(s.objects, k)
	last := old.object.DeepCopyObject().(Object)
	s.version++
	last.SetResourceVersion(strconv.Itoa(s.version))
	s.changed(change{by: by, key: k, old: old, new: &version{object: last, number: s.version}, removed: true})
}

func (s *Server) changed(c change) {
	s.history = append(s.history, c)
	public := Change{By: c.by, Resource: c.key.resource, New: c.new.object}
	if c.old != nil {
		public.Old = c.old.object
	}
	if c.removed {
		public.New = nil
	}
	for _, m := range s.monitors {
		s.fault(m.Changed(s, public))
	}
	for _, w := range s.watchers {
		if w.process == nil {
			s.deliverAll(w)
		}
	}
	s.wake()
	if !apart[c.key.resource] {
		signal(s.toCluster)
	}
}

func (s *Server) get(r *resource, namespace, name string) Object {
	if v, ok := s.objects[key{r.Resource, namespace, name}]; ok {
		return v.object
	}
	return nil
}

// list is in the order of namespaces and names; the empty namespace is all.
func (s *Server) list(r *resource, namespace string) []*version {
	var found []*version
	for k, v := range s.objects {
		if k.resource == r.Resource && (namespace == "" || k.namespace == namespace) {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *version) int {
		return strings.Compare(a.object.GetNamespace()+"/"+a.object.GetName(), b.object.GetNamespace()+"/"+b.object.GetName())
	})
	return found
}

// listAt is the list as it was at a resourceVersion.
func (s *Server) listAt(r *resource, namespace string, number int) []*version {
	then := &Server{objects: map[key]*version{}}
	for _, c := range s.history {
		switch {
		case c.new.number > number || c.key.resource != r.Resource:
		case c.removed:
			delete(then.objects, c.key)
		default:
			then.objects[c.key] = c.new
		}
	}
	return then.list(r, namespace)
}

// List is what is stored now of a resource, in the order of names.
func List[T Object](s *Server, resource string) []T {
	var all []T
	for _, v := range s.list(resourceNamed(resource), "") {
		all = append(all, v.object.(T))
	}
	return all
}

// Versions are those that an object with a UID had, the current one included,
// since (and the one before) a moment.
func Versions[T Object](s *Server, resource string, uid types.UID, since int) []T {
	var all []T
	for _, c := range slices.Backward(s.history) {
		if c.key.resource == resource && c.new.object.GetUID() == uid && !c.removed {
			all = append(all, c.new.object.(T))
			if c.new.number <= since {
				break
			}
		}
	}
	return all
}

func (v *version) json() []byte {
	if v.text == nil {
		text, err := json.Marshal(v.object)
		if err != nil {
			panic(fmt.Sprintf("sim: encode %T: %v", v.object, err))
		}
		v.text = text
	}
	return v.text
}

func (s *Server) newUID() types.UID {
	s.uids++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids))
}

// Compact forgets the history, as etcd does: a watch from before gets 410 Gone.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = s.version
}

// store puts an updated object in the place of an old one, or removes it when
// nothing keeps it any more. An update that changes nothing writes nothing.
func (s *Server) store(by string, r *resource, old, next Object) Object {
	if r.generation && !sameContent(r, old, next) {
		next.SetGeneration(old.GetGeneration() + 1)
	}
	if equality.Semantic.DeepEqual(old, next) {
		return old
	}
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 && grace(next) == 0 {
		s.remove(by, r, next)
		return next
	}
	return s.put(by, r, next)
}

func grace(obj metav1.Object) int64 {
	if seconds := obj.GetDeletionGracePeriodSeconds(); seconds != nil {
		return *seconds
	}
	return 0
}

// Points are the resourceVersions after a moment at which objects of a resource
// changed.
func (s *Server) Points(resource string, after int) (points []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.history {
		if c.key.resource == resource && c.new.number > after {
			points = append(points, c.new.number)
		}
	}
	return points
}
