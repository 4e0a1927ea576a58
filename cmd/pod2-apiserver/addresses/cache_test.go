package addresses

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"

	view "github.com/pod2/pod2/cmd/pod2-apiserver/apis/view/v1alpha1"
	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// replica is a cache whose sources were empty at version 10.
func replica(t *testing.T) REST {
	t.Helper()
	r := REST{New()}
	for s := range sources {
		r.listed(s, 10, func() []string { return nil })
	}
	return r
}

// ledger is an AddressBlock in a version. Each entry is "last byte of the address, pod".
func ledger(resourceVersion uint64, entries ...string) func(REST) {
	b := &v1.AddressBlock{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "blue-10.1.0.0", UID: "b"}, Spec: v1.AddressBlockSpec{Network: "blue", CIDR: "10.1.0.0/24"}}
	for _, e := range entries {
		last, pod, _ := strings.Cut(e, " ")
		b.Spec.Entries = append(b.Spec.Entries, v1.AddressEntry{Address: "10.1.0." + last, Pod: pod, State: v1.AddressBound, PodUID: "uid"})
	}
	return func(r REST) { r.apply(blocks, resourceVersion, func() []string { return r.putBlock(b) }) }
}

func scheduled(resourceVersion uint64, name string) func(REST) {
	return func(r REST) {
		r.apply(pods, resourceVersion, func() []string { return r.setPod("ns/"+name, pod{"uid", "n1"}) })
	}
}

func list(t *testing.T, r REST, options internalversion.ListOptions) *view.AddressList {
	t.Helper()
	l, err := r.List(t.Context(), &options)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*view.AddressList)
}

// after returns the events after a version, in order, and the version of each.
func after(t *testing.T, r REST, options internalversion.ListOptions) (events, versions []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := r.Watch(ctx, &options)
	if err != nil {
		t.Fatal(err)
	}
	// The last event is one of the test's own, in another namespace.
	end := r.at[blocks]/2 + 1
	r.apply(blocks, end, func() []string {
		return r.putBlock(&v1.AddressBlock{ObjectMeta: metav1.ObjectMeta{Namespace: "end", Name: "end-10.9.0.0"}, Spec: v1.AddressBlockSpec{Network: "end", CIDR: "10.9.0.0/24",
			Entries: []v1.AddressEntry{{Address: "10.9.0.2", Pod: fmt.Sprint(end)}}}})
	})
	for {
		e := next(t, w)
		a := e.Object.(*view.Address)
		if a.Namespace == "end" {
			break
		}
		events = append(events, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Type, a.Spec.Address, a.Spec.Pod, a.Status.Node)))
		versions = append(versions, a.ResourceVersion)
	}
	return events, versions
}

// next is the next event of a watch.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e := <-w.ResultChan():
		if e.Object != nil {
			return e
		}
		t.Fatal("the watch has ended")
	case <-time.After(10 * time.Second):
		t.Fatal("the watch sends nothing within 10 s")
	}
	return watch.Event{}
}

