//go:build integration

package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// warnings are the policy's warnings in the API server's answers.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	if _, ours, ok := strings.Cut(text, "pod2-keys.samplecrd.k8s.io': "); ok {
		w.texts = append(w.texts, ours)
	}
}

// hearing returns a client of an administrator, or of a controller with all rights, and the warnings that it gets.
func hearing(t testing.TB, who rest.ImpersonationConfig) (dynamic.Interface, *warnings) {
	t.Helper()
	heard, c := &warnings{}, rest.CopyConfig(config)
	c.WarningHandler, c.Impersonate = heard, who
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client, heard
}

var (
	anAdministrator = rest.ImpersonationConfig{}
	aController     = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:maker", Groups: []string{"system:masters"}}
)

const podTemplate = `template: {metadata: {labels: {app: a%s}, annotations: {%s}}, spec: {restartPolicy: %s, containers: [{name: c, image: x}]}}`

// maker is a manifest of an object that creates pods, or of a pod.
func maker(kind, labels, annotations string) string {
	template := func(restart string) string { return fmt.Sprintf(podTemplate, labels, annotations, restart) }
	always, selector := template("Always"), "selector: {matchLabels: {app: a}}, "
	switch kind {
	case "Pod":
		return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: a%s}, annotations: {%s}}, spec: {schedulingGates: [{name: samplecrd.k8s.io/addresses}], containers: [{name: c, image: x}]}}", labels, annotations)
	case "Job":
		return fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {%s}}", template("Never"))
	case "CronJob":
		return fmt.Sprintf("{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: '@daily', jobTemplate: {spec: {%s}}}}", template("Never"))
	case "Pod2":
		return fmt.Sprintf("{apiVersion: samplecrd.k8s.io/v1, kind: Pod2, metadata: {name: a}, spec: {%s}}", always)
	case "StatefulSet":
		selector += "serviceName: a, "
	}
	return fmt.Sprintf("{apiVersion: apps/v1, kind: %s, metadata: {name: a}, spec: {%s%s}}", kind, selector, always)
}

