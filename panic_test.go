package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/reconcile"
)

func TestPanicHarmsNoOtherKey(t *testing.T) {
	before := panics(t)
	synctest.Test(t, func(t *testing.T) {
		log := newJournal()
		c, stop := start(t, syncFunc(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
			log.note("%s", key)
			if key == blue {
				var nothing *samplecrdv1.Network
				_ = nothing.Name
			}
			return reconcile.Result{}, nil
		}), 1)
		c.queue.Add(blue)
		c.queue.Add(green)
		time.Sleep(20 * time.Millisecond)
		log.expect(t, "0s Network default/blue", "0s Network default/green", "5ms Network default/blue", "15ms Network default/blue")
		stop()
	})
	if got := panics(t) - before; got != 3 {
		t.Errorf("pod2_sync_total counted %v panics, want 3", got)
	}
}

// Of many calls at once, in goroutines of their own, one panicked: it came as an error.
func TestAPanicThatSyncReturnsCountsAsOne(t *testing.T) {
	before := panics(t)
	synctest.Test(t, func(t *testing.T) {
		c, stop := start(t, syncFunc(func(context.Context, reconcile.Key) (reconcile.Result, error) {
			return reconcile.Result{}, fmt.Errorf("create pods: %w", errors.Join(reconcile.ErrStale, &reconcile.PanicError{Value: "x"}))
		}), 1)
		c.queue.Add(blue)
		time.Sleep(time.Millisecond)
		stop()
	})
	if got := panics(t) - before; got != 1 {
		t.Errorf("pod2_sync_total counted %v panics, want 1", got)
	}
}

func panics(t *testing.T) (sum float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "pod2_sync_total" && strings.Contains(metric.String(), `value:"panic"`) {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}
