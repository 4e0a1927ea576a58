package main

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

func paused(p *v1.Pod2) { p.Spec.Paused = true }

// Each command has the right output, and adds and removes the right lines of the spec.
func TestChanges(t *testing.T) {
	const updated = "pod2.samplecrd.k8s.io/web image updated\n"
	for _, tt := range []struct {
		args    string
		pod2    *v1.Pod2
		want    string
		changes string
	}{
		{"pause web", web(), "pod2.samplecrd.k8s.io/web paused\n", "+ paused: true"},
		{"pause p2/web -o name", web(), "pod2.samplecrd.k8s.io/web\n", "+ paused: true"},
		{"pause web", web(paused), "pod2.samplecrd.k8s.io/web already paused\n", ""},
		{"resume pod2s.samplecrd.k8s.io/web", web(paused), "pod2.samplecrd.k8s.io/web resumed\n", "- paused: true"},
		{"resume web", web(), "pod2.samplecrd.k8s.io/web not paused\n", ""},
		{"restart web", web(), "pod2.samplecrd.k8s.io/web restarted\n",
			`+ annotations: + kubectl.kubernetes.io/restartedAt: "2026-01-02T15:04:05Z" + metadata: - metadata: {}`},
		{"restart web", web(paused), "! restart Pod2 default/web: its updates are paused: run `kubectl pod2 resume web` first\n", ""},
		{"restart web", web(func(p *v1.Pod2) {
			p.Spec.Template.Annotations = map[string]string{restartedAt: "2026-01-02T15:04:05Z"}
		}), "! restart Pod2 default/web: it was already restarted within this second\n", ""},
		{"set image web app=nginx:4", web(), updated, "+ - image: nginx:4 - - image: nginx:3"},
		{"set image web init=busybox:2 app=nginx:4 app=nginx:5", web(), updated,
			"+ - image: busybox:2 + - image: nginx:5 - - image: busybox:1 - - image: nginx:3"},
		{"set image web *=x", web(), updated, "+ - image: x + - image: x + - image: x - - image: busybox:1 - - image: envoy:1 - - image: nginx:3"},
		{"set image web app=nginx:3", web(), "pod2.samplecrd.k8s.io/web image unchanged\n", ""},
		{"set image web db=x app=y", web(), "! set the image of Pod2 default/web: the template has no container \"db\"; it has init, app, side\n", ""},
		{"set image web app", web(), "! set the image of Pod2 default/web: argument \"app\" must be CONTAINER=IMAGE\n", ""},
		{"set image web", web(), "! requires at least 2 arg(s), only received 1; usage: kubectl pod2 set image NAME CONTAINER=IMAGE... [flags]\n", ""},
		{"pause deployment/web", web(), "! \"deployment/web\" is not a Pod2: write NAME or pod2/NAME\n", ""},
		{"pause db", web(), "! get Pod2 default/db: pod2s.samplecrd.k8s.io \"db\" not found\n", ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			w := newWorld(t, tt.pod2)
			before := w.spec()
			requireText(t, w.run(strings.Fields(tt.args)...), tt.want)
			requireText(t, changed(before, w.spec()), tt.changes)
		})
	}
}

// changed returns the added and removed lines, sorted.
func changed(before, after string) string {
	count := map[string]int{}
	for line := range strings.Lines(before) {
		count["- "+strings.TrimSpace(line)]++
	}
	for line := range strings.Lines(after) {
		if line = strings.TrimSpace(line); count["- "+line] > 0 {
			count["- "+line]--
		} else {
			count["+ "+line]++
		}
	}
	var lines []string
	for line, n := range count {
		for range n {
			lines = append(lines, line)
		}
	}
	return strings.Join(sorted(lines), " ")
}

// The user does not notice a concurrent write of the status. A concurrent change of the
// spec is an error.
func TestConflicts(t *testing.T) {
	for _, tt := range []struct {
		name       string
		generation int64
		want       string
	}{
		{"status", 3, "pod2.samplecrd.k8s.io/web paused\n"},
		{"spec", 4, "! pause Pod2 default/web: another client changed its spec at the same time: check it and run the command again\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, web())
			met := false
			w.sample.PrependReactor("patch", "pod2s", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if body := string(action.(clienttesting.PatchAction).GetPatch()); !strings.Contains(body, `"resourceVersion":"1"`) {
					t.Errorf("the patch has no precondition: %s", body)
				}
				if met {
					return false, nil, nil
				}
				met = true
				changed := web(func(p *v1.Pod2) { p.Generation = tt.generation })
				if err := w.sample.Tracker().Update(v1.Resource("pod2s").WithVersion(v1.GroupVersion.Version), changed, "default"); err != nil {
					t.Fatal(err)
				}
				return true, nil, apierrors.NewConflict(v1.Resource("pod2s"), "web", nil)
			})
			requireText(t, w.run("pause", "web"), tt.want)
		})
	}
}

