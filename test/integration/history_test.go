//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network/history"
)

const addressHistory = `
apiVersion: samplecrd.k8s.io/v1
kind: AddressHistory
metadata: {name: blue-9}
spec: {since: "2026-01-01T10:00:00Z", through: "2026-01-01T10:00:00Z"}
`

// historyWrites lists the writes to the AddressHistories of a namespace.
type historyWrites struct {
	mu   sync.Mutex
	made []historyWrite
}

type historyWrite struct {
	seen time.Time
	// decided is the time of the decision, in whole seconds. It is zero for a write that left
	// records for the next one.
	decided time.Time
}

// sooner says whether two writes came within a second. On a busy machine the watch may show the
// first one late, so it compares the decisions if it can.
func (w historyWrite) sooner(next historyWrite) bool {
	if !w.decided.IsZero() && !next.decided.IsZero() {
		return next.decided.Sub(w.decided) < time.Second
	}
	return next.seen.Sub(w.seen) < 800*time.Millisecond
}

func countHistory(t *testing.T, namespace string) *historyWrites {
	t.Helper()
	in, err := sample.SamplecrdV1().AddressHistories(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &historyWrites{}
	done := make(chan struct{})
	t.Cleanup(func() { in.Stop(); <-done })
	go func() {
		defer close(done)
		for event := range in.ResultChan() {
			made := historyWrite{seen: time.Now()}
			if h, ok := event.Object.(*v1.AddressHistory); ok && h.Spec.Holders != "" {
				made.decided = h.Spec.Through.Time
			}
			w.mu.Lock()
			w.made = append(w.made, made)
			w.mu.Unlock()
		}
	}()
	return w
}

// take returns the writes since the last call.
func (w *historyWrites) take() []historyWrite {
	w.mu.Lock()
	defer w.mu.Unlock()
	made := w.made
	w.made = nil
	return made
}

func historyOf(t *testing.T, namespace, name string) (n *v1.Network, own []*v1.AddressHistory, blocks []*v1.AddressBlock) {
	t.Helper()
	n, err := sample.SamplecrdV1().Networks(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := sample.SamplecrdV1().AddressHistories(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := sample.SamplecrdV1().AddressBlocks(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n, history.Sorted(n, pointers(all.Items)), pointers(list.Items)
}

// waitHistory waits until the AddressHistories have this number of records, without gaps, and
// the checksum of the current holders.
func waitHistory(t *testing.T, namespace, network string, want int) {
	t.Helper()
	t.Logf("waiting for %d records", want)
	waitHolders(t, namespace, network, func(records int) bool { return records == want })
}

// waitHolders is waitHistory for a number of records that the test does not know. It returns the
// number.
func waitHolders(t *testing.T, namespace, network string, enough func(records int) bool) (records int) {
	t.Helper()
	within(t, patience, "the history is complete", func(context.Context) (string, error) {
		n, own, blocks := historyOf(t, namespace, network)
		records = 0
		for _, h := range own {
			for _, r := range h.Spec.Records {
				if !r.Gap {
					records++
				}
			}
		}
		held, _ := history.Checksums(n, blocks)
		if len(own) == 0 || !enough(records) || own[len(own)-1].Spec.Holders != held {
			return fmt.Sprintf("%d AddressHistories, %d records", len(own), records), nil
		}
		return "", nil
	})
	return records
}

// waitHolder waits until an address of blue has such a holder.
func waitHolder(t *testing.T, namespace string, is func(v1.AddressEntry) bool) {
	t.Helper()
	eventually(t, "the address has another holder", func(context.Context) (string, error) {
		_, _, blocks := historyOf(t, namespace, "blue")
		for _, b := range blocks {
			if slices.ContainsFunc(b.Spec.Entries, is) {
				return "", nil
			}
		}
		return "no", nil
	})
}

// 300 replicas start and terminate. Each has one record, and there are few writes, never two within a
// second, and none later.
func TestHistoryOfManyAddresses(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	writes := countHistory(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/22, reuseDelaySeconds: 0}`)+pod2("web", `replicas: 300, networks: [{name: blue}]`))
	waitReady(t, ns, "pod2/web")
	uid := string(listPods(t, ns)["web-7"].UID)
	running := time.Now()
	scaleTo(t, ns, "web", 0)
	within(t, patience, "no pod is left", func(context.Context) (string, error) {
		if n := len(listPods(t, ns)); n > 0 {
			return fmt.Sprintf("%d pods", n), nil
		}
		return "", nil
	})
	// Reserved addresses of replicas that were scaled down count as taken back.
	waitHistory(t, ns, "blue", 300)
	released := time.Now()
	made := writes.take()
	t.Logf("%d writes of AddressHistories for 300 pods that start and terminate: %.4f for each", len(made), float64(len(made))/300)
	// On a slow machine the pods do not end together. TestWritesForEachPod has the exact bound.
	if most := max(6, 2+int(time.Since(running)/history.EndsEvery)); len(made) > most {
		t.Errorf("%d writes, want at most %d: 0.02 for each pod, or one each %s", len(made), most, history.EndsEvery)
	}
	for i := 1; i < len(made); i++ {
		if made[i-1].sooner(made[i]) {
			t.Errorf("two writes within a second: %v, %v", made[i-1], made[i])
		}
	}
	time.Sleep(history.HoldersEvery + 10*time.Second)
	if made = writes.take(); len(made) > 0 {
		t.Errorf("%d writes while nothing changed", len(made))
	}
	for _, tt := range []struct {
		args string
		want bool
	}{
		{"addresses blue --history web-7", true},
		{"addresses blue --history web-8", false},
		{"addresses blue --history web-7 --at " + running.UTC().Format(time.RFC3339), true},
		{"addresses blue --history web-7 --at " + released.UTC().Format(time.RFC3339), false},
		{"addresses blue --history -o json", true},
	} {
		if got, err := plugin(t, ns, strings.Fields(tt.args)...); err != nil || strings.Contains(got, uid) != tt.want {
			t.Errorf("kubectl pod2 %s: %v, has UID %s: %v\n%s", tt.args, err, uid, !tt.want, got)
		}
	}
}

// A controller that is killed before it writes a record leaves a gap, and the next one says so. A
// history that somebody deletes harms no pod, and the next records are written.
func TestHistoryHasAGap(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, reuseDelaySeconds: 0}`)+pod2("web", `replicas: 2, networks: [{name: blue}]`))
	waitReady(t, ns, "pod2/web")
	waitHistory(t, ns, "blue", 0)
	before := listPods(t, ns)["web-0"].UID
	deletePod(t, ns, "web-0")
	// The record is written eight seconds later.
	waitHolder(t, ns, func(e v1.AddressEntry) bool { return e.Pod == "web-0" && e.PodUID != before })
	_ = c.stop(syscall.SIGKILL)
	c = startController(t, ns)
	within(t, patience, "the history has a gap", func(context.Context) (string, error) {
		got, err := plugin(t, ns, "addresses", "blue", "--history", "web-0")
		if err == nil && (!strings.Contains(got, "\ngap ") || strings.Contains(got, string(before))) {
			return got, nil
		}
		return "", err
	})
	// The end of the tenure has a record without the UID, if no other pod got the address before.
	known := waitHolders(t, ns, "blue", func(records int) bool { return records <= 1 })
	// A controller that stops writes its last record.
	before = listPods(t, ns)["web-1"].UID
	deletePod(t, ns, "web-1")
	waitHolder(t, ns, func(e v1.AddressEntry) bool { return e.Pod == "web-1" && e.PodUID != "" && e.PodUID != before })
	_ = c.stop(syscall.SIGTERM)
	waitHistory(t, ns, "blue", known+1)
	_, own, _ := historyOf(t, ns, "blue")
	version := own[len(own)-1].ResourceVersion
	c = startController(t, ns)
	eventually(t, "the controller has started", func(context.Context) (string, error) {
		if !strings.Contains(c.log.String(), "Controller started") {
			return c.log.String(), nil
		}
		return "", nil
	})
	time.Sleep(2 * history.EndsEvery)
	if _, own, _ = historyOf(t, ns, "blue"); own[len(own)-1].ResourceVersion != version {
		t.Errorf("a restart wrote AddressHistory %s: %v", own[len(own)-1].Name, own[len(own)-1].Spec.Records)
	}

	pods := listPods(t, ns)
	run(t, ns, "delete", "addresshistories", "--all")
	waitHistory(t, ns, "blue", 0)
	deletePod(t, ns, "web-1")
	waitHistory(t, ns, "blue", 1)
	waitReady(t, ns, "pod2/web")
	if is := listPods(t, ns); is["web-0"].UID != pods["web-0"].UID {
		t.Error("web-0 was replaced")
	}
	run(t, ns, "patch", "network", "blue", "--type=merge", "-p", `{"spec":{"addressHistory":{"limit":0}}}`)
	waitGone(t, ns, "addresshistories")
	run(t, ns, "patch", "network", "blue", "--type=merge", "-p", `{"spec":{"addressHistory":{"limit":100}}}`)
	deletePod(t, ns, "web-1")
	waitHistory(t, ns, "blue", 1)
	waitReady(t, ns, "pod2/web")
	run(t, ns, "delete", "pod2", "web")
	eventually(t, "the Network is unused", func(context.Context) (string, error) { // otherwise a policy keeps it
		n, _, _ := historyOf(t, ns, "blue")
		if held := n.Status.Bound + n.Status.Reserved; held > 0 {
			return fmt.Sprintf("%d addresses", held), nil
		}
		return "", nil
	})
	run(t, ns, "delete", "network", "blue")
	eventually(t, "the history is deleted with its Network", func(ctx context.Context) (string, error) {
		all, err := sample.SamplecrdV1().AddressHistories(ns).List(ctx, metav1.ListOptions{})
		return strings.Repeat("AddressHistory ", len(all.Items)), err
	})
}
