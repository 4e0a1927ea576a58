package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/pod2/dns"
)

const manifest = `
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: web%s}
spec: {template: {spec: {containers: [{name: app, image: "nginx:4"}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
`

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "new.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// replica of web as the controller creates it, ready for an hour.
func replica(p *v1.Pod2, index int) *corev1.Pod {
	pod := pod2.Diff(pod2.State{Now: now, Pod2: p}).Create[index].Pod()
	pod.UID = "u-pod"
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-3600e9)),
	}}
	return pod
}

func TestPlan(t *testing.T) {
	file := write(t, fmt.Sprintf(manifest, ""))
	planned := func(t *testing.T, after *v1.Pod2, objects ...runtime.Object) *world {
		w := newWorld(t, append(objects, newNetwork("blue", "10.0.0.0/24"))...)
		w.dryRuns("pod2s", after)
		return w
	}
	existing := []runtime.Object{web(), revisionOf(web(), 1), replica(web(), 0), replica(web(), 1)}
	after := web(withImage("nginx:4"), func(p *v1.Pod2) {
		p.Spec.Networks[0].Addresses = []v1.Address{"10.0.0.5", "10.0.0.9"}
	})
	refused := web(func(p *v1.Pod2) { p.Spec.Networks[0].Addresses = []v1.Address{"10.0.0.255"} })
	for _, tt := range []struct {
		name, args string
		world      *world
		actions    string // the lines with two spaces in front, except the status
		addresses  string
	}{
		{"a change", "plan -f " + file, planned(t, after, append(existing,
			block("blue-10.0.0.0", "blue", "10.0.0.0/24", "10.0.0.5=Bound:web-0", "10.0.0.9=Resting:job-x"))...),
			"create revision 2 " + revisionOf(after, 2).Name + "\n  delete web-1 (uid u-pod): request for addresses changed from \"blue\" to \"blue=10.0.0.9\"\n  status",
			"Addresses of the replicas:\n  web-1 asks for 10.0.0.9 on blue, which job-x has (Resting, owner <none>)\n  1 address is kept\n"},
		{"a creation", "plan -f " + file, planned(t, refused),
			"create revision 1 " + revisionOf(refused, 1).Name + "\n  create web-0 on blue=10.0.0.255: missing\n  create web-1 on blue: missing\n  status",
			"Addresses of the replicas:\n  web-0 asks for 10.0.0.255 on blue, but it is the broadcast address\n  1 replica gets any free address on blue\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.world.run(strings.Fields(tt.args)...)
			what := map[string]string{"a change": "configured", "a creation": "created"}[tt.name]
			if want := "Pod2 default/web would be " + what + ". The first step of the controller would be:\n  " + tt.actions; !strings.HasPrefix(got, want) {
				t.Errorf("got\n%s\nwant first\n%s", got, want)
			}
			if want := tt.addresses + "! ignored: Service/web\n"; !strings.HasSuffix(got, want) {
				t.Errorf("got\n%s\nwant last\n%s", got, want)
			}
			requireStatus(t, tt.world, 1)
		})
	}
	t.Run("force without server-side apply", func(t *testing.T) {
		requireText(t, newWorld(t).run("plan", "-f", file, "--force-conflicts"), "! --force-conflicts only works with --server-side\n")
	})
	t.Run("nothing to do", func(t *testing.T) {
		settled := web()
		settled.Status = *pod2.Diff(pod2.State{Now: now, Pod2: settled, Revisions: nil, Pods: []*corev1.Pod{replica(web(), 0), replica(web(), 1)},
			Networks: []*v1.Network{newNetwork("blue", "10.0.0.0/24")}}).Status
		service := dns.Diff(dns.State{Now: now, Pod2: settled}).Services[0].Create
		settled.Status = *dns.Diff(dns.State{Now: now, Pod2: settled, Services: []*corev1.Service{service}}).Status
		w := planned(t, settled, settled, revisionOf(web(), 1), replica(web(), 0), replica(web(), 1), service)
		requireText(t, w.run("plan", "-f", file), `
Pod2 default/web would be unchanged, and the controller would do nothing.
Addresses of the replicas:
  web-0 asks for 10.0.0.5 on blue
  1 replica gets any free address on blue
! ignored: Service/web
`)
		requireStatus(t, w, 0)
		// The Service is missing, so only the plan for DNS names has an action.
		w = planned(t, settled, settled, revisionOf(web(), 1), replica(web(), 0), replica(web(), 1))
		if got, want := w.run("plan", "-f", file), "Pod2 default/web would be unchanged. The first step of the controller would be:\n  create Service web-blue\nAddr"; !strings.HasPrefix(got, want) {
			t.Errorf("without the Service: got\n%s\nwant first\n%s", got, want)
		}
		requireStatus(t, w, 1)
		// A replica is missing, so only the plan for replicas has an action.
		w = planned(t, settled, settled, revisionOf(web(), 1), replica(web(), 0), service)
		if got := w.run("plan", "-f", file); !strings.Contains(got, "\n  create web-1 ") || strings.Contains(got, "Service web-blue") {
			t.Errorf("without a replica: got\n%s\nwant only web-1 to be created", got)
		}
		requireStatus(t, w, 1)
		// The controller would do nothing, but the apply changes an annotation of the Pod2.
		labelled := settled.DeepCopy()
		labelled.Annotations = map[string]string{"example.com/note": "x"}
		w = planned(t, labelled, settled, revisionOf(web(), 1), replica(web(), 0), replica(web(), 1), service)
		if got, want := w.run("plan", "-f", file), "Pod2 default/web would be configured, and the controller would do nothing.\n"; !strings.HasPrefix(got, want) {
			t.Errorf("with an annotation: got\n%s\nwant first\n%s", got, want)
		}
		requireStatus(t, w, 1)
	})
	t.Run("DNS names", func(t *testing.T) {
		pod := replica(web(), 0)
		pod.Spec.SchedulingGates = nil
		pod.Annotations[v1.AddressesAnnotation] = `{"blue":{"address":"10.0.0.5/24"}}`
		names := dns.State{Now: now, Pod2: web(), Pods: []*corev1.Pod{pod}}
		service := dns.Diff(names).Services[0].Create
		names.Services = []*corev1.Service{service}
		slice := dns.Diff(names).Services[0].CreateSlices[0]
		foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-red"}}
		w := planned(t, web(func(p *v1.Pod2) { p.Spec.Networks = []v1.Pod2Network{{Name: "green"}, {Name: "red"}} }),
			web(), revisionOf(web(), 1), pod, replica(web(), 1), service, slice, foreign)
		_, got, _ := strings.Cut(w.run("plan", "-f", file), "  again in 10m0s\n")
		requireText(t, got, `
  create Service web-green
  status
      DNSPublished=False/NameTaken(Service web-red already exists and has no controller: delete it so that replicas can have DNS names on Network red)
The first pod, in a server dry run with your rights and not the controller's:
  web-0 would be accepted as the replacement of the existing pod
Addresses of the replicas:
  2 replicas get any free address on green, which does not exist
  2 replicas get any free address on red, which does not exist
! ignored: Service/web
`)
		w = planned(t, web(func(p *v1.Pod2) { p.Spec.Networks = nil }), web(), revisionOf(web(), 1), pod, replica(web(), 1), service, slice)
		if got, want := w.run("plan", "-f", file), "\n      DNSPublished=True/Published(each replica has a DNS name for each of its addresses: <replica>.web-blue (until the last replica has left Network blue))\n"; !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant in it%s", got, want)
		}
	})
	t.Run("in the status, a line for each condition", func(t *testing.T) {
		names := dns.State{Now: now, Pod2: web()}
		names.Services = []*corev1.Service{dns.Diff(names).Services[0].Create}
		got := planText(outcome[*v1.Pod2]{after: web()}, pod2.Diff(pod2.State{Now: now, Pod2: web()}), dns.Diff(names))
		for _, want := range []string{"\n  status ready 0/0 ", "\n      Ready=False/NetworkNotFound(", "\n      Available=", "\n      Progressing=True/", "\n  status\n      DNSPublished=Unknown/"} {
			if !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwant %q in it", got, want)
			}
		}
	})
}

