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
		Short: "Go back to an earlier revision: its template, its networks and its serviceName",
		Long: "Go back to an earlier revision: its template, its networks and its serviceName are written into the spec.\n\n" +
			"Interfaces and wanted addresses come back with the networks. Replicas, the update strategy and the rest of the spec are not touched.",
	}
	cmd.Flags().Int64Var(&number, "to-revision", number, "The revision to go back to; zero means the one before that of the spec.")
	return newChange(t, cmd, "undo", func(ctx context.Context, c clients, p *v1.Pod2, _ []string) (edit, error) {
		history, err := c.history(ctx, p)
		if err != nil {
			return edit{}, err
		}
		r, err := revisionToUndo(history, number)
		if err != nil {
			return edit{}, err
		}
		if r.Wanted {
			return edit{done: fmt.Sprintf("unchanged: the spec is that of revision %d", r.Object.Revision)}, nil
		}
		return revert(p, r)
	})
}

// revisionToUndo is the one of a number; zero is the latest that is not the spec's.
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
	return pod2.Revision{}, errors.New("there is no revision before that of the spec")
}

// revert replaces what a revision is made of, by its stored text: a field that this
// program does not know goes back too.
func revert(p *v1.Pod2, r pod2.Revision) (edit, error) {
	var stored struct {
		Template json.RawMessage `json:"template"`
	}
	if err := json.Unmarshal(r.Object.Data.Raw, &stored); err != nil {
		return edit{}, fmt.Errorf("read the content of ControllerRevision %s/%s: %w", r.Object.Namespace, r.Object.Name, err)
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
		done = fmt.Sprintf("spec is that of revision %d again; updates are paused: resume to have it rolled out", r.Object.Revision)
	}
	return edit{ops: append(ops, restoreCause(p, r)...), done: done}, nil
}

// restoreCause has the Pod2 say why its spec is as it is: for the reason that the
// revision has, as `kubectl rollout undo` does for a Deployment.
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
