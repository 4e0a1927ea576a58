package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

func newUndo(t *tool) *cobra.Command {
	var number int64
	cmd := &cobra.Command{
		Use: "undo NAME", Args: usage(cobra.ExactArgs(1)),
		Short: "Roll back to an earlier revision: its template, networks and serviceName",
		Long: "Roll back to an earlier revision: the command writes its template, networks and serviceName into the spec.\n\n" +
			"The networks include interfaces and requested addresses. Replicas, the update strategy and all other fields do not change.",
		Example: examples(`
# Roll back to the previous revision
kubectl pod2 undo web

# Roll back to revision 3
kubectl pod2 undo web --to-revision=3`),
	}
	cmd.Flags().Int64Var(&number, "to-revision", number, "The revision to roll back to. Zero means the last one that differs from the spec.")
	return newChange(t, cmd, "undo", func(ctx context.Context, s *session, p *v1.Pod2, _ []string) (edit, error) {
		history, err := s.history(ctx, p)
		if err != nil {
			return edit{}, err
		}
		r, err := revisionToUndo(history, number)
		if err != nil {
			return edit{}, err
		}
		if r.Wanted {
			return edit{done: fmt.Sprintf("unchanged: the spec already matches revision %d", r.Object.Revision)}, nil
		}
		return revert(p, r)
	})
}

// revisionToUndo returns the revision with a number. Zero means the latest one that
// differs from the spec.
func revisionToUndo(history []pod2.Revision, number int64) (pod2.Revision, error) {
	if number != 0 {
		i, err := findRevision(history, number)
		if err != nil {
			return pod2.Revision{}, err
		}
		return history[i], nil
	}
	for i := len(history) - 1; i >= 0; i-- {
		if !history[i].Wanted {
			return history[i], nil
		}
	}
	return pod2.Revision{}, errors.New("no earlier revision exists")
}

// revert replaces the fields of a revision with its stored text. So fields that this
// program does not know are rolled back too.
func revert(p *v1.Pod2, r pod2.Revision) (edit, error) {
	var stored struct {
		Template json.RawMessage `json:"template"`
	}
	if err := json.Unmarshal(r.Object.Data.Raw, &stored); err != nil {
		return edit{}, fmt.Errorf("decode ControllerRevision %s/%s: %w", r.Object.Namespace, r.Object.Name, err)
	}
	networks := make([]v1.Pod2Network, 0, len(r.Content.Networks))
	for _, n := range r.Content.Networks {
		networks = append(networks, v1.Pod2Network(n))
	}
	ops := []operation{{"replace", "/spec/template", stored.Template}, {"add", "/spec/networks", networks}}
	if r.Content.ServiceName != "" {
		ops = append(ops, operation{"add", "/spec/serviceName", r.Content.ServiceName})
	} else if p.Spec.ServiceName != "" {
		ops = append(ops, operation{Op: "remove", Path: "/spec/serviceName"})
	}
	done := fmt.Sprintf("rolled back to revision %d", r.Object.Revision)
	if p.Spec.Paused {
		done = fmt.Sprintf("rolled back to revision %d, but updates are paused: resume to roll it out", r.Object.Revision)
	}
	return edit{ops: append(ops, restoreCause(p, r)...), done: done}, nil
}

// restoreCause sets the change cause of the Pod2 to that of the revision, as `kubectl
// rollout undo` does for a Deployment.
func restoreCause(p *v1.Pod2, r pod2.Revision) []operation {
	is, was := p.Annotations[pod2.ChangeCauseAnnotation], r.Object.Annotations[pod2.ChangeCauseAnnotation]
	if is == was {
		return nil
	}
	annotations := maps.Clone(p.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[pod2.ChangeCauseAnnotation] = was
	if was == "" {
		delete(annotations, pod2.ChangeCauseAnnotation)
	}
	return []operation{{"add", "/metadata/annotations", annotations}}
}