func compare(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// A client lists from one replica and watches from the other. The first has seen version 30
// of the ledger but not version 25 of a pod. The highest version of all objects would hide
// the pod's change from the client.
func TestContinueAtTheOtherReplica(t *testing.T) {
	one, other := replica(t), replica(t)
	for _, change := range []func(REST){ledger(20, "2 web"), ledger(30, "2 web", "3 db")} {
		change(one)
	}
	for _, change := range []func(REST){ledger(20, "2 web"), scheduled(25, "web"), ledger(30, "2 web", "3 db"), scheduled(40, "db")} {
		change(other)
	}
	at := list(t, one, internalversion.ListOptions{}).ResourceVersion
	got, _ := after(t, other, internalversion.ListOptions{ResourceVersion: at})
	compare(t, got, "MODIFIED 10.1.0.2 web n1", "ADDED 10.1.0.3 db", "MODIFIED 10.1.0.3 db n1")
}

// The first replica has seen that an address is free, but not the node of its pod. The other one saw the node first. The
// client gets the end of the address again, and nothing of before.
func TestNothingRemainsAtTheOtherReplica(t *testing.T) {
	one, other := replica(t), replica(t)
	for _, change := range []func(REST){ledger(20, "2 web"), ledger(30)} {
		change(one)
	}
	for _, change := range []func(REST){ledger(20, "2 web"), scheduled(25, "web"), ledger(30)} {
		change(other)
	}
	at := list(t, one, internalversion.ListOptions{}).ResourceVersion
	got, _ := after(t, other, internalversion.ListOptions{ResourceVersion: at})
	compare(t, got, "DELETED 10.1.0.2 web n1")
}

// A replica has no events from before its last list, and of the deletion of a pod that it never had.
func TestNoWatchBeginsBeforeTheEvents(t *testing.T) {
	r := REST{New()}
	for s := range sources {
		r.listed(s, 10, func() []string { return nil })
		if s == blocks {
			ledger(20, "2 web")(r)
		}
	}
	refused := func(at version) bool {
		w, err := r.Watch(t.Context(), &internalversion.ListOptions{ResourceVersion: at.String()})
		if err == nil {
			w.Stop()
		}
		return apierrors.IsResourceExpired(err)
	}
	if !refused(version{complete(10), complete(10), complete(10)}) || refused(r.at) {
		t.Error("a watch from before the AddressBlock of version 20 would miss it")
	}
	before := r.at
	r.apply(pods, 30, func() []string { return r.setPod("ns/other", pod{}) })
	if !refused(before) || refused(r.at) {
		t.Error("a watch from before the deletion of the pod would miss it")
	}
}

// One write of the ledger changes three Addresses. A client that lost its connection after
// the first event gets the others too.
func TestContinueInTheMiddleOfAChange(t *testing.T) {
	r := replica(t)
	first := list(t, r, internalversion.ListOptions{}).ResourceVersion
	ledger(20, "2 web", "3 db", "4 a")(r)
	all := []string{"ADDED 10.1.0.2 web", "ADDED 10.1.0.3 db", "ADDED 10.1.0.4 a"}
	got, versions := after(t, r, internalversion.ListOptions{ResourceVersion: first})
	compare(t, got, all...)
	got, _ = after(t, r, internalversion.ListOptions{ResourceVersion: versions[0]})
	compare(t, got[:3], all...)
	got, _ = after(t, r, internalversion.ListOptions{ResourceVersion: versions[2]})
	compare(t, got)
}

// Versions increase, as clients expect that compare them.
func TestVersionsIncrease(t *testing.T) {
	r := replica(t)
	last := list(t, r, internalversion.ListOptions{}).ResourceVersion
	for _, change := range []func(REST){ledger(20, "2 web"), scheduled(4000, "web"), ledger(21, "2 web", "3 db"), scheduled(4001, "db"), ledger(999999, "3 db")} {
		change(r)
		now := list(t, r, internalversion.ListOptions{}).ResourceVersion
		if order, err := resourceversion.CompareResourceVersion(last, now); err != nil || order >= 0 {
			t.Errorf("version %s follows %s (%v)", now, last, err)
		}
		if v, err := parseVersion(now); err != nil || v != r.at {
			t.Errorf("version %s is read as %v, want %v (%v)", now, v, r.at, err)
		}
		last = now
	}
}

// A version from before the first list, or whose events the log dropped, is too old. A
// watch that falls that far behind ends.
func TestOldVersions(t *testing.T) {
	r := replica(t)
	if _, err := r.Watch(t.Context(), &internalversion.ListOptions{ResourceVersion: version{19, 21, 21}.String()}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from before the first list: %v, want 410 Expired", err)
	}
	first := list(t, r, internalversion.ListOptions{}).ResourceVersion
	slow, err := r.Watch(t.Context(), &internalversion.ListOptions{ResourceVersion: first})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(logged + 500) {
		ledger(20+i, fmt.Sprintf("2 web-%d", i))(r)
	}
	if _, err := r.Watch(t.Context(), &internalversion.ListOptions{ResourceVersion: first}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch whose events were dropped: %v, want 410 Expired", err)
	}
	var last watch.Event
	for last.Type != watch.Error {
		last = next(t, slow)
	}
	if status, ok := last.Object.(*metav1.Status); !ok || status.Reason != metav1.StatusReasonExpired {
		t.Errorf("the slow watch ends with %v, want 410 Expired", last)
	}
}

// A request waits for a version that the replica has not seen. A bookmark of the API server
// is enough: it says that nothing changed.
func TestFutureVersions(t *testing.T) {
	r := replica(t)
	done := make(chan error)
	go func() {
		_, err := r.List(t.Context(), &internalversion.ListOptions{ResourceVersion: version{complete(30), 21, 21}.String()})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("the list did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	r.saw(blocks, 30)
	if err := <-done; err != nil {
		t.Errorf("the list after the bookmark: %v", err)
	}
}

// A selector shows an Address that begins to match as added, and one that no longer does as
// deleted.
func TestSelectedEvents(t *testing.T) {
	r := replica(t)
	first := list(t, r, internalversion.ListOptions{}).ResourceVersion
	ledger(20, "2 web")(r)
	ledger(21, "2 db")(r)
	ledger(22, "2 web")(r)
	ledger(23)(r)
	got, _ := after(t, r, internalversion.ListOptions{ResourceVersion: first, FieldSelector: fields.ParseSelectorOrDie("spec.pod!=db")})
	compare(t, got, "ADDED 10.1.0.2 web", "DELETED 10.1.0.2 web", "ADDED 10.1.0.2 web", "DELETED 10.1.0.2 web")
}

// Lists after an outage bring the differences as events.
func TestListAgain(t *testing.T) {
	r := replica(t)
	s := &store[*corev1.Pod]{cache: r.Cache, source: pods,
		put:    func(p *corev1.Pod) []string { return r.setPod("ns/"+p.Name, pod{p.UID, p.Spec.NodeName}) },
		remove: func(p *corev1.Pod) []string { return r.setPod("ns/"+p.Name, pod{}) },
		all: func() []*corev1.Pod {
			return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}}
		}}
	ledger(20, "2 web")(r)
	scheduled(25, "web")(r)
	first := list(t, r, internalversion.ListOptions{}).ResourceVersion
	w, err := r.Watch(t.Context(), &internalversion.ListOptions{ResourceVersion: first})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(nil, "40"); err != nil {
		t.Fatal(err)
	}
	if e := next(t, w); e.Type != watch.Modified || e.Object.(*view.Address).Status.Node != "" {
		t.Errorf("the list without the pod brings %+v, want the Address without a node", e)
	}
	if _, err := r.Watch(t.Context(), &internalversion.ListOptions{ResourceVersion: first}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from before the list: %v, want 410 Expired", err)
	}
}

// A list begins at its namespace and ends with it, in pages too.
func TestPages(t *testing.T) {
	r := replica(t)
	ledger(20, "2 web", "3 db", "10 a")(r)
	ctx := request.WithNamespace(t.Context(), "ns")
	var names, tokens []string
	for next := (internalversion.ListOptions{Limit: 2}); ; {
		l, err := r.List(ctx, &next)
		if err != nil {
			t.Fatal(err)
		}
		page := l.(*view.AddressList)
		for i := range page.Items {
			names = append(names, page.Items[i].Name)
		}
		tokens = append(tokens, page.ResourceVersion)
		if next.Continue = page.Continue; next.Continue == "" {
			break
		}
		ledger(21, "2 web", "3 db", "10 a", "11 b")(r) // the next page has the version of the first
	}
	compare(t, names, "blue-10.1.0.10", "blue-10.1.0.2", "blue-10.1.0.3")
	compare(t, tokens, tokens[0], tokens[0])
	if l, err := r.List(request.WithNamespace(t.Context(), "n"), &internalversion.ListOptions{}); err != nil || len(l.(*view.AddressList).Items) > 0 {
		t.Errorf("the list of another namespace has %v (%v)", l, err)
	}
}

// A client may send a version with a continue token if it is "0". The version of the token counts.
func TestVersionOfAContinueToken(t *testing.T) {
	r := replica(t)
	ledger(20, "2 web", "3 db")(r)
	first := list(t, r, internalversion.ListOptions{Limit: 1})
	next := list(t, r, internalversion.ListOptions{Limit: 1, Continue: first.Continue, ResourceVersion: "0"})
	if len(next.Items) != 1 || next.Items[0].Name != "blue-10.1.0.3" || next.ResourceVersion != first.ResourceVersion {
		t.Errorf("the second page is %v at %s", next.Items, next.ResourceVersion)
	}
	if _, err := r.List(t.Context(), &internalversion.ListOptions{Continue: first.Continue, ResourceVersion: first.ResourceVersion}); !apierrors.IsBadRequest(err) {
		t.Errorf("with another version: %v", err)
	}
}

// A streamed list sends all Addresses, and then a bookmark that ends them.
func TestStreamedList(t *testing.T) {
	r := replica(t)
	ledger(20, "2 web", "3 db")(r)
	yes := true
	w, err := r.Watch(t.Context(), &internalversion.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 3 {
		e := next(t, w)
		a := e.Object.(*view.Address)
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Type, a.Spec.Address, a.Annotations[metav1.InitialEventsAnnotationKey])))
	}
	compare(t, got, "ADDED 10.1.0.2", "ADDED 10.1.0.3", "BOOKMARK  true")
}