// The policy warns of unread keys, on pods and on objects that create pods, and refuses
// none of them.
func TestUnknownKeysAreWarnedOf(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	run(t, "", "apply", "-f", filepath.Join(root, "artifacts/32-warnings.yaml"))
	client, heard := hearing(t, anAdministrator)
	admin := &user{name: "admin", namespace: ns, client: client}
	dryRun := func(manifest string) string {
		t.Helper()
		heard.texts = nil
		if why := admin.create(t, manifest); why != "" {
			t.Fatal(why)
		}
		return strings.Join(heard.texts, "; ")
	}
	const hint = ": pods ask for Networks with the annotation samplecrd.k8s.io/networks"
	eventually(t, "the policy is in force", func(context.Context) (string, error) {
		if dryRun(maker("Pod", "", "samplecrd.k8s.io/network: blue")) == "" {
			return "no warning", nil
		}
		return "", nil
	})
	for _, kind := range []string{"Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod2"} {
		for _, row := range []struct{ labels, annotations, want string }{
			{"", "samplecrd.k8s.io/networks: blue, example.com/network: x", ""},
			{"", "samplecrd.k8s.io/pod2-request: blue, samplecrd.k8s.io/pod2-labels: x, samplecrd.k8s.io/in-place-update: x", ""},
			{"", "samplecrd.k8s.io/network: blue", "nothing reads the annotation samplecrd.k8s.io/network" + hint},
			{"", "SampleCRD.k8s.io/Networks: blue", "nothing reads the annotation SampleCRD.k8s.io/Networks" + hint},
			{", samplecrd.k8s.io/networks: blue", "", "nothing reads the label samplecrd.k8s.io/networks" + hint},
			{", samplecrd.k8s.io/managed: \"true\"", "", ""},
			{", samplecrd.k8s.io/sidecars: disabled", "", ""},
		} {
			if kind != "Pod" && strings.Contains(row.labels, "managed") {
				continue // templates do not need this label
			}
			labels := row.labels
			if kind == "Pod" && strings.HasPrefix(row.annotations, "samplecrd.k8s.io/networks:") {
				labels = `, samplecrd.k8s.io/managed: "true"` // without mutating policies, pod2-pods requires it
			}
			if got := dryRun(maker(kind, labels, row.annotations)); got != row.want {
				t.Errorf("%s with labels %q and annotations %q: got %q, want %q", kind, row.labels, row.annotations, got, row.want)
			}
		}
	}
	ofController, told := hearing(t, aController)
	controller := &user{name: "controller", namespace: ns, client: ofController}
	for kind, want := range map[string]int{"Pod": 0, "ReplicaSet": 0, "Deployment": 1} {
		told.texts = nil
		if why := controller.create(t, maker(kind, "", "samplecrd.k8s.io/network: blue")); why != "" || len(told.texts) != want {
			t.Errorf("a controller creates a %s: refused %q, warnings %q, want %d", kind, why, told.texts, want)
		}
	}
	const cronTab = "{apiVersion: stable.example.com/v1, kind: CronTab, metadata: {name: a, %s}, spec: {cronSpec: '0 0 1 1 *', image: x, replicas: 1}}"
	const late = "the pod may already be running, so its annotation samplecrd.k8s.io/networks has no effect: recreate the pod with the annotation and without spec.nodeName"
	rows := []struct{ manifest, want string }{
		{fmt.Sprintf(cronTab, "labels: {samplecrd.k8s.io/networks: blue}"), "nothing reads the label samplecrd.k8s.io/networks: a CronTab asks for Networks with spec.networks"},
		{fmt.Sprintf(cronTab, "annotations: {samplecrd.k8s.io/networks: blue}"), "nothing reads the annotation samplecrd.k8s.io/networks: a CronTab asks for Networks with spec.networks"},
		{strings.Replace(maker("Deployment", "", ""), "{name: a}", "{name: a, annotations: {samplecrd.k8s.io/networks: blue}}", 1),
			"nothing reads the annotation samplecrd.k8s.io/networks of the object itself: set it in the metadata of the pod template"},
		{strings.Replace(maker("Pod", "", "samplecrd.k8s.io/networks: blue"), "schedulingGates: [{name: samplecrd.k8s.io/addresses}]", "nodeName: node-x", 1), late},
	}
	if !mutatingPolicies() {
		rows = rows[:len(rows)-1] // pod2-pods refuses the pod
	}
	for _, row := range rows {
		if got := dryRun(row.manifest); got != row.want {
			t.Errorf("%s: got %q, want %q", row.manifest, got, row.want)
		}
	}
	create(t, ns, "apiVersion: v1\nkind: Pod\nmetadata: {name: plain}\nspec: {containers: [{name: c, image: nginx}]}\n")
	heard.texts = nil
	patch := []byte(`{"metadata":{"annotations":{"samplecrd.k8s.io/networks":"blue"}}}`)
	told.texts = nil
	dryPatch := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := ofController.Resource(podsResource).Namespace(ns).Patch(t.Context(), "plain", types.MergePatchType, patch, dryPatch); err != nil || len(told.texts) > 0 {
		t.Errorf("a controller annotates a running pod: %v, warnings %q, want none", err, told.texts)
	}
	pods := client.Resource(podsResource).Namespace(ns)
	for range 2 { // the second request changes nothing
		patched, err := pods.Patch(t.Context(), "plain", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// This read waits until the server's cache has the change. The next request begins with the cache.
		if _, err := pods.Get(t.Context(), "plain", metav1.GetOptions{ResourceVersion: patched.GetResourceVersion()}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(heard.texts, "; "); got != late {
		t.Errorf("the annotation of a running pod: got %q, want %q", got, late)
	}
}

// An event reports a request that changes after the pod got its addresses.
func TestRequestThatChanges(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+network("green", `{cidr: 10.1.0.0/24}`)+gatedPod("served", "blue"))
	waitReady(t, ns, "pod/served")
	run(t, ns, "annotate", "pod", "served", "--overwrite", "samplecrd.k8s.io/networks=blue,green")
	eventually(t, "an event reports the change", func(context.Context) (string, error) {
		got, err := kubectl("-n", ns, "get", "events", "--field-selector=type=Warning,involvedObject.name=served", "-o", "jsonpath={range .items[*]}{.reason}: {.message}{end}")
		if strings.Contains(got, `RequestChanged: the pod keeps its addresses; its annotation samplecrd.k8s.io/networks changed to "blue,green", which has no effect`) {
			return "", err
		}
		return "got " + got, err
	})
}

// The benchmark measures the cost of the policy for each write of a pod, by a user and by a controller: the time in
// the API server's policy plugin, with and without the policy.
//
//	go test -tags=integration -run '^$' -bench PodWrite -benchtime 2000x -count 5 ./test/integration
func BenchmarkPodWrite(b *testing.B) {
	const file = "artifacts/32-warnings.yaml"
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Labels: map[string]string{"app.kubernetes.io/name": "a", "app.kubernetes.io/instance": "a", "pod-template-hash": "x"},
			Annotations: map[string]string{"example.com/checksum": "x", "samplecrd.k8s.io/networks": "blue"},
		},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "samplecrd.k8s.io/addresses"}}, Containers: []corev1.Container{{Name: "c", Image: "x"}},
		},
	}
	client, heard := hearing(b, anAdministrator)
	wrong, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		b.Fatal(err)
	}
	if err := unstructured.SetNestedField(wrong, "blue", "metadata", "annotations", "samplecrd.k8s.io/network"); err != nil {
		b.Fatal(err)
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, step := range []struct {
		name   string
		args   []string
		warned bool
	}{
		{"without", []string{"delete", "--ignore-not-found", "-f", filepath.Join(root, file)}, false},
		{"with", []string{"apply", "-f", filepath.Join(root, file)}, true},
	} {
		if out, err := kubectl(step.args...); err != nil {
			b.Fatal(out)
		}
		for inForce := !step.warned; inForce != step.warned; inForce = len(heard.texts) > 0 {
			heard.texts = nil
			if _, err := client.Resource(podsResource).Namespace("default").Create(b.Context(), &unstructured.Unstructured{Object: wrong}, dryRun); err != nil {
				b.Fatal(err)
			}
		}
		for name, who := range map[string]rest.ImpersonationConfig{"user": anAdministrator, "controller": aController} {
			b.Run(step.name+"/"+name, func(b *testing.B) {
				as := rest.CopyConfig(config)
				as.Impersonate, as.QPS = who, -1
				client := kubernetes.NewForConfigOrDie(as)
				calls, took := policiesTook(b, "ValidatingAdmissionPolicy")
				for b.Loop() {
					if _, err := client.CoreV1().Pods("default").Create(b.Context(), pod, dryRun); err != nil {
						b.Fatal(err)
					}
				}
				callsAfter, tookAfter := policiesTook(b, "ValidatingAdmissionPolicy")
				b.ReportMetric((tookAfter-took)*1e6/(callsAfter-calls), "µs/write")
			})
		}
	}
}

// policiesTook returns how often the API server called a plugin for a creation, and how many
// seconds the calls took.
func policiesTook(b *testing.B, plugin string) (calls, took float64) {
	b.Helper()
	page, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, match := range pluginTook.FindAllSubmatch(page, -1) {
		if string(match[2]) != plugin {
			continue
		}
		value, err := strconv.ParseFloat(string(match[3]), 64)
		if err != nil {
			b.Fatal(err)
		}
		if string(match[1]) == "count" {
			calls += value
		} else {
			took += value
		}
	}
	return calls, took
}

var pluginTook = regexp.MustCompile(`(?m)^apiserver_admission_controller_admission_duration_seconds_(count|sum)\{name="(\w+)",operation="CREATE".*\} (.+)$`)