func TestUndo(t *testing.T) {
	// There are three revisions: nginx:1 with a Service and without networks, nginx:2 on blue
	// and green, and nginx:3.
	first := web(withImage("nginx:1"), func(p *v1.Pod2) {
		p.Spec.Networks, p.Spec.ServiceName = nil, "db"
		p.Annotations = map[string]string{pod2.ChangeCauseAnnotation: "the first"}
	})
	second := web(withImage("nginx:2"), func(p *v1.Pod2) { p.Spec.Networks = []v1.Pod2Network{{Name: "green"}, {Name: "blue"}} })
	other := web(func(p *v1.Pod2) {
		p.Spec.Networks = []v1.Pod2Network{{Name: "blue", Interface: "eth0", Addresses: []v1.Address{"10.0.0.9"}}}
	})
	for _, tt := range []struct{ args, want, changes string }{
		{"undo web", "pod2.samplecrd.k8s.io/web rolled back to revision 2\n", "+ - image: nginx:2 + - name: blue + - name: green - - 10.0.0.5 - - addresses: - - image: nginx:3 - name: blue"},
		{"undo web --to-revision=1", "pod2.samplecrd.k8s.io/web rolled back to revision 1\n",
			"+ - image: nginx:1 + serviceName: db - - 10.0.0.5 - - addresses: - - image: nginx:3 - name: blue - networks:"},
		{"undo web --to-revision=3", "pod2.samplecrd.k8s.io/web unchanged: the spec already matches revision 3\n", ""},
		{"undo web --to-revision=7", "! undo Pod2 default/web: revision 7 not found: choose one of 1, 2, 3\n", ""},
	} {
		t.Run(tt.args, func(t *testing.T) {
			w := newWorld(t, web(), revisionOf(first, 1), revisionOf(second, 2), revisionOf(web(), 3))
			before := w.spec()
			requireText(t, w.run(strings.Fields(tt.args)...), tt.want)
			requireText(t, changed(before, w.spec()), tt.changes)
			p, err := w.sample.SamplecrdV1().Pod2s("default").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got, is := p.Annotations[pod2.ChangeCauseAnnotation], strings.Contains(tt.want, "to revision 1"); is != (got == "the first") {
				t.Errorf("the change cause is %q", got)
			}
		})
	}
	t.Run("to another interface and address", func(t *testing.T) {
		w := newWorld(t, web(), revisionOf(other, 1), revisionOf(web(), 2))
		before := w.spec()
		requireText(t, w.run("undo", "web"), "pod2.samplecrd.k8s.io/web rolled back to revision 1\n")
		requireText(t, changed(before, w.spec()), "+ - 10.0.0.9 + interface: eth0 - - 10.0.0.5")
	})
	t.Run("to a revision with an interface in its annotation", func(t *testing.T) {
		earlier := revisionOf(web(func(p *v1.Pod2) { p.Spec.Networks = []v1.Pod2Network{{Name: "blue"}} }), 1)
		earlier.Annotations[v1.RevisionNetworksAnnotation] = `[{"name":"blue","interface":"eth0"}]`
		w := newWorld(t, web(), earlier, revisionOf(web(), 2))
		before := w.spec()
		requireText(t, w.run("undo", "web"), "pod2.samplecrd.k8s.io/web rolled back to revision 1\n")
		requireText(t, changed(before, w.spec()), "+ - interface: eth0 - - 10.0.0.5 - - addresses:")
	})
	t.Run("while updates are paused", func(t *testing.T) {
		w := newWorld(t, web(func(p *v1.Pod2) { p.Spec.Paused = true }), revisionOf(second, 2), revisionOf(web(), 3))
		requireText(t, w.run("undo", "web"), "pod2.samplecrd.k8s.io/web rolled back to revision 2, but updates are paused: resume to roll it out\n")
	})
	t.Run("without history", func(t *testing.T) {
		w := newWorld(t, web(), revisionOf(web(), 1))
		requireText(t, w.run("undo", "web"), "! undo Pod2 default/web: no earlier revision exists\n")
	})
}
