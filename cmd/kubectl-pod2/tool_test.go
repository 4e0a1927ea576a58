package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/client/clientset/versioned/fake"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/reconcile"
)

var now = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// world is a cluster of fakes. They check no resourceVersion and have no dry run; the
// integration tests use a real cluster.
type world struct {
	t      *testing.T
	kube   *kubefake.Clientset
	sample *fake.Clientset
	// enforced says that --namespace is set.
	enforced bool
	// status is the exit status of the last command.
	status int
}

func (w *world) now() time.Time { return now }

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, kube: kubefake.NewClientset(), sample: fake.NewSimpleClientset()}
	for _, object := range objects {
		tracker := w.kube.Tracker()
		switch object.(type) {
		case *v1.Pod2, *v1.Network, *v1.AddressBlock, *v1.AddressHistory:
			tracker = w.sample.Tracker()
		}
		if err := tracker.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// run returns the output of a command. Lines of the standard error have the prefix "! ",
// and so has the error that the command ends with.
func (w *world) run(args ...string) string {
	w.t.Helper()
	out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["fake"] = &clientcmdapi.Cluster{Server: "https://fake"}
	kubeconfig.Contexts["fake"] = &clientcmdapi.Context{Cluster: "fake", Namespace: "default"}
	kubeconfig.CurrentContext = "fake"
	overrides := &clientcmd.ConfigOverrides{}
	if w.enforced {
		overrides.Context.Namespace = "default"
	}
	command := newCommand(&tool{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut},
		config: genericclioptions.NewTestConfigFlags().
			WithClientConfig(clientcmd.NewDefaultClientConfig(*kubeconfig, overrides)),
		now:     w.now,
		connect: func() (reconcile.Clients, error) { return reconcile.Clients{Kube: w.kube, Sample: w.sample}, nil },
	})
	command.SetArgs(args)
	text := &strings.Builder{}
	executed, err := command.ExecuteContextC(w.t.Context())
	w.status = exitStatus(executed, err)
	text.WriteString(out.String())
	for line := range strings.Lines(errOut.String()) {
		text.WriteString("! " + line)
	}
	if err != nil && !errors.Is(err, errWouldChange) {
		fmt.Fprintf(text, "! %v\n", err)
	}
	return text.String()
}

// spec returns the spec of web, as YAML.
func (w *world) spec() string {
	w.t.Helper()
	p, err := w.sample.SamplecrdV1().Pod2s("default").Get(w.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := yaml.Marshal(p.Spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// web is a Pod2 with two replicas on blue, completely rolled out.
func web(changes ...func(*v1.Pod2)) *v1.Pod2 {
	p := &v1.Pod2{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u-web", ResourceVersion: "1", Generation: 3},
		Spec: v1.Pod2Spec{
			Replicas: ptr.To[int32](2),
			Networks: []v1.Pod2Network{{Name: "blue", Addresses: []v1.Address{"10.0.0.5"}}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "init", Image: "busybox:1"}},
				Containers:     []corev1.Container{{Name: "app", Image: "nginx:3"}, {Name: "side", Image: "envoy:1"}},
			}},
		},
		Status: v1.Pod2Status{
			ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2,
			Conditions: []metav1.Condition{{Type: v1.ConditionProgressing, Status: metav1.ConditionTrue, Reason: pod2.ReasonComplete}},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func withImage(image string) func(*v1.Pod2) {
	return func(p *v1.Pod2) { p.Spec.Template.Spec.Containers[0].Image = image }
}

// revisionOf is the ControllerRevision that the controller creates for a Pod2.
func revisionOf(p *v1.Pod2, number int64) *appsv1.ControllerRevision {
	r := pod2.Diff(pod2.State{Now: now, Pod2: p}).CreateRevision
	r.Revision, r.CreationTimestamp = number, metav1.NewTime(now.Add(-time.Duration(10-number)*time.Hour))
	return r
}

func newNetwork(name, cidr string) *v1.Network {
	return &v1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u-net"},
		Spec:       v1.NetworkSpec{CIDR: cidr},
	}
}

// block returns an AddressBlock. Each entry is one word: address=state:pod. The owner of a
// pod web-... is Pod2 web.
func block(name, network, cidr string, entries ...string) *v1.AddressBlock {
	b := &v1.AddressBlock{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1.AddressBlockSpec{Network: network, NetworkUID: "u-net", CIDR: cidr},
	}
	for _, word := range entries {
		address, rest, _ := strings.Cut(word, "=")
		state, pod, _ := strings.Cut(rest, ":")
		e := v1.AddressEntry{Address: address, Pod: pod, State: v1.AddressState(state), Since: metav1.NewTime(now.Add(-time.Minute))}
		if strings.HasPrefix(pod, "web-") {
			e.Owner = v1.AddressOwner{Kind: "Pod2", Name: "web"}
		}
		b.Spec.Entries = append(b.Spec.Entries, e)
	}
	return b
}

// dryRuns answers patches with an object, and fails if one is not a dry run.
func (w *world) dryRuns(resource string, answer runtime.Object) {
	w.sample.PrependReactor("patch", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch, ok := action.(clienttesting.PatchActionImpl)
		if !ok || len(patch.PatchOptions.DryRun) == 0 {
			w.t.Errorf("a patch is not a dry run: %v", action)
		}
		return true, answer, nil
	})
}

func requireText(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
