package reconcile

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics/legacyregistry"
)

// measured returns the change of a metric with these label values during a call: for a
// histogram the number of values and their sum, or else the counter.
func measured(t *testing.T, name string, labels []string, call func()) (count uint64, sum float64) {
	t.Helper()
	read := func() (count uint64, sum float64) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != name {
				continue
			}
			for _, metric := range family.GetMetric() {
				var values []string
				for _, label := range metric.GetLabel() {
					values = append(values, label.GetValue())
				}
				if slices.Equal(values, labels) {
					count += metric.GetHistogram().GetSampleCount()
					sum += metric.GetHistogram().GetSampleSum() + metric.GetCounter().GetValue()
				}
			}
		}
		return count, sum
	}
	countBefore, sumBefore := read()
	call()
	count, sum = read()
	return count - countBefore, sum - sumBefore
}

const (
	bindMetric    = "pod2_address_bind_duration_seconds"
	publishMetric = "pod2_address_publish_duration_seconds"
	hour          = 3600
)

// The pods of these tests were created an hour ago.
func TestBindLatency(t *testing.T) {
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		count   uint64
	}{
		{"two pods that wait", []runtime.Object{newNetwork("blue"), newPod("a gated on=blue"), newPod("b gated on=blue")}, 2},
		{"one pod, while another is already bound", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue"), newPod("b gated on=blue")}, 1},
		{"an entry that is written back", []runtime.Object{newNetwork("blue"), newPod("a on=blue published=blue:10.1.0.2")}, 0},
		{"an entry that is released", []runtime.Object{newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound")}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.objects...)
			count, sum := measured(t, bindMetric, nil, func() {
				if calls, err := w.sync(KindNetwork, "blue"); err != nil {
					t.Fatalf("%v\n%s", err, calls)
				}
			})
			if count != row.count || sum != hour*float64(row.count) {
				t.Errorf("%d values, their sum %g s; want %d of an hour", count, sum, row.count)
			}
		})
	}
}

func TestPublishLatency(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue"))
	count, sum := measured(t, publishMetric, nil, func() {
		if _, err := w.sync(KindPod, "a"); err != nil {
			t.Fatal(err)
		}
	})
	if count != 1 || sum != hour {
		t.Errorf("%d values, their sum %g s; want one of an hour", count, sum)
	}
}

// A refused publication is not measured.
func TestRefusedWriteIsNoLatency(t *testing.T) {
	w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue"))
	w.refuse = func(string) error { return errConflict }
	count, _ := measured(t, publishMetric, nil, func() {
		if _, err := w.sync(KindPod, "a"); !errors.Is(err, ErrStale) {
			t.Fatal(err)
		}
	})
	if count != 0 {
		t.Errorf("%d values", count)
	}
}

func TestStaleDecisionsAreCounted(t *testing.T) {
	counted := func(t *testing.T, reason string, call func() error) {
		t.Helper()
		_, got := measured(t, "pod2_stale_decisions_total", []string{KindNetwork, reason}, func() {
			if err := call(); !errors.Is(err, ErrStale) {
				t.Fatalf("the sync ended with %v", err)
			}
		})
		if got != 1 {
			t.Errorf("%g more of %s, want 1", got, reason)
		}
	}
	sync := func(w *world) func() error {
		return func() error {
			_, err := w.sync(KindNetwork, "blue")
			return err
		}
	}
	t.Run("own_write", func(t *testing.T) {
		w := newWorld(t, newNetwork("blue unprotected"), newPod("a gated on=blue"))
		if _, err := w.sync(KindNetwork, "blue"); err != nil {
			t.Fatal(err)
		}
		counted(t, "own_write", sync(w))
	})
	t.Run("precondition", func(t *testing.T) {
		w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"), newPod("a gated on=blue"), newPod("b gated on=blue"))
		w.change(newBlock("blue", "10.1.0.2 a Bound", "10.1.0.9 c Bound"))
		counted(t, "precondition", sync(w))
	})
	t.Run("live_read", func(t *testing.T) {
		w := newWorld(t, newNetwork("blue"), newBlock("blue", "10.1.0.2 a Bound"))
		w.add(newPod("a unlabelled on=blue published=blue:10.1.0.2"))
		counted(t, "live_read", sync(w))
	})
}
