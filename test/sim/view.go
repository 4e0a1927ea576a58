package sim

import (
	"context"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/pod2/pod2/test/apiserver"
)

// view is the knowledge of one sync of a process: the state that the watches had shown at
// the sync's first request. All writes of the sync were decided on it, however late they
// are sent. The sync also reads some objects live: owners, and objects that it checks for
// changes. A live read that only repeats an old decision does not make the decision new.
type view struct {
	began bool
	// Places in the history up to which each resource was shown, or an object was read
	// live.
	shown map[string]int
	read  map[apiserver.Key]int
}

// Logger returns the logger for the context of a program. A controller gives each sync a
// logger with its key, and a context with that logger. Thus the requests of one sync are
// recognized, and the program needs no code for it.
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

// viewOf returns the view of a request's sync. A write outside a sync was decided on when
// it was requested. For other requests outside a sync, the view does not matter.
func (s *Cluster) viewOf(ctx context.Context, p *Process, c *apiserver.Call) *view {
	log, _ := klog.FromContext(ctx).GetSink().(syncLog)
	v := log.view
	if v == nil {
		v = &view{began: !c.Counts()}
	}
	if !v.began {
		v.began, v.shown, v.read = true, map[string]int{}, map[apiserver.Key]int{}
		for _, r := range apiserver.Resources {
			v.shown[r.Resource] = s.shownTo(p, r)
		}
	}
	return v
}

// shownTo returns the place in the history up to which a process was shown a resource.
func (s *Cluster) shownTo(p *Process, r *apiserver.Resource) int {
	place := len(s.History())
	for _, w := range s.Watchers() {
		if w.Who == p.Name && w.Resource == r && !w.Over() {
			s.Next(w) // skip changes that are not for this watch
			place = min(place, w.Seen)
		}
	}
	return place
}

// shows says whether a process watches an object. The object may lack the watched label.
func (s *Cluster) shows(p *Process, r *apiserver.Resource, obj apiserver.Object) bool {
	return slices.ContainsFunc(s.Watchers(), func(w *apiserver.Watcher) bool {
		return w.Who == p.Name && w.Resource == r && !w.Over() && w.Matches(obj)
	})
}

// reading is a live read of one sync, at a place in the history.
type reading struct {
	place int
	view  *view
}

// learns records which object a call is about to read live.
func (v *view) learns(p *Process, c *apiserver.Call, place int) {
	if v.read == nil || c.Resource == nil || c.Method != http.MethodGet || c.Name == "" {
		return
	}
	k := apiserver.KeyOf(c.Resource.Resource, c.Namespace, c.Name)
	v.read[k] = place
	if p.reads == nil {
		p.reads = map[apiserver.Key]reading{}
	}
	p.reads[k] = reading{place, v}
}

// readBefore says whether an earlier sync of the process read the present version of an
// object live. The next sync may know it too, and its deletion or adoption proves it with
// the resourceVersion.
func (s *Cluster) readBefore(st *step, k apiserver.Key) bool {
	r, read := st.process.reads[k]
	return read && r.view != st.view && !slices.ContainsFunc(s.History()[r.place:], func(h apiserver.Change) bool { return h.Key == k })
}

// since returns the changes of an object after a place in the history that a sync does not
// know. If the last change is the sync's own, it knows all of them from the answer.
func (s *Cluster) since(place int, k apiserver.Key, v *view) (unknown []apiserver.Change) {
	for _, h := range s.History()[min(place, len(s.History())):] {
		switch {
		case h.Key != k:
		case s.writers[h.New.Number] == v:
			unknown = nil
		default:
			unknown = append(unknown, h)
		}
	}
	return unknown
}

// wroteBy records which sync made the changes since a place in the history.
func (s *Cluster) wroteBy(st *step, since int) {
	for _, h := range s.History()[since:] {
		if h.By == st.process.Name {
			s.writers[h.New.Number] = st.view
		}
	}
}

// lag says in which way a write was decided on outdated state.
type lag struct {
	old    bool // the object has changed since the sync's view
	gone   bool // the write names an owner that is gone
	edited bool // it creates for an owner whose spec has changed or that is being deleted
}

// behind says in which way the view of the writing sync is behind the server.
func (s *Cluster) behind(st *step) (l lag) {
	c := st.call
	if !c.Counts() {
		return l
	}
	name, refs, fenced := c.Name, []metav1.OwnerReference(nil), c.Method == http.MethodDelete
	switch c.Method {
	case http.MethodPost, http.MethodPut:
		obj, err := c.Decode()
		if err != nil {
			return l
		}
		name, refs = obj.GetName(), obj.GetOwnerReferences()
	case http.MethodPatch:
		meta, err := apiserver.PatchMetadata(c.Body)
		if err != nil {
			return l
		}
		refs = meta.OwnerReferences
		fenced = meta.UID != "" && meta.ResourceVersion != ""
	}
	had := map[types.UID]bool{}
	if stored := s.Get(c.Resource, c.Namespace, name); stored != nil {
		for _, ref := range stored.GetOwnerReferences() {
			had[ref.UID] = true
		}
	}
	k := apiserver.KeyOf(c.Resource.Resource, c.Namespace, name)
	unknown := s.since(st.view.shown[k.Resource], k, st.view)
	l.old = len(unknown) > 0 && (!fenced || !s.readBefore(st, k))
	if l.old && c.Method == http.MethodPost && s.Objects()[k] == nil {
		// The object does not exist. The view is old if the object exists in it.
		had := unknown[0].Old
		l.old = had != nil && s.shows(st.process, c.Resource, had.Object)
	}
	for _, ref := range refs {
		owner := s.withUID(ref.UID)
		l.gone = l.gone || owner == nil && !had[ref.UID]
		if owner == nil || c.Method != http.MethodPost {
			continue
		}
		of := apiserver.KeyOf(apiserver.ResourceOf(owner).Resource, owner.GetNamespace(), owner.GetName())
		for _, h := range s.since(max(st.view.shown[of.Resource], st.view.read[of]), of, st.view) {
			l.edited = l.edited || h.Old == nil || h.Old.Object.GetGeneration() != h.New.Object.GetGeneration()
		}
	}
	return l
}

func (s *Cluster) withUID(uid types.UID) apiserver.Object {
	for _, v := range s.Objects() {
		if v.Object.GetUID() == uid {
			return v.Object
		}
	}
	return nil
}

// stales counts a write by its outcome.
func (s *Cluster) stales(st *step, l lag, response *http.Response) {
	p, c := st.process, st.call
	switch {
	case response == nil: // a fault prevented the write
	case !l.old && !l.gone && !l.edited:
	case response.StatusCode >= 300:
		p.stale.Refused++
	case l.gone:
		p.stale.Orphans++
		s.Note("%s: this write was for an owner that is gone", p.Name)
	case c.Method == http.MethodPatch && c.Sub == "status":
		p.stale.ByUID++
	case c.Method == http.MethodPost && c.Resource.Resource == "addressblocks":
		p.stale.Blocks++
	case !l.old:
		p.stale.Edited++
		s.Note("%s: this write was for an owner that had changed", p.Name)
	default:
		p.stale.Applied++
		s.Note("%s: this write was decided on an old view", p.Name)
	}
}
