package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/pod2/dns"
	"github.com/pod2/pod2/pkg/reconcile"
)

// planName is the name of the command, and errWouldChange ends a plan that is not empty.
// Nothing prints this error: it sets the exit status.
const planName = "plan"

var errWouldChange = errors.New("the plan would change something")

func newPlan(t *tool) *cobra.Command {
	files := genericclioptions.FileNameFlags{
		Usage: "The file, directory or URL with the Pod2s. - means the standard input.", Filenames: &[]string{}, Kustomize: new(string), Recursive: new(bool),
	}
	var how manner
	cmd := &cobra.Command{
		Use: planName + " -f FILENAME", Args: usage(cobra.NoArgs),
		Short: "Show the actions that the controller would take if you applied a file with Pod2s",
		Long: "Show the actions that the controller would take if you applied a file with Pod2s. The command changes nothing.\n\n" +
			"The API server applies the file in a dry run, so it sets defaults and refuses mistakes. Then the command decides as the " +
			"controller would, on the current state of the cluster. It prints each action with its reason, in the order of the writes. " +
			"This is the first step only: the next step depends on its results.\n\n" +
			"The API server also creates the first pod in a dry run, with your rights and not with the controller's. For the other replicas, " +
			"the command compares the quotas. It treats Networks of the file as applied, and ignores all other objects.\n\n" +
			"The exit status is 0 if nothing would change: no Network or Pod2 would be created or configured, and the controller would do nothing. " +
			"It is 1 if something would change, and greater than 1 if an error occurred. Changes of other objects in the files do not count.",
		Example: examples(`
# Show the actions for a changed manifest
kubectl pod2 plan -f web.yaml

# Show the actions for a manifest that you apply with --server-side
kubectl pod2 plan -f web.yaml --server-side

# Read the manifest from the standard input
kustomize build . | kubectl pod2 plan -f -

# Apply the manifest of a Pod2 only if that would change something
kubectl pod2 plan -f web.yaml; [ $? -eq 1 ] && kubectl apply -f web.yaml`),
	}
	files.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&how.serverSide, "server-side", false, "Use server-side apply in the dry run, as kubectl apply --server-side does.")
	cmd.Flags().BoolVar(&how.force, "force-conflicts", false, "With --server-side: take over fields that other managers own.")
	cmd.RunE = t.connected(func(ctx context.Context, s *session, _ []string) error {
		if how.force && !how.serverSide {
			return errors.New("--force-conflicts only works with --server-side")
		}
		options := files.ToOptions()
		if len(options.Filenames) == 0 && options.Kustomize == "" {
			return errors.New("must specify one of -f FILENAME and -k DIRECTORY")
		}
		manifests, err := readManifests(&options, s.namespace, s.enforced)
		if err != nil {
			return err
		}
		for _, other := range manifests.others {
			fmt.Fprintf(t.ErrOut, "ignored: %s\n", other)
		}
		return s.plan(ctx, manifests, how)
	})
	return cmd
}

func (s *session) plan(ctx context.Context, m manifests, how manner) error {
	if len(m.pod2s) == 0 {
		return errors.New("no Pod2 found in the files")
	}
	var networks []*v1.Network
	changes := false
	for _, object := range m.networks {
		would, err := dryRun(ctx, s.Sample.SamplecrdV1().Networks(object.GetNamespace()), object, how)
		if err != nil {
			return err
		}
		networks = append(networks, would.after)
		if effect := verb(would, func(n *v1.Network) any { return n.Spec }); effect != unchanged {
			changes = true
			fmt.Fprintf(s.Out, "Network %s/%s would be %s.\n\n", would.after.Namespace, would.after.Name, effect)
		}
	}
	earlier := takes{}
	for i, object := range m.pod2s {
		would, err := dryRun(ctx, s.Sample.SamplecrdV1().Pod2s(object.GetNamespace()), object, how)
		if err != nil {
			return err
		}
		view, err := reconcile.Look(ctx, s.Clients, s.now(), would.after, networks)
		if err != nil {
			return err
		}
		if view.Assumed != nil {
			fmt.Fprintf(s.ErrOut, "assumed that StorageClasses allow expansion: %v\n", view.Assumed)
		}
		plan, dnsPlan := pod2.Diff(view.Pod2), dns.Diff(view.DNS)
		first := s.firstPod(ctx, view.Pod2, plan)
		changes = changes || verb(would, pod2Spec) != unchanged || !plan.Empty() || !dnsPlan.Empty()
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		fmt.Fprint(s.Out, planText(would, plan, dnsPlan)+first+orphanText(view.Pod2)+addressText(view.Pod2, view.Blocks, earlier))
	}
	if changes {
		return errWouldChange
	}
	return nil
}

const unchanged = "unchanged"

func pod2Spec(p *v1.Pod2) any { return p.Spec }

// verb is the effect that an apply would have on the object itself, in kubectl's words.
func verb[T interface {
	comparable
	metav1.Object
}](would outcome[T], spec func(T) any) string {
	var none T
	same := equality.Semantic.DeepEqual
	switch before, after := would.before, would.after; {
	case before == none:
		return "created"
	case !same(spec(before), spec(after)), !same(before.GetLabels(), after.GetLabels()), !same(annotations(before), annotations(after)):
		return "configured"
	}
	return unchanged
}

// planText has one action a line, and each condition of the status on its own line.
func planText(would outcome[*v1.Pod2], plan pod2.Plan, names dns.Plan) string {
	title := fmt.Sprintf("Pod2 %s/%s would be %s", would.after.Namespace, would.after.Name, verb(would, pod2Spec))
	if plan.Empty() && names.Empty() {
		return title + ", and the controller would do nothing" + again(plan) + ".\n"
	}
	return title + ". The first step of the controller would be:\n" + steps(plan, names)
}

// steps are the actions of the plans, without events, because they repeat the conditions.
func steps(plan pod2.Plan, names dns.Plan) string {
	plan.RequeueAfter = plan.RequeueAfter.Round(time.Second)
	names.Events = nil
	lines := strings.Split(strings.TrimSuffix(plan.String()+names.String(), "\n"), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "status ") {
			lines[i] = condition.ReplaceAllString(line, "\n      $1=")
		}
	}
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

// orphanText lists pods of other controllers that have the names of replicas, and whether
// the Pod2 would adopt each. It is empty if there are none.
func orphanText(s pod2.State) string {
	text := ""
	for _, o := range pod2.Orphans(s) {
		text += fmt.Sprintf("  %s of %s would ", o.Pod, o.Owner)
		if o.Unlike.Field == "" {
			text += "be adopted\n"
		} else {
			text += fmt.Sprintf("not be adopted: it differs from the template in %s\n", o.Unlike)
		}
	}
	if text == "" {
		return ""
	}
	return "Pods of other controllers, once those are deleted with --cascade=orphan:\n" + text
}

// annotations of the Pod2, without the copy of the manifest that `kubectl apply` keeps.
func annotations(object metav1.Object) map[string]string {
	own := maps.Clone(object.GetAnnotations())
	delete(own, corev1.LastAppliedConfigAnnotation)
	return own
}

var condition = regexp.MustCompile(` ([A-Z][A-Za-z]*)=`)

func again(p pod2.Plan) string {
	if text := strings.TrimSpace(p.String()); text != "" {
		return ", but check " + text
	}
	return ""
}
