package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/cli-runtime/pkg/printers"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func newInstall(t *tool) *cobra.Command {
	check, packets := false, false
	cmd := &cobra.Command{
		Use: "install --check", Args: usage(cobra.NoArgs),
		Short: "Find the parts that a cluster lacks for Pod2",
		Long: "Find the parts that a cluster lacks for Pod2, and print a remedy for each. The command changes nothing: Helm, " +
			"Kustomize or kubectl install Pod2.\n\n" +
			"The exit status is 1 if a required part is missing or cannot be read. The data plane is required only with --data-plane.",
		Example: examples(`
# Check the requirements of addresses
kubectl pod2 install --check

# Check also the requirements of Overlay Networks
kubectl pod2 install --check --data-plane`),
	}
	cmd.Flags().BoolVar(&check, "check", check, "Check the cluster. Required, because the command can do nothing else.")
	cmd.Flags().BoolVar(&packets, "data-plane", packets, "Require Multus, the CNI plugin and a ready agent on each node too.")
	cmd.RunE = t.connected(func(ctx context.Context, s *session, _ []string) error {
		if !check {
			return errors.New("the plugin does not install Pod2: use Helm (docs/how-to/install.md), or add --check to check the cluster")
		}
		findings := findingsOf(s.observeCluster(ctx))
		return printFindings(s, findings, packets)
	})
	return cmd
}

// observed are the parts of a cluster that the command reads. An error belongs to the part that could
// not be read.
type observed struct {
	version    string
	versionErr error
	// served are the resources of the groups below, as group/version/resource.
	served    map[string]bool
	servedErr error

	controllers    []appsv1.Deployment
	controllersErr error
	agents         []appsv1.DaemonSet
	agentPods      []corev1.Pod
	agentsErr      error
}

const (
	admissionGroup = "admissionregistration.k8s.io/v1"
	multusGroup    = "k8s.cni.cncf.io/v1"
	pod2Group      = v1.GroupName + "/v1"
)

// part selects the objects of a program of Pod2 in all namespaces.
func part(name string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name}
}

func (s *session) observeCluster(ctx context.Context) observed {
	o := observed{served: map[string]bool{}}
	client := s.Kube.Discovery()
	if info, err := client.ServerVersionWithContext(ctx); err != nil {
		o.versionErr = err
	} else {
		o.version = info.GitVersion
	}
	for _, group := range []string{admissionGroup, multusGroup, pod2Group} {
		list, err := client.ServerResourcesForGroupVersionWithContext(ctx, group)
		if err != nil {
			if !apierrors.IsNotFound(err) {
				o.servedErr = err
			}
			continue
		}
		for _, resource := range list.APIResources {
			o.served[group+"/"+resource.Name] = true
		}
	}
	if list, err := s.Kube.AppsV1().Deployments("").List(ctx, part("pod2-controller")); err != nil {
		o.controllersErr = err
	} else {
		o.controllers = list.Items
	}
	if list, err := s.Kube.AppsV1().DaemonSets("").List(ctx, part("pod2-agent")); err != nil {
		o.agentsErr = err
	} else {
		o.agents = list.Items
	}
	if list, err := s.Kube.CoreV1().Pods("").List(ctx, part("pod2-agent")); err != nil {
		o.agentsErr = err
	} else {
		o.agentPods = list.Items
	}
	return o
}

type state string

const (
	stateOK      state = "OK"
	stateMissing state = "Missing"
	stateUnknown state = "Unknown"
)

// finding is one row of the table.
type finding struct {
	check string
	state state
	// found is the version or the number that decided.
	found  string
	remedy string
	// need is optional if a missing part is not a failure.
	need need
}

type need int

const (
	optional need = iota
	always
	dataPlane
)

// findingsOf decides about each part. It is pure.
func findingsOf(o observed) []finding {
	findings := []finding{kubernetesVersion(o)}
	served := func(check, resource, remedy string, n need) {
		f := finding{check: check, state: stateOK, found: resource, need: n}
		switch {
		case o.served[resource]:
		case o.servedErr != nil:
			f.state, f.remedy = stateUnknown, o.servedErr.Error()
		default:
			f.state, f.remedy = stateMissing, remedy
		}
		findings = append(findings, f)
	}
	served("Definitions", pod2Group+"/networks", "helm install pod2-crds charts/pod2-crds --namespace=pod2-system --create-namespace", always)
	served("Validating policies", admissionGroup+"/validatingadmissionpolicies", "upgrade to Kubernetes 1.33 or newer", always)
	served("Mutating policies", admissionGroup+"/mutatingadmissionpolicies", "upgrade to Kubernetes 1.36, or write the scheduling gate into pod templates", optional)
	findings = append(findings, controller(o))
	served("Multus", multusGroup+"/network-attachment-definitions", "install Multus, which moves packets", dataPlane)
	return append(findings, plugins(o), agents(o))
}

