package addresses

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	view "github.com/pod2/pod2/cmd/pod2-apiserver/apis/view/v1alpha1"
)

// bookmarks is the time between two bookmarks.
const bookmarks = time.Minute

// watcher sends the events of a cache to one client. It reads the log at its own speed. If
// the log drops events that it has not read, it ends with error 410, and the client lists
// again.
type watcher struct {
	cache   *Cache
	matches func(*view.Address) bool
	// initial Addresses are sent first.
	initial []*view.Address
	// from is where the client continues. joined events lead it to next, the next event to read.
	from   version
	joined []event
	next   int

	results chan watch.Event
	stop    chan struct{}
	once    sync.Once
}

// Watch sends the changes after a version. Without a version, it sends the Addresses first.
func (r REST) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	from, err := r.reach(ctx, options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &watcher{cache: r.Cache, matches: matcher(request.NamespaceValue(ctx), options), from: from,
		results: make(chan watch.Event, 100), stop: make(chan struct{})}
	streamed := options.SendInitialEvents != nil && *options.SendInitialEvents
	newest := options.ResourceVersion == "" || options.ResourceVersion == "0"
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch {
	case streamed || newest:
		w.from, w.next = r.at.max(w.from), r.dropped+len(r.log)
		if streamed || options.SendInitialEvents == nil {
			for _, a := range r.sorted {
				if w.matches(a) {
					w.initial = append(w.initial, a)
				}
			}
		}
	default:
		if behind := w.from.whole().behind(r.since); behind != "" {
			return nil, apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s is too old: this replica no longer has all changes of %s since then: list Addresses again", options.ResourceVersion, behind))
		}
		w.join()
	}
	go w.run(ctx, streamed, options.AllowWatchBookmarks)
	return w, nil
}

// join finds where the client continues. A replica that saw the changes of the sources in another order has events of which
// the client has one part:
//
//	the client has               AddressBlocks 30, pods 10
//	the replica has events of    20, 10    20, 25    30, 25    30, 40
//
// Here the events in the middle are joined to one for each Address. The client does not go back to AddressBlocks 20, and its
// versions increase.
func (w *watcher) join() {
	c, from := w.cache, w.from.whole()
	first := slices.IndexFunc(c.log, func(e event) bool { return !from.includes(e.at) })
	if first < 0 {
		w.next = c.dropped + len(c.log)
		return
	}
	end := first
	for end < len(c.log) && !c.log[end].at.includes(from) {
		end++
	}
	w.next = c.dropped + first
	if end == first {
		return
	}
	at := c.at // the replica has seen from, so it is as if this version included it
	if end < len(c.log) {
		at, end = c.log[end].at, end+1
	}
	w.next = c.dropped + end
	index := map[string]int{}
	for _, e := range c.log[first:end] {
		key := path(e.address().Namespace, e.address().Name)
		i, found := index[key]
		if !found {
			i, index[key] = len(w.joined), len(w.joined)
			w.joined = append(w.joined, event{before: e.before})
		}
		// The client may have any of these states. If a selector matches one, it hears of the end.
		if e.before != nil && w.matches(e.before) {
			w.joined[i].before = e.before
		}
		w.joined[i].after = e.after
	}
	// Until the last one, the client is where it was.
	for i := range w.joined {
		w.joined[i].at = w.from.begun()
		if i == len(w.joined)-1 {
			w.joined[i].at = at
		}
	}
}

func (w *watcher) ResultChan() <-chan watch.Event { return w.results }
func (w *watcher) Stop()                          { w.once.Do(func() { close(w.stop) }) }

func (w *watcher) run(ctx context.Context, streamed, bookmarked bool) {
	defer close(w.results)
	send := func(kind watch.EventType, object runtime.Object) bool {
		select {
		case w.results <- watch.Event{Type: kind, Object: object}:
			return true
		case <-w.stop:
		case <-ctx.Done():
		}
		return false
	}
	at := w.from.String()
	for _, a := range w.initial {
		if !send(watch.Added, shallow(a, a.ResourceVersion)) {
			return
		}
	}
	w.initial = nil
	if streamed && bookmarked && !send(watch.Bookmark, &view.Address{ObjectMeta: metav1.ObjectMeta{ResourceVersion: at, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}) {
		return
	}
	flowcontrol.WatchInitialized(ctx) // from here on, the watch holds no seat of its priority level
	due := time.NewTicker(bookmarks)
	defer due.Stop()
	sent := at
	for {
		events, changed, at, ok := w.read()
		if !ok {
			send(watch.Error, &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
				Message: "the watch is too slow: the server no longer has the changes that it has not sent: list Addresses again"})
			return
		}
		for _, e := range events {
			if kind, a := w.see(e); a != nil {
				if sent = a.ResourceVersion; !send(kind, a) {
					return
				}
			}
		}
		select {
		case <-changed:
		case <-due.C:
			if newest := at.max(w.from).String(); bookmarked && newest != sent {
				if sent = newest; !send(watch.Bookmark, &view.Address{ObjectMeta: metav1.ObjectMeta{ResourceVersion: newest}}) {
					return
				}
			}
		case <-w.stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// read returns the unread events, and the version after them. It returns false if the log
// dropped one of them.
func (w *watcher) read() (events []event, changed <-chan struct{}, at version, ok bool) {
	c := w.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	if w.next < c.dropped {
		return nil, nil, at, false
	}
	events = c.log[w.next-c.dropped:]
	w.next += len(events)
	if w.joined != nil {
		events, w.joined = slices.Concat(w.joined, events), nil
	}
	return events, c.changed, c.at, true
}

// see returns the event as a client sees it whose selectors hide some Addresses. If the client
// has seen a later version of a source, without changes of it, the version says so.
func (w *watcher) see(e event) (watch.EventType, *view.Address) {
	if e.version == "" || !e.at.includes(w.from) {
		e.version = e.at.max(w.from).String()
	}
	before, after := e.before != nil && w.matches(e.before), e.after != nil && w.matches(e.after)
	switch {
	case after && before:
		return watch.Modified, shallow(e.after, e.version)
	case after:
		return watch.Added, shallow(e.after, e.version)
	case before:
		return watch.Deleted, shallow(e.before, e.version)
	}
	return "", nil
}
