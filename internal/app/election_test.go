package app

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/pod2/pod2/test/journal"
)

// campaign runs lead as "me" and records events in the journal.
func campaign(ctx context.Context, t *testing.T, kube kubernetes.Interface, log *journal.Journal, work func(ctx, syncs context.Context) error) {
	t.Helper()
	election := NewOptions().Election
	lock, err := resourcelock.New(election.ResourceLock, election.ResourceNamespace, election.ResourceName,
		kube.CoreV1(), kube.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
	if err != nil {
		t.Fatal(err)
	}
	err = lead(ctx, lock, election, NewHealth(ctx), func(ctx, syncs context.Context) error {
		log.Note("work begins")
		defer log.Note("work ends")
		return work(ctx, syncs)
	})
	log.Note("lead returns: %v; the lease is held by %q", err, holder(t, kube))
}

func holder(t *testing.T, kube kubernetes.Interface) string {
	t.Helper()
	lease, err := kube.CoordinationV1().Leases("pod2-system").Get(context.Background(), "pod2-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// The lease is kept and renewed while running syncs finish, and is free at once afterwards.
func TestLeaseIsReleasedAfterTheLastSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewSimpleClientset()
		log := journal.New()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		campaign(ctx, t, kube, log, func(ctx, syncs context.Context) error {
			<-ctx.Done()
			log.Note("asked to stop; syncs go on: %v", syncs.Err() == nil)
			time.Sleep(20 * time.Second)
			lease, err := kube.CoordinationV1().Leases("pod2-system").Get(syncs, "pod2-controller", metav1.GetOptions{})
			if err != nil {
				return err
			}
			log.Note("held by %q, renewed in the last 3s: %v", *lease.Spec.HolderIdentity, time.Since(lease.Spec.RenewTime.Time) < 3*time.Second)
			return nil
		})
		log.Expect(t,
			"0s work begins",
			"1m0s asked to stop; syncs go on: true",
			`1m20s held by "me", renewed in the last 3s: true`,
			"1m20s work ends",
			`1m20s lead returns: <nil>; the lease is held by ""`)
	})
}

func TestLostLeaseEndsTheSyncsAndFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewSimpleClientset()
		var refuse atomic.Bool
		kube.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if refuse.Load() && action.GetVerb() == "update" {
				return true, nil, errors.New("connection refused")
			}
			return false, nil, nil
		})
		log := journal.New()
		campaign(t.Context(), t, kube, log, func(ctx, syncs context.Context) error {
			time.Sleep(61 * time.Second) // between two renewals
			refuse.Store(true)
			<-syncs.Done()
			log.Note("the loop may go on: %v", ctx.Err() == nil)
			return nil
		})
		// Refused first at 62 s, given up after 10 s.
		log.Expect(t,
			"0s work begins",
			"1m12s the loop may go on: false",
			"1m12s work ends",
			`1m12s lead returns: lost the lease pod2-system/pod2-controller as me: it could not be renewed for 10s; another controller may lead now; the lease is held by "me"`)
	})
}

// A process that cannot read or create the lease is no successor: a rolling update must
// not stop the leader for it. Later problems with the lease do not matter.
func TestReadyOnceTheLeaseSaysWhoLeads(t *testing.T) {
	heldByOther := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "pod2-system", Name: "pod2-controller"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("other"), LeaseDurationSeconds: ptr.To[int32](3600),
			AcquireTime: ptr.To(metav1.NowMicro()), RenewTime: ptr.To(metav1.NowMicro()),
		},
	}
	for _, row := range []struct {
		name  string
		lease []runtime.Object
	}{{"it leads", nil}, {"another leads", []runtime.Object{heldByOther}}} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube := fake.NewSimpleClientset(row.lease...)
				var refused atomic.Bool
				refused.Store(true)
				kube.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					return refused.Load(), nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "pod2-controller", errors.New("no such right"))
				})
				election := NewOptions().Election
				lock, err := resourcelock.New(election.ResourceLock, election.ResourceNamespace, election.ResourceName,
					kube.CoreV1(), kube.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
				if err != nil {
					t.Fatal(err)
				}
				log := journal.New()
				ctx, cancel := context.WithCancel(t.Context())
				h := NewHealth(ctx)
				done := make(chan error)
				go func() {
					done <- lead(ctx, lock, election, h, func(ctx, _ context.Context) error { <-ctx.Done(); return nil })
				}()
				time.Sleep(time.Minute)
				log.Note("ready: %v; live: %v", h.Ready(), h.Live())
				refused.Store(false)
				time.Sleep(10 * time.Second)
				log.Note("ready: %v", h.Ready())
				refused.Store(true)
				time.Sleep(5 * time.Second)
				log.Note("ready: %v", h.Ready())
				refused.Store(false)
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				log.Expect(t,
					"1m0s ready: waiting for the lease pod2-system/pod2-controller; the log says why it cannot be read or written; live: <nil>",
					"1m10s ready: <nil>",
					"1m15s ready: <nil>")
			})
		})
	}
}

func TestStandbyStopsWithoutTouchingTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewSimpleClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "pod2-system", Name: "pod2-controller"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("other"), LeaseDurationSeconds: ptr.To[int32](3600),
				AcquireTime: ptr.To(metav1.NowMicro()), RenewTime: ptr.To(metav1.NowMicro()),
			},
		})
		log := journal.New()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		campaign(ctx, t, kube, log, func(context.Context, context.Context) error { return nil })
		log.Expect(t, `1m0s lead returns: <nil>; the lease is held by "other"`)
	})
}