// Before a migration, the plan says for each pod of the StatefulSet whether the Pod2
// would adopt it. It does not advise to delete any.
func TestPlanOfAMigration(t *testing.T) {
	p := web(func(p *v1.Pod2) { p.Spec.Networks = nil })
	pods := []runtime.Object{replica(p, 0), replica(p, 1)}
	for _, object := range pods {
		pod := object.(*corev1.Pod)
		pod.Labels = nil
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u-set", Controller: ptr.To(true)}}
	}
	pods[1].(*corev1.Pod).Spec.Containers[0].Image = "nginx:2"
	w := newWorld(t, pods...)
	w.dryRuns("pod2s", p)
	got := w.run("plan", "-f", write(t, fmt.Sprintf(manifest, "")))
	_, after, _ := strings.Cut(got, "Pods of other")
	requireText(t, after, ` controllers, once those are deleted with --cascade=orphan:
  web-0 of StatefulSet/web would be adopted
  web-1 of StatefulSet/web would not be adopted: it differs from the template in spec.containers[app].image (the pod has "nginx:2", the template "nginx:3")
! ignored: Service/web
`)
	if strings.Contains(got, "delete it") {
		t.Errorf("it advises to delete pods:\n%s", got)
	}
}

func TestPlanRefuses(t *testing.T) {
	for _, tt := range []struct{ name, manifest, want string }{
		{"another namespace", fmt.Sprintf(manifest, ", namespace: other"), "! Pod2/web is in namespace other, but --namespace is default: they must match\n"},
		{"no Pod2", "apiVersion: v1\nkind: Service\nmetadata: {name: web}", "! ignored: Service/web\n! no Pod2 found in the files\n"},
		{"no name", "apiVersion: samplecrd.k8s.io/v1\nkind: Pod2\nmetadata: {generateName: web-}", "has no name: set metadata.name\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.enforced = true
			if got := w.run("plan", "-f", write(t, tt.manifest)); !strings.HasSuffix(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			requireStatus(t, w, 2)
		})
	}
	w := newWorld(t)
	requireText(t, w.run("plan"), "! must specify one of -f FILENAME and -k DIRECTORY\n")
	requireStatus(t, w, 2)
	requireText(t, w.run("plan", "--no-such-flag"), "! unknown flag: --no-such-flag\n")
	requireStatus(t, w, 2)
	requireText(t, w.run("status"), "! accepts 1 arg(s), received 0; usage: kubectl pod2 status NAME [flags]\n")
	requireStatus(t, w, 1)
}

// requireStatus checks the exit status of the last command.
func requireStatus(t *testing.T, w *world, want int) {
	t.Helper()
	if w.status != want {
		t.Errorf("exit status %d, want %d", w.status, want)
	}
}

// The plan sends the same patch as `kubectl apply`. The patch removes fields that the file
// no longer has, and keeps fields that another manager added.
func TestDryRunIsAnApply(t *testing.T) {
	live := web(func(p *v1.Pod2) {
		p.Spec.MinReadySeconds = 5
		p.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"metadata":{"annotations":{}},"spec":{"replicas":2,"template":{}}}`}
	})
	w := newWorld(t, live)
	w.dryRuns("pod2s", live)
	w.run("plan", "-f", write(t, fmt.Sprintf(manifest, "")))
	for _, action := range w.sample.Actions() {
		patch, ok := action.(clienttesting.PatchActionImpl)
		if !ok {
			continue
		}
		body := string(patch.Patch)
		if !strings.Contains(body, `"replicas":null`) || !strings.Contains(body, `"image":"nginx:4"`) ||
			strings.Contains(body, "minReadySeconds") || strings.Contains(body, `"annotations":null`) {
			t.Errorf("the patch is %s", body)
		}
		return
	}
	t.Error("no patch")
}
