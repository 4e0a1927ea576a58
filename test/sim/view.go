package sim

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// view is what one sync of a process knew: what the watches had shown when it first
// asked for something. All that the sync writes was decided by that, however late it
// asks for it. What it reads live, besides, are owners, and whether they are still as
// they were; an object read again to be written by an old decision is no new one.
type view struct {
	began bool
	// Places in the history: up to there a resource was shown, or an object read live.
	shown map[string]int
	read  map[key]int
}

// Logger is for the context of a program. A controller gives each sync a logger with
// its key, and a context with that logger: by this the requests of a sync are known
// as such, without a word of it in the program.
func Logger() klog.Logger { return klog.New(syncLog{}) }

// syncLog logs nothing.
type syncLog struct{ view *view }

func (syncLog) Init(klog.RuntimeInfo)          {}
func (syncLog) Enabled(int) bool               { return false }
func (syncLog) Info(int, string, ...any)       {}
func (syncLog) Error(error, string, ...any)    {}
func (l syncLog) WithName(string) klog.LogSink { return l }
func (l syncLog) WithValues(pairs ...any) klog.LogSink {
	if len(pairs) > 0 && pairs[0] == "key" {
		return syncLog{&view{}}
	}
	return l
}

// viewOf a request is that of its sync. A write of no sync was decided on when it was
// asked for; of other requests it does not matter.
func (s *Server) viewOf(ctx context.Context, p *Process, c *call) *view {
	log, _ := klog.FromContext(ctx).GetSink().(syncLog)
	v := log.view
	if v == nil {
		v = &view{began: !c.counts()}
	}
	if !v.began {
		v.began, v.shown, v.read = true, map[string]int{}, map[key]int{}
		for _, r := range resources {
			v.shown[r.Resource] = s.shownTo(p, r)
		}
	}
	return v
}

// shownTo is the place in the history up to which a process was shown a resource.
func (s *Server) shownTo(p *Process, r *resource) int {
	place := len(s.history)
	for _, w := range s.watchers {
		if w.process == p && w.resource == r && !w.stream.over() {
			s.next(w) // past what is not for this watch
			place = min(place, w.seen)
		}
	}
	return place
}

// shows says whether a process watches an object, which may lack a label.
func (s *Server) shows(p *Process, r *resource, obj Object) bool {
	return slices.ContainsFunc(s.watchers, func(w *watcher) bool {
		return w.process == p && w.resource == r && !w.stream.over() && w.matches(obj)
	})
}

// reading is a live read of one sync, at a place in the history.
type reading struct {
	place int
	view  *view
}

// learns notes what a call is about to read live.
func (v *view) learns(p *Process, c *call, place int) {
	if v.read == nil || c.resource == nil || c.method != http.MethodGet || c.name == "" {
		return
	}
	k := key{c.resource.Resource, c.namespace, c.name}
	v.read[k] = place
	if p.reads == nil {
		p.reads = map[key]reading{}
	}
	p.reads[k] = reading{place, v}
}

// readBefore says whether an earlier sync of the process read an object live as it is.
// The next one may know that, and its deletion, or adoption, has the resourceVersion to
// prove it.
func (s *Server) readBefore(st *step, k key) bool {
	r, read := st.process.reads[k]
	return read && r.view != st.view && !slices.ContainsFunc(s.history[r.place:], func(h change) bool { return h.key == k })
}

// since are the changes of an object after a place in the history that a sync does not
// know: of its own, if they are the last ones, it had the answers.
func (s *Server) since(place int, k key, v *view) (unknown []change) {
	for _, h := range s.history[min(place, len(s.history)):] {
		switch {
		case h.key != k:
		case h.view == v:
			unknown = nil
		default:
			unknown = append(unknown, h)
		}
	}
	return unknown
}

// wroteBy notes which sync wrote what came into the history since a place in it.
func (s *Server) wroteBy(st *step, since int) {
	for i := since; i < len(s.history); i++ {
		if s.history[i].by == st.process.Name {
			s.history[i].view = st.view
		}
	}
}

// lag is how a write was decided on something that is no longer so.
type lag struct {
	old    bool // the object is not as the sync knew it
	gone   bool // the write names an owner that is gone
	edited bool // it creates for an owner the spec of which has changed, or that is being deleted
}

// behind says in what the view of the sync that makes a write is behind the server.
func (s *Server) behind(st *step) (l lag) {
	c := st.call
	if !c.counts() {
		return l
	}
	name, refs, fenced := c.name, []metav1.OwnerReference(nil), c.method == http.MethodDelete
	switch c.method {
	case http.MethodPost, http.MethodPut:
		obj, err := c.decode()
		if err != nil {
			return l
		}
		name, refs = obj.GetName(), obj.GetOwnerReferences()
	case http.MethodPatch:
		var body metav1.PartialObjectMetadata
		if err := json.Unmarshal(c.body, &body); err != nil {
			return l
		}
		refs = body.OwnerReferences
		fenced = body.UID != "" && body.ResourceVersion != ""
	}
	had := map[types.UID]bool{}
	if stored := s.get(c.resource, c.namespace, name); stored != nil {
		for _, ref := range stored.GetOwnerReferences() {
			had[ref.UID] = true
		}
	}
	k := key{c.resource.Resource, c.namespace, name}
	unknown := s.since(st.view.shown[k.resource], k, st.view)
	l.old = len(unknown) > 0 && (!fenced || !s.readBefore(st, k))
	if l.old && c.method == http.MethodPost && s.objects[k] == nil {
		// There is none. What is old is a view in which there was one.
		had := unknown[0].old
		l.old = had != nil && s.shows(st.process, c.resource, had.object)
	}
	for _, ref := range refs {
		owner := s.withUID(ref.UID)
		l.gone = l.gone || owner == nil && !had[ref.UID]
		if owner == nil || c.method != http.MethodPost {
			continue
		}
		of := key{resourceOf(owner), owner.GetNamespace(), owner.GetName()}
		for _, h := range s.since(max(st.view.shown[of.resource], st.view.read[of]), of, st.view) {
			l.edited = l.edited || h.old == nil || h.old.object.GetGeneration() != h.new.object.GetGeneration()
		}
	}
	return l
}

func (s *Server) withUID(uid types.UID) Object {
	for _, v := range s.objects {
		if v.object.GetUID() == uid {
			return v.object
		}
	}
	return nil
}

// stales counts a write by what came of it.
func (s *Server) stales(st *step, l lag, response *http.Response) {
	p, c := st.process, st.call
	switch {
	case response == nil: // a fault kept it from being carried out
	case !l.old && !l.gone && !l.edited:
	case response.StatusCode >= 300:
		p.stale.Refused++
	case l.gone:
		p.stale.Orphans++
		s.note("%s: that was for an owner that is gone", p.Name)
	case c.method == http.MethodPatch && c.sub == "status":
		p.stale.ByUID++
	case c.method == http.MethodPost && c.resource.Resource == "addressblocks":
		p.stale.Blocks++
	case !l.old:
		p.stale.Edited++
		s.note("%s: that was for an owner that had changed", p.Name)
	default:
		p.stale.Applied++
		s.note("%s: that was decided on an old view", p.Name)
	}
}
