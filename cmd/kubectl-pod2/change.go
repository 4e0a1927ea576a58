package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// edit changes the spec of a Pod2, through a JSON merge patch. To replace a list or a
// template, it has JSON patch operations instead. Without either there is nothing to
// change.
type edit struct {
	spec map[string]any
	ops  []operation
	done string // printed after the name of the Pod2
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch has the resourceVersion that the edit was decided on as its precondition.
func (e edit) patch(resourceVersion string) (types.PatchType, []byte, error) {
	if e.ops != nil {
		ops := append([]operation{{"replace", "/metadata/resourceVersion", resourceVersion}}, e.ops...)
		body, err := json.Marshal(ops)
		return types.JSONPatchType, body, err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": resourceVersion}, "spec": e.spec})
	return types.MergePatchType, body, err
}

// newChange returns a subcommand that changes the spec of one Pod2. decide gets the
// arguments after NAME. The controller writes the status often. So an edit that conflicts
// with such a write is decided again. An edit that conflicts with a change of the spec
// fails.
func newChange(t *tool, cmd *cobra.Command, verb string, decide func(ctx context.Context, s *session, p *v1.Pod2, args []string) (edit, error)) *cobra.Command {
	flags := newPrintFlags(cmd)
	cmd.ValidArgsFunction = completing(t, (*session).pod2s)
	cmd.RunE = t.connected(func(ctx context.Context, s *session, args []string) error {
		var decided edit
		var result *v1.Pod2
		generation := int64(0)
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			p, err := s.pod2(ctx, args[0])
			if err != nil {
				return err
			}
			named := fmt.Sprintf("%s Pod2 %s/%s", verb, p.Namespace, p.Name)
			if generation != 0 && p.Generation != generation {
				return fmt.Errorf("%s: another client changed its spec at the same time: check it and run the command again", named)
			}
			generation = p.Generation
			if decided, err = decide(ctx, s, p, args[1:]); err == nil {
				result, err = s.apply(ctx, p, decided)
			}
			if err != nil && !apierrors.IsConflict(err) { // the error of a conflict gets no prefix
				return fmt.Errorf("%s: %w", named, err)
			}
			return err
		})
		if err != nil {
			return err
		}
		return t.print(flags, result, decided.done)
	})
	return cmd
}

// apply returns the changed Pod2.
func (s *session) apply(ctx context.Context, p *v1.Pod2, e edit) (*v1.Pod2, error) {
	if e.spec == nil && e.ops == nil {
		return p, nil
	}
	kind, body, err := e.patch(p.ResourceVersion)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	return s.Sample.SamplecrdV1().Pod2s(p.Namespace).Patch(ctx, p.Name, kind, body, metav1.PatchOptions{FieldManager: fieldManager})
}

func newPause(t *tool) *cobra.Command {
	return newChange(t, &cobra.Command{
		Use: "pause NAME", Args: usage(cobra.ExactArgs(1)),
		Short: "Stop an update; scaling and the replacement of lost replicas continue",
		Example: examples(`
# Stop the update of Pod2 web
kubectl pod2 pause web

# Stop the update of a Pod2 in another namespace
kubectl pod2 pause web -n production`),
	}, "pause", func(_ context.Context, _ *session, p *v1.Pod2, _ []string) (edit, error) {
		if p.Spec.Paused {
			return edit{done: "already paused"}, nil
		}
		return edit{spec: map[string]any{"paused": true}, done: "paused"}, nil
	})
}

func newResume(t *tool) *cobra.Command {
	return newChange(t, &cobra.Command{
		Use: "resume NAME", Args: usage(cobra.ExactArgs(1)),
		Short: "Continue a paused update",
		Example: examples(`
# Continue the update of Pod2 web
kubectl pod2 resume web

# Continue the update and print the Pod2
kubectl pod2 resume web -o yaml`),
	}, "resume", func(_ context.Context, _ *session, p *v1.Pod2, _ []string) (edit, error) {
		if !p.Spec.Paused {
			return edit{done: "not paused"}, nil
		}
		return edit{spec: map[string]any{"paused": nil}, done: "resumed"}, nil
	})
}

