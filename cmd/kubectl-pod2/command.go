package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/transport"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/reconcile"
)

// fieldManager is this program's name at the API server.
const fieldManager = "kubectl-pod2"

// scheme has the kinds that -o prints.
var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(kubescheme.AddToScheme(scheme))
	utilruntime.Must(v1.Install(scheme))
}

// tool is shared by all subcommands.
type tool struct {
	genericiooptions.IOStreams
	config  genericclioptions.RESTClientGetter
	connect func() (reconcile.Clients, error)
	// wrap is around the transport of connect; nil for none.
	wrap transport.WrapperFunc
	now  func() time.Time
}

// session is a connected tool.
type session struct {
	*tool
	reconcile.Clients
	// namespace to work in; empty for all.
	namespace string
	// enforced says that --namespace is set.
	enforced bool
}

func newCommand(t *tool) *cobra.Command {
	root := &cobra.Command{
		Use:         fieldManager,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl pod2"},
		Short:       "Roll out, inspect and plan Pod2s",
		Long: "Roll out, inspect and plan Pod2s.\n\n" +
			"The commands do for a Pod2 the work of `kubectl rollout` and `kubectl set image`. They also show which pod holds " +
			"which address of a Network, and the actions that the controller would take for a changed manifest.",
		Example: examples(`
# Show the actions that the controller would take for a changed manifest
kubectl pod2 plan -f web.yaml

# Wait until an update is complete
kubectl pod2 status web --timeout=5m

# List the addresses of a Network and the pods that hold them
kubectl pod2 addresses blue`),
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetIn(t.In)
	root.SetOut(t.Out)
	root.SetErr(t.ErrOut)
	set := &cobra.Command{
		Use: "set", Short: "Change one field of a Pod2",
		Example: examples(`
# Change the image of one container
kubectl pod2 set image web app=nginx:1.29

# Change the image of all containers
kubectl pod2 set image web '*=nginx:1.29'`),
	}
	set.AddCommand(newSetImage(t))
	root.AddCommand(newStatus(t), newHistory(t), newUndo(t), newPause(t), newResume(t), newRestart(t), set, newAddresses(t), newRelease(t), newPlan(t), newDashboard(t), newInstall(t), newVersion(t))
	explainErrors(root)
	return root
}

// examples indents the Example of a command, as kubectl does.
func examples(text string) string {
	text = "  " + strings.ReplaceAll(strings.TrimPrefix(text, "\n"), "\n", "\n  ")
	return strings.ReplaceAll(text, "\n  \n", "\n\n")
}

// explainErrors makes a command and its subcommands report that Pod2 is not installed.
func explainErrors(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return explain(run(cmd, args)) }
	}
	for _, below := range cmd.Commands() {
		explainErrors(below)
	}
}

// explain replaces "the server could not find the requested resource". The client
// returns this error for a path that the API server does not serve.
func explain(err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return err
	}
	details := status.Status().Details
	if details == nil || details.Group != v1.GroupName || !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return err
	}
	return fmt.Errorf("Pod2 is not installed in this cluster: the API server has no %s.%s. "+
		"Ask an administrator to run `kubectl apply -f crd/ -f artifacts/` in a checkout of its repository", details.Kind, details.Group)
}

// start connects to the cluster of the kubeconfig.
func (t *tool) start() (*session, error) {
	namespace, enforced, err := t.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("read the namespace of the kubeconfig: %w", err)
	}
	clients, err := t.connect()
	return &session{t, clients, namespace, enforced}, err
}

// connected is the RunE of a command that works with a cluster.
func (t *tool) connected(run func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := t.start()
		if err != nil {
			return err
		}
		return run(cmd.Context(), s, args)
	}
}

// onPod2 is the RunE of a command that reads the Pod2 of its first argument.
func (t *tool) onPod2(run func(ctx context.Context, s *session, p *v1.Pod2) error) func(*cobra.Command, []string) error {
	return t.connected(func(ctx context.Context, s *session, args []string) error {
		p, err := s.pod2(ctx, args[0])
		if err != nil {
			return err
		}
		return run(ctx, s, p)
	})
}

// pod2Name reads a NAME argument. It accepts kubectl's TYPE/NAME too.
func pod2Name(arg string) (string, error) {
	kind, name, typed := strings.Cut(arg, "/")
	if !typed {
		return arg, nil
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	if !slices.Contains([]string{"pod2", "pod2s", "p2"}, kind) || name == "" {
		return "", fmt.Errorf("%q is not a Pod2: write NAME or pod2/NAME", arg)
	}
	return name, nil
}

// usage adds the usage line to an error about the number of arguments.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
		}
		return nil
	}
}

// completing completes the first argument of a command with the names of objects.
func completing[T metav1.Object](t *tool, list func(*session, context.Context) ([]T, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if s, err := t.start(); err == nil && len(args) == 0 {
			objects, _ := list(s, cmd.Context()) // a completion reports no errors
			for _, object := range objects {
				names = append(names, object.GetName())
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (s *session) pod2s(ctx context.Context) ([]*v1.Pod2, error) {
	return reconcile.List[*v1.Pod2](ctx, "Pod2s of "+scope(s.namespace), s.Sample.SamplecrdV1().Pod2s(s.namespace), "")
}

// pod2 reads the Pod2 of a NAME argument.
func (s *session) pod2(ctx context.Context, arg string) (*v1.Pod2, error) {
	name, err := pod2Name(arg)
	if err != nil {
		return nil, err
	}
	return reconcile.Get(ctx, "Pod2", s.Sample.SamplecrdV1().Pod2s(s.namespace), s.namespace, name)
}

// newPrintFlags adds the flags of -o.
func newPrintFlags(cmd *cobra.Command) *genericclioptions.PrintFlags {
	flags := genericclioptions.NewPrintFlags("").WithTypeSetter(scheme)
	flags.AddFlags(cmd)
	return flags
}

// print prints an object in the format of -o. The default is its name and the word done.
func (t *tool) print(flags *genericclioptions.PrintFlags, object runtime.Object, done string) error {
	flags.NamePrintFlags.Operation = done
	printer, err := flags.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(object, t.Out)
}

// printAll prints objects in the format of -o, as `kubectl get` does: names one by one,
// and every other format as one List.
func printAll[T runtime.Object](t *tool, flags *genericclioptions.PrintFlags, objects []T) error {
	list := &corev1.List{Items: []runtime.RawExtension{}}
	for _, object := range objects {
		if *flags.OutputFormat == "name" {
			if err := t.print(flags, object, ""); err != nil {
				return err
			}
			continue
		}
		kinds, _, err := scheme.ObjectKinds(object)
		if err != nil {
			return err
		}
		object.GetObjectKind().SetGroupVersionKind(kinds[0])
		list.Items = append(list.Items, runtime.RawExtension{Object: object})
	}
	if *flags.OutputFormat == "name" {
		return nil
	}
	return t.print(flags, list, "")
}
