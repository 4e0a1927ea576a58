package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/reconcile"
)

func newHistory(t *tool) *cobra.Command {
	var number int64
	cmd := &cobra.Command{
		Use: "history NAME", Args: usage(cobra.ExactArgs(1)),
		Short: "List the revisions of a Pod2, or show one revision and its changes",
		Example: examples(`
# List the revisions of Pod2 web
kubectl pod2 history web

# Show revision 2 and its changes
kubectl pod2 history web --revision=2`),
		ValidArgsFunction: completing(t, (*session).pod2s),
	}
	flags := newPrintFlags(cmd)
	cmd.Flags().Int64Var(&number, "revision", number, "Show this revision, and its changes since the previous one.")
	cmd.RunE = t.onPod2(func(ctx context.Context, s *session, p *v1.Pod2) error {
		history, err := s.history(ctx, p)
		if err != nil {
			return err
		}
		printed := *flags.OutputFormat != ""
		switch {
		case number != 0:
			i, err := findRevision(history, number)
			if err != nil {
				return fmt.Errorf("Pod2 %s/%s: %w", p.Namespace, p.Name, err)
			}
			if printed {
				return t.print(flags, history[i].Object, "")
			}
			return t.showRevision(p, history, i)
		case printed:
			objects := make([]*appsv1.ControllerRevision, 0, len(history))
			for _, r := range history {
				objects = append(objects, r.Object)
			}
			return printAll(t, flags, objects)
		}
		return t.listRevisions(p, history)
	})
	return cmd
}

func (s *session) history(ctx context.Context, p *v1.Pod2) ([]pod2.Revision, error) {
	objects, err := reconcile.List[*appsv1.ControllerRevision](ctx, "ControllerRevisions of Pod2 "+p.Namespace+"/"+p.Name,
		s.Kube.AppsV1().ControllerRevisions(p.Namespace), v1.Pod2Label+"="+p.Name)
	return pod2.History(p, objects), err
}

// findRevision returns the position of a revision. If it does not exist, the error lists
// those that do.
func findRevision(history []pod2.Revision, number int64) (int, error) {
	i := slices.IndexFunc(history, func(r pod2.Revision) bool { return r.Object.Revision == number })
	if i >= 0 {
		return i, nil
	}
	if len(history) == 0 {
		return 0, fmt.Errorf("revision %d not found: no revision exists yet", number)
	}
	numbers := make([]string, 0, len(history))
	for _, r := range history {
		numbers = append(numbers, fmt.Sprint(r.Object.Revision))
	}
	return 0, fmt.Errorf("revision %d not found: choose one of %s", number, strings.Join(numbers, ", "))
}

func (t *tool) listRevisions(p *v1.Pod2, history []pod2.Revision) error {
	w := printers.GetNewTabWriter(t.Out)
	fmt.Fprintln(w, "REVISION\tNAME\tROLE\tCHANGE-CAUSE\tAGE")
	for _, r := range history {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", r.Object.Revision, r.Object.Name, role(p, r),
			cmp.Or(r.Object.Annotations[pod2.ChangeCauseAnnotation], "<none>"),
			duration.HumanDuration(t.now().Sub(r.Object.CreationTimestamp.Time)))
	}
	return w.Flush()
}

// role of a revision: all replicas were last created from current, and update is that of
// the spec.
func role(p *v1.Pod2, r pod2.Revision) string {
	var roles []string
	if r.Object.Name == p.Status.CurrentRevision {
		roles = append(roles, "current")
	}
	if r.Wanted {
		roles = append(roles, "update")
	}
	return cmp.Or(strings.Join(roles, ","), "-")
}

func (t *tool) showRevision(p *v1.Pod2, history []pod2.Revision, i int) error {
	object := history[i].Object
	content, err := contentYAML(history[i])
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Out, "# Pod2 %s/%s, revision %d (%s)\n%s", p.Namespace, p.Name, object.Revision, object.Name, content)
	if i == 0 {
		fmt.Fprintln(t.Out, "\n# No earlier revision exists.")
		return nil
	}
	before := history[i-1].Object
	old, err := contentYAML(history[i-1])
	if err != nil {
		return err
	}
	changes, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(old), FromFile: fmt.Sprintf("revision %d", before.Revision),
		B: difflib.SplitLines(content), ToFile: fmt.Sprintf("revision %d", object.Revision), Context: 3,
	})
	if err != nil {
		return fmt.Errorf("compare revisions %d and %d: %w", before.Revision, object.Revision, err)
	}
	// SplitLines adds an empty line to the end of the text.
	fmt.Fprintf(t.Out, "\n# Changes since the previous revision:\n%s", changes)
	return nil
}

// contentYAML returns the fields of the revision, which the user set. It uses the stored
// text, to show also fields that this program does not know. It adds the networks, which
// may be recorded outside the text.
func contentYAML(r pod2.Revision) (string, error) {
	var content map[string]any
	decoder := json.NewDecoder(bytes.NewReader(r.Object.Data.Raw))
	decoder.UseNumber()
	if err := decoder.Decode(&content); err != nil {
		return "", fmt.Errorf("decode ControllerRevision %s/%s: %w", r.Object.Namespace, r.Object.Name, err)
	}
	if len(r.Content.Networks) > 0 {
		content["networks"] = r.Content.Networks
	}
	text, err := yaml.Marshal(content)
	return string(text), err
}
