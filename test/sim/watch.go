package sim

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

// watcher is an open watch. The director hands it one event at a time.
type watcher struct {
	process   *Process // nil: events are handed over as they come
	resource  *resource
	namespace string
	matches   func(Object) bool
	seen      int // events up to this place in the history were handed over
	number    int // the resourceVersion of the last of them
	from      int
	shown     []shown
	stream    *stream
}

// shown is when a resourceVersion was handed over.
type shown struct {
	at     time.Time
	number int
}

// known is the resourceVersion that was handed over a while ago: of what came since,
// the process may have decided something before.
func (w *watcher) known(ago time.Duration) int {
	for _, s := range slices.Backward(w.shown) {
		if time.Since(s.at) > ago {
			return s.number
		}
	}
	return w.from
}

// watch opens a watch: with the objects that there are and a bookmark after them,
// where they are asked for, or from a resourceVersion on.
func (s *Server) watch(c *call) *http.Response {
	matches, err := c.selector()
	if err != nil {
		return failure(err)
	}
	w := &watcher{resource: c.resource, namespace: c.namespace, matches: matches, stream: newStream()}
	number, _ := strconv.Atoi(c.query.Get("resourceVersion"))
	initial := c.query.Get("sendInitialEvents") == "true"
	if !initial && number > 0 && number < s.dropped {
		gone := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", number, s.dropped)).Status()
		gone.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		w.send(watch.Error, mustJSON(gone))
		w.stream.end(io.EOF)
		return respond(http.StatusOK, w.stream)
	}
	objects := s.list(c.resource, c.namespace)
	from := s.version
	if w.process = s.processes[c.process]; w.process != nil && w.process.StartAt > 0 {
		objects, from = s.listAt(c.resource, c.namespace, w.process.StartAt), w.process.StartAt
	}
	if !initial && number > 0 {
		objects, from = nil, number
	}
	for _, v := range objects {
		if matches(v.object) {
			w.send(watch.Added, v.json())
		}
	}
	if initial {
		w.bookmark(from)
	}
	w.number, w.from = from, from
	w.seen, _ = slices.BinarySearchFunc(s.history, from+1, func(c change, number int) int { return c.new.number - number })
	s.watchers = append(s.watchers, w)
	if w.process == nil {
		s.deliverAll(w)
	}
	s.wake()
	return respond(http.StatusOK, w.stream)
}

// next is the event that comes next, if there is one; those that are not of this
// watch are skipped.
func (s *Server) next(w *watcher) (kind watch.EventType, c change, ok bool) {
	for ; w.seen < len(s.history); w.seen++ {
		c := s.history[w.seen]
		if c.key.resource != w.resource.Resource || w.namespace != "" && c.key.namespace != w.namespace {
			continue
		}
		was := c.old != nil && w.matches(c.old.object)
		is := !c.removed && w.matches(c.new.object)
		switch {
		case is && !was:
			return watch.Added, c, true
		case is:
			return watch.Modified, c, true
		case was:
			return watch.Deleted, c, true
		}
	}
	return "", change{}, false
}

func (s *Server) deliver(w *watcher, kind watch.EventType, c change) {
	w.seen++
	w.number = c.new.number
	w.shown = append(w.shown, shown{time.Now(), c.new.number})
	w.send(kind, c.new.json())
}

func (s *Server) deliverAll(w *watcher) {
	for kind, c, ok := s.next(w); ok; kind, c, ok = s.next(w) {
		s.deliver(w, kind, c)
	}
}

func (w *watcher) bookmark(number int) {
	obj := w.resource.new()
	obj.GetObjectKind().SetGroupVersionKind(w.resource.gvk())
	obj.SetResourceVersion(strconv.Itoa(number))
	obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	w.send(watch.Bookmark, mustJSON(obj))
}

func (w *watcher) send(kind watch.EventType, object []byte) {
	w.stream.write(mustJSON(map[string]any{"type": kind, "object": json.RawMessage(object)}))
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sim: encode %T: %v", v, err))
	}
	return text
}

// stream is the body of the answer to a watch. Whoever waits for it is durably
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

var errClosed = errors.New("sim: the watch was closed")

func (s *stream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}
