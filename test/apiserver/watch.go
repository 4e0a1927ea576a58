package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Watcher is an open watch.
type Watcher struct {
	Who      string // the watching process
	ByHand   bool   // events are delivered only by Deliver
	Resource *Resource
	// Matches says whether the watch selects an object.
	Matches   func(Object) bool
	Seen      int // the place in the history up to which events were delivered
	namespace string
	number    int // the resourceVersion of the last delivered event
	from      int
	shown     []shown
	stream    *stream
}

// shown is the time at which a resourceVersion was delivered.
type shown struct {
	at     time.Time
	number int
}

// Known is the resourceVersion that was delivered this long ago. The process may have
// decided before it knew of later ones.
func (w *Watcher) Known(ago time.Duration) int {
	for _, s := range slices.Backward(w.shown) {
		if time.Since(s.at) > ago {
			return s.number
		}
	}
	return w.from
}

// watch opens a watch. On request it starts with the existing objects and a bookmark,
// otherwise it starts from a resourceVersion.
func (s *Server) watch(c *Call) *http.Response {
	matches, err := c.selector()
	if err != nil {
		return failure(err)
	}
	w := &Watcher{Who: c.Process, Resource: c.Resource, Matches: matches, namespace: c.Namespace, stream: newStream()}
	number, _ := strconv.Atoi(c.Query.Get("resourceVersion"))
	initial := c.Query.Get("sendInitialEvents") == "true"
	if !initial && number > 0 && number < s.dropped {
		gone := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", number, s.dropped)).Status()
		gone.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		w.send(watch.Error, MustJSON(gone))
		w.stream.end(io.EOF)
		return respond(http.StatusOK, w.stream)
	}
	objects := s.All(c.Resource, c.Namespace)
	from := s.version
	if s.ByHand != nil {
		at := 0
		if w.ByHand, at = s.ByHand(c.Process); at > 0 {
			objects, from = s.listAt(c.Resource, c.Namespace, at), at
		}
	}
	if !initial && number > 0 {
		objects, from = nil, number
	}
	for _, v := range objects {
		if matches(v.Object) {
			w.send(watch.Added, v.JSON())
		}
	}
	if initial {
		w.bookmark(from)
	}
	w.number, w.from = from, from
	w.Seen, _ = slices.BinarySearchFunc(s.history, from+1, func(c Change, number int) int { return c.New.Number - number })
	s.watchers = append(s.watchers, w)
	if !w.ByHand {
		s.DeliverAll(w)
	}
	return respond(http.StatusOK, w.stream)
}

// Watchers returns the open watches. The server is locked.
func (s *Server) Watchers() []*Watcher {
	s.watchers = slices.DeleteFunc(s.watchers, (*Watcher).Over)
	return s.watchers
}

// Over says whether a watch has ended.
func (w *Watcher) Over() bool { return w.stream.over() }

// End ends a watch.
func (w *Watcher) End(err error) { w.stream.end(err) }

// Next returns the next event of a watch, if there is one. It skips events that are not for
// this watch. The server is locked.
func (s *Server) Next(w *Watcher) (kind watch.EventType, c Change, ok bool) {
	for ; w.Seen < len(s.history); w.Seen++ {
		c := s.history[w.Seen]
		if c.Key.Resource != w.Resource.Resource || w.namespace != "" && c.Key.Namespace != w.namespace {
			continue
		}
		was := c.Old != nil && w.Matches(c.Old.Object)
		is := !c.Removed && w.Matches(c.New.Object)
		switch {
		case is && !was:
			return watch.Added, c, true
		case is:
			return watch.Modified, c, true
		case was:
			return watch.Deleted, c, true
		}
	}
	return "", Change{}, false
}

// Deliver delivers the next event. The server is locked.
func (s *Server) Deliver(w *Watcher, kind watch.EventType, c Change) {
	w.Seen++
	w.number = c.New.Number
	w.shown = append(w.shown, shown{time.Now(), c.New.Number})
	w.send(kind, c.New.JSON())
}

// DeliverAll delivers all events. The server is locked.
func (s *Server) DeliverAll(w *Watcher) {
	for kind, c, ok := s.Next(w); ok; kind, c, ok = s.Next(w) {
		s.Deliver(w, kind, c)
	}
}

func (w *Watcher) bookmark(number int) {
	obj := w.Resource.new()
	obj.GetObjectKind().SetGroupVersionKind(w.Resource.GVK())
	obj.SetResourceVersion(strconv.Itoa(number))
	obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	w.send(watch.Bookmark, MustJSON(obj))
}

func (w *Watcher) send(kind watch.EventType, object []byte) {
	w.stream.write(MustJSON(map[string]any{"type": kind, "object": json.RawMessage(object)}))
}

// MustJSON encodes a value that can always be encoded.
func MustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("apiserver: encode %T: %v", v, err))
	}
	return text
}

// stream is the body of the answer to a watch. A goroutine that waits for it is durably
// blocked, in the sense of synctest.
type stream struct {
	mu    sync.Mutex
	text  []byte
	err   error
	ready chan struct{}
}

func newStream() *stream { return &stream{ready: make(chan struct{}, 1)} }

func (s *stream) write(text []byte) {
	s.mu.Lock()
	s.text = append(append(s.text, text...), '\n')
	s.mu.Unlock()
	s.wake()
}

func (s *stream) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.wake()
}

func (s *stream) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		s.mu.Lock()
		if len(s.text) > 0 {
			n := copy(p, s.text)
			s.text = s.text[n:]
			s.mu.Unlock()
			return n, nil
		}
		err := s.err
		s.mu.Unlock()
		if err != nil {
			s.wake() // for another reader
			return 0, err
		}
		<-s.ready
	}
}

func (s *stream) Close() error {
	s.end(errClosed)
	return nil
}

var errClosed = errors.New("apiserver: the watch was closed")

func (s *stream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}