// restartedAt is the annotation that `kubectl rollout restart` sets.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

func newRestart(t *tool) *cobra.Command {
	return newChange(t, &cobra.Command{
		Use: "restart NAME", Args: usage(cobra.ExactArgs(1)),
		Short: "Replace every replica, by the update strategy; each keeps its name and its addresses",
		Example: examples(`
# Restart all replicas of Pod2 web
kubectl pod2 restart web

# Restart them and wait until all are available
kubectl pod2 restart web && kubectl pod2 status web`),
	}, "restart", func(_ context.Context, _ *session, p *v1.Pod2, _ []string) (edit, error) {
		at := t.now().Format(time.RFC3339)
		switch {
		case p.Spec.Paused:
			return edit{}, fmt.Errorf("its updates are paused: run `kubectl pod2 resume %s` first", p.Name)
		case p.Spec.Template.Annotations[restartedAt] == at:
			return edit{}, fmt.Errorf("it was already restarted within this second")
		}
		template := map[string]any{"metadata": map[string]any{"annotations": map[string]string{restartedAt: at}}}
		return edit{spec: map[string]any{"template": template}, done: "restarted"}, nil
	})
}

func newSetImage(t *tool) *cobra.Command {
	cmd := newChange(t, &cobra.Command{
		Use: "image NAME CONTAINER=IMAGE...", Args: usage(cobra.MinimumNArgs(2)),
		Short: "Change the images of containers and init containers; *=IMAGE changes all of them",
		Example: examples(`
# Change the image of container app of Pod2 web
kubectl pod2 set image web app=nginx:1.29

# Change the images of two containers
kubectl pod2 set image web app=nginx:1.29 proxy=envoy:1.34

# Change the image of all containers
kubectl pod2 set image web '*=nginx:1.29'`),
	}, "set the image of", func(_ context.Context, _ *session, p *v1.Pod2, args []string) (edit, error) {
		return setImages(p, args)
	})
	completeName := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) (names []string, _ cobra.ShellCompDirective) {
		if len(args) == 0 {
			return completeName(cmd, args, prefix)
		}
		_ = t.onPod2(func(_ context.Context, _ *session, p *v1.Pod2) error { // a completion reports no errors
			for _, c := range containers(p) {
				names = append(names, c.name+"=")
			}
			return nil
		})(cmd, args)
		return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return cmd
}

// container of the template, with the path of its image.
type container struct{ name, image, path string }

func containers(p *v1.Pod2) []container {
	var all []container
	for i, c := range p.Spec.Template.Spec.InitContainers {
		all = append(all, container{c.Name, c.Image, fmt.Sprintf("/spec/template/spec/initContainers/%d/image", i)})
	}
	for i, c := range p.Spec.Template.Spec.Containers {
		all = append(all, container{c.Name, c.Image, fmt.Sprintf("/spec/template/spec/containers/%d/image", i)})
	}
	return all
}

// setImages reads CONTAINER=IMAGE arguments. If several name one container, the last one
// counts.
func setImages(p *v1.Pod2, args []string) (edit, error) {
	all := containers(p)
	images := make([]string, len(all))
	for _, arg := range args {
		name, image, ok := strings.Cut(arg, "=")
		if !ok || name == "" || image == "" {
			return edit{}, fmt.Errorf("argument %q must be CONTAINER=IMAGE", arg)
		}
		found := false
		var names []string
		for i, c := range all {
			names = append(names, c.name)
			if name == "*" || name == c.name {
				images[i], found = image, true
			}
		}
		if !found {
			return edit{}, fmt.Errorf("the template has no container %q; it has %s", name, strings.Join(names, ", "))
		}
	}
	e := edit{done: "image unchanged"}
	for i, c := range all {
		if images[i] != "" && images[i] != c.image {
			// "add" because a container of the template may have no image yet.
			e.ops = append(e.ops, operation{"add", c.path, images[i]})
			e.done = "image updated"
		}
	}
	return e, nil
}
