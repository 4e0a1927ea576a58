package reconcile

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/fenced"
	"github.com/pod2/pod2/pkg/plan"
)

// records are the writes to objects that the controller keeps about one Network.
type records[T fenced.Object] struct {
	network *v1.Network // nil if there is none
	confirm bool
	delete  []plan.Deletion
	update  []plan.Update[T]
	create  []T
	// refused is the reason of an event on the Network about a refusal.
	refused string
}

// write makes the writes in the order of the fields, until one fails.
func (p records[T]) write(ctx context.Context, s *shared, key Key, w writer[T]) error {
	steps := s.steps(key)
	steps.do(p.refused, func() error {
		if err := p.confirmed(ctx, s.live, key); err != nil {
			return err
		}
		if _, err := forEach(ctx, p.delete, deleting(key, w)); err != nil {
			return err
		}
		_, err := forEach(ctx, p.update, func(ctx context.Context, u plan.Update[T]) error {
			_, err := w.update(ctx, key, u.Was, u.Object, u.Reason)
			return err
		})
		if err != nil {
			return err
		}
		_, err = forEach(ctx, p.create, func(ctx context.Context, object T) error {
			_, err := w.create(ctx, key, object, "")
			return err
		})
		return err
	})
	if len(steps.told) > 0 && p.network != nil {
		s.record(p.network, []plan.Event{plan.Warning(steps.told[0].Reason, steps.told[0].Message)})
	}
	return steps.err()
}

// confirmed checks that the Network exists, or that it is gone.
func (p records[T]) confirmed(ctx context.Context, live live, key Key) error {
	switch {
	case !p.confirm:
		return nil
	case p.network != nil:
		return live.confirmNetwork(ctx, key, p.network)
	}
	switch _, err := live.networks(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get the Network of %s, to confirm that it is gone: %w", key, err)
	}
	return fmt.Errorf("%s exists: %w", key, ErrStale)
}
