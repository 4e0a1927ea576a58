package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

func newStatus(t *tool) *cobra.Command {
	var timeout time.Duration
	follow := true
	cmd := &cobra.Command{
		Use: "status NAME", Args: usage(cobra.ExactArgs(1)),
		Short: "Show the progress of an update or a change of replicas, and wait for it",
		Long: "Show the progress of an update or a change of replicas, one line for each step, until it is complete.\n\n" +
			"The exit status is 1 if the update exceeds its progress deadline, if --timeout has passed, or if the Pod2 is deleted.",
		Example: examples(`
# Wait until the update of Pod2 web is complete
kubectl pod2 status web

# Wait for at most 5 minutes
kubectl pod2 status web --timeout=5m

# Show the current progress without waiting
kubectl pod2 status web --watch=false`),
		ValidArgsFunction: completing(t, (*session).pod2s),
	}
	cmd.Flags().BoolVarP(&follow, "watch", "w", follow, "Wait until it is complete.")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "How long to wait (30s, 5m). Zero means without limit.")
	cmd.RunE = t.onPod2(func(ctx context.Context, s *session, p *v1.Pod2) error {
		progress := progressOf(p)
		fmt.Fprintln(t.Out, progress.line)
		if !follow || progress.complete || progress.err != nil {
			return progress.err
		}
		return s.follow(ctx, p.Name, timeout, progress.line)
	})
	return cmd
}

// follow prints a line whenever it differs from the last one.
func (s *session) follow(ctx context.Context, name string, timeout time.Duration, last string) error {
	ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, timeout)
	defer cancel()
	pod2s := s.Sample.SamplecrdV1().Pod2s(s.namespace)
	one := fields.OneTermEqualSelector("metadata.name", name).String()
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = one
			return pod2s.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = one
			return pod2s.Watch(ctx, options)
		},
	}, s.Sample)
	_, err := watchtools.UntilWithSync(ctx, lw, &v1.Pod2{}, func(store cache.Store) (bool, error) {
		if _, exists, _ := store.GetByKey(s.namespace + "/" + name); !exists {
			return false, fmt.Errorf("Pod2 %s/%s was deleted", s.namespace, name)
		}
		return false, nil
	}, func(event watch.Event) (bool, error) {
		p, ok := event.Object.(*v1.Pod2)
		if !ok || event.Type == watch.Deleted {
			return false, fmt.Errorf("Pod2 %s/%s was deleted", s.namespace, name)
		}
		progress := progressOf(p)
		if progress.line != last {
			last = progress.line
			fmt.Fprintln(s.Out, last)
		}
		return progress.complete, progress.err
	})
	if wait.Interrupted(err) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("timed out after %s waiting for Pod2 %s/%s", timeout, s.namespace, name)
	}
	if wait.Interrupted(err) {
		return fmt.Errorf("interrupted: the update of Pod2 %s/%s continues", s.namespace, name)
	}
	return err
}

// progress of a Pod2.
type progress struct {
	line     string
	complete bool
	err      error
}

// updatedSaid matches the beginning of a message of the condition Progressing during an
// update.
var updatedSaid = regexp.MustCompile(`^[0-9]+ of [0-9]+ replicas are updated`)

// progressOf reads the status that the controller wrote last. The first matching row
// decides:
//
//	the spec is not observed      wait
//	past the progress deadline    fail
//	complete                      done, although not every replica may be updated
//	paused                        wait
//	else                          wait, and print the reason
func progressOf(p *v1.Pod2) progress {
	name := fmt.Sprintf("Pod2 %s/%s", p.Namespace, p.Name)
	wanted := ptr.Deref(p.Spec.Replicas, 1)
	condition := meta.FindStatusCondition(p.Status.Conditions, v1.ConditionProgressing)
	if p.Status.ObservedGeneration < p.Generation || condition == nil {
		return progress{line: "Waiting for the controller to observe the spec ..."}
	}
	updated := fmt.Sprintf("%d of %d replicas are updated", min(p.Status.UpdatedReplicas, wanted), wanted)
	why := condition.Message
	if said := updatedSaid.FindString(why); said != "" { // it does not count surge replicas
		updated, why = said, strings.TrimPrefix(strings.TrimPrefix(why, said), "; ")
	}
	counts := fmt.Sprintf("%s, %d available", updated, p.Status.AvailableReplicas)
	switch condition.Reason {
	case pod2.ReasonProgressDeadlineExceeded:
		return progress{line: counts, err: fmt.Errorf("%s exceeded its progress deadline: %s", name, condition.Message)}
	case pod2.ReasonComplete:
		if p.Status.UpdatedReplicas < wanted {
			return progress{line: fmt.Sprintf("%s is rolled out as far as its updateStrategy allows: %s", name, counts), complete: true}
		}
		return progress{line: fmt.Sprintf("%s is rolled out: %s", name, counts), complete: true}
	case pod2.ReasonPaused:
		return progress{line: fmt.Sprintf("Paused (run `kubectl pod2 resume %s` to continue): %s", p.Name, counts)}
	}
	if why != "" {
		counts += "; " + why
	}
	return progress{line: fmt.Sprintf("Waiting: %s ...", counts)}
}
