package sim

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/apiserver"
)

// syncing is a process that watches, and one of its syncs.
type syncing struct {
	t   *testing.T
	w   *World
	p   *Process
	ctx context.Context
}

func newSyncing(t *testing.T) *syncing {
	t.Helper()
	s := &syncing{t: t, w: &World{Cluster: NewCluster()}}
	s.p = s.w.NewProcess("run 1")
	s.w.Create(pod2("replicas: 1"))
	for _, watched := range []string{"/apis/samplecrd.k8s.io/v1/namespaces/default/pod2s", "/api/v1/namespaces/default/pods"} {
		_, _, _ = s.w.Answer(s.call(http.MethodGet, watched+"?watch=true&sendInitialEvents=true", "")) //nolint:bodyclose // the watch continues
	}
	s.begin()
	return s
}

// begin makes the first request of another sync.
func (s *syncing) begin() {
	ctx := klog.NewContext(s.t.Context(), Logger())
	s.ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "key", "Pod2 default/web"))
	s.w.viewOf(s.ctx, s.p, nil)
}

// shown delivers all events to the watches.
func (s *syncing) shown() {
	for _, w := range s.w.Watchers() {
		s.w.DeliverAll(w)
	}
}

func (s *syncing) call(method, path, body string) *apiserver.Call {
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://sim"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := apiserver.ReadCall(s.p.Name, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// asks sends a request of the sync, and returns how outdated its decision was.
func (s *syncing) asks(method, path, body string) string {
	c := s.call(method, path, body)
	st := &step{process: s.p, call: c, view: s.w.viewOf(s.ctx, s.p, c)}
	lag, before := s.w.behind(st), len(s.w.History())
	st.view.learns(st.process, st.call, before)
	response, _, _ := s.w.Answer(st.call)
	_ = response.Body.Close()
	s.w.wroteBy(st, before)
	return fmt.Sprintf("%+v", lag)
}

func (s *syncing) status() string {
	return s.asks(http.MethodPut, "/apis/samplecrd.k8s.io/v1/namespaces/default/pod2s/web/status",
		`{"apiVersion":"samplecrd.k8s.io/v1","kind":"Pod2","metadata":{"name":"web","resourceVersion":"`+s.w.Get(apiserver.ResourceNamed("pod2s"), apiserver.Namespace, "web").GetResourceVersion()+`"},"status":{"replicas":1}}`)
}

func (s *syncing) reads() {
	s.asks(http.MethodGet, "/apis/samplecrd.k8s.io/v1/namespaces/default/pod2s/web", "")
}

func (s *syncing) creates() string {
	owner := apiserver.List[*v1.Pod2](s.w.Server, "pod2s")[0]
	return s.asks(http.MethodPost, "/api/v1/namespaces/default/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","ownerReferences":[`+
		`{"apiVersion":"samplecrd.k8s.io/v1","kind":"Pod2","name":"web","uid":"`+string(owner.UID)+`","controller":true}]},"spec":{"containers":[{"name":"app"}]}}`)
}

// A frozen watch shows nothing, not even the first change, until it continues.
func TestFrozenWatchesShowNothing(t *testing.T) {
	s := newSyncing(t)
	s.p.Freeze("pods", 0)
	s.w.Create("apiVersion: v1\nkind: Pod\nmetadata: {name: web-0}\nspec: {containers: [{name: app}]}")
	if steps := s.w.steps(1); len(steps) > 0 {
		t.Errorf("the frozen watch shows %s %s", steps[0].event, steps[0].change.Key)
	}
	s.p.Thaw("pods")
	if steps := s.w.steps(2); len(steps) != 1 || steps[0].change.Key.String() != "pods/web-0" {
		t.Errorf("the watch does not show the pod: %d steps", len(steps))
	}
}

// Which writes count as decided on an old view.
func TestWhatASyncKnew(t *testing.T) {
	const fresh, old, edited = "{old:false gone:false edited:false}", "{old:true gone:false edited:false}", "{old:false gone:false edited:true}"
	edit := func(s *syncing) { s.w.Patch("pod2s", "web", scale(2)) }
	for _, test := range []struct {
		name, want string
		do         func(s *syncing) string
	}{
		{"shown by the watch when the sync began", fresh, (*syncing).status},
		{"edited since then", old, func(s *syncing) string { edit(s); return s.status() }},
		{"edited, and shown before the write", old, func(s *syncing) string { edit(s); s.shown(); return s.status() }},
		{"edited, and shown before the next sync", fresh, func(s *syncing) string { edit(s); s.shown(); s.begin(); return s.status() }},
		{"edited, and shown after the next sync began", old, func(s *syncing) string { edit(s); s.begin(); s.shown(); return s.status() }},
		{"read live to write an old decision", old, func(s *syncing) string { edit(s); s.reads(); return s.status() }},
		{"written by the sync itself", fresh, func(s *syncing) string { s.status(); return s.status() }},
		{"written by another sync of the run", old, func(s *syncing) string { s.status(); s.begin(); return s.status() }},
		{"create for a known owner", fresh, (*syncing).creates},
		{"create for an edited owner", edited, func(s *syncing) string { edit(s); return s.creates() }},
		{"create for an owner read live after the edit", fresh, func(s *syncing) string { edit(s); s.reads(); return s.creates() }},
		{"create for an owner read live before the edit", edited, func(s *syncing) string { s.reads(); edit(s); return s.creates() }},
		{"create for an owner whose status was written", fresh, func(s *syncing) string { s.status(); s.begin(); return s.creates() }},
		{"create after a pod came and went unseen", fresh, func(s *syncing) string {
			s.w.Create("apiVersion: v1\nkind: Pod\nmetadata: {name: web-0}\nspec: {containers: [{name: app}]}")
			s.w.Destroy("pods", "web-0")
			return s.creates()
		}},
		{"create after a seen pod was deleted", old, func(s *syncing) string {
			s.w.Create("apiVersion: v1\nkind: Pod\nmetadata: {name: web-0}\nspec: {containers: [{name: app}]}")
			s.shown()
			s.begin()
			s.w.Destroy("pods", "web-0")
			return s.creates()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.do(newSyncing(t)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