func kubernetesVersion(o observed) finding {
	f := finding{check: "Kubernetes version", state: stateOK, found: o.version, need: always}
	if o.versionErr != nil {
		f.state, f.remedy = stateUnknown, o.versionErr.Error()
		return f
	}
	v, err := version.ParseGeneric(o.version)
	switch {
	case err != nil:
		f.state, f.remedy = stateUnknown, err.Error()
	case v.LessThan(version.MajorMinor(1, 33)):
		f.state, f.remedy = stateMissing, "upgrade to Kubernetes 1.33 or newer"
	}
	return f
}

func controller(o observed) finding {
	f := finding{check: "Controller", state: stateOK, need: always}
	if o.controllersErr != nil {
		f.state, f.remedy = stateUnknown, o.controllersErr.Error()
		return f
	}
	ready := int32(0)
	for i := range o.controllers {
		ready += o.controllers[i].Status.ReadyReplicas
	}
	f.found = fmt.Sprintf("%d ready", ready)
	switch {
	case len(o.controllers) == 0:
		f.state, f.remedy = stateMissing, "helm install pod2 charts/pod2 --namespace=pod2-system --create-namespace"
	case ready == 0:
		f.state, f.remedy = stateMissing, "kubectl --namespace="+o.controllers[0].Namespace+" describe deployment "+o.controllers[0].Name
	}
	return f
}

// plugins counts the nodes on which the agent's init container has installed pod2-cni. The
// API server does not know the other plugins of a node.
func plugins(o observed) finding {
	f := finding{check: "CNI plugin pod2-cni", state: stateOK, need: dataPlane}
	if o.agentsErr != nil {
		f.state, f.remedy = stateUnknown, o.agentsErr.Error()
		return f
	}
	installed := 0
	lacks := ""
	for i := range o.agentPods {
		pod := &o.agentPods[i]
		if hasInstalled(pod) {
			installed++
		} else {
			lacks = "kubectl --namespace=" + pod.Namespace + " describe pod " + pod.Name
		}
	}
	f.found = fmt.Sprintf("on %d of %d nodes", installed, desired(o))
	if installed < desired(o) || desired(o) == 0 {
		f.state, f.remedy = stateMissing, lacks
		if lacks == "" {
			f.remedy = installAgent(o)
		}
	}
	return f
}

func hasInstalled(pod *corev1.Pod) bool {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name == "install-cni" && c.State.Terminated != nil {
			return c.State.Terminated.ExitCode == 0
		}
	}
	return false
}

// installAgent in the way that the controller was installed. Helm labels its objects.
func installAgent(o observed) string {
	for i := range o.controllers {
		if o.controllers[i].Labels["app.kubernetes.io/managed-by"] != "Helm" {
			return "kubectl apply -f dist/install-dataplane.yaml"
		}
	}
	return "helm upgrade pod2 charts/pod2 --namespace=pod2-system --reset-then-reuse-values --set agent.enabled=true"
}

// desired is the number of nodes that should have an agent.
func desired(o observed) int {
	sum := 0
	for i := range o.agents {
		sum += int(o.agents[i].Status.DesiredNumberScheduled)
	}
	return sum
}

func agents(o observed) finding {
	f := finding{check: "Ready agents", state: stateOK, need: dataPlane}
	if o.agentsErr != nil {
		f.state, f.remedy = stateUnknown, o.agentsErr.Error()
		return f
	}
	ready := 0
	for i := range o.agents {
		ready += int(o.agents[i].Status.NumberReady)
	}
	f.found = fmt.Sprintf("on %d of %d nodes", ready, desired(o))
	switch {
	case len(o.agents) == 0:
		f.state, f.remedy = stateMissing, installAgent(o)
	case ready < desired(o) || desired(o) == 0:
		f.state, f.remedy = stateMissing, "kubectl --namespace="+o.agents[0].Namespace+" logs daemonset/"+o.agents[0].Name
	}
	return f
}

func printFindings(s *session, findings []finding, packets bool) error {
	w := printers.GetNewTabWriter(s.Out)
	fmt.Fprintln(w, "CHECK\tSTATE\tFOUND\tREMEDY")
	var lacks []string
	for _, f := range findings {
		required := f.need == always || f.need == dataPlane && packets
		shown := string(f.state)
		switch {
		case f.state == stateOK:
		case required:
			lacks = append(lacks, f.check)
		default:
			shown += " (optional)"
		}
		remedy := f.remedy
		if remedy == "" {
			remedy = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.check, shown, f.found, strings.ReplaceAll(remedy, "\n", " "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(lacks) > 0 {
		return fmt.Errorf("the cluster lacks %s", strings.Join(lacks, ", "))
	}
	return nil
}
