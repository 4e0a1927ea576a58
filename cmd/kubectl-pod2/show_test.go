package main

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/pod2"
)

func sorted(lines []string) []string { return slices.Sorted(slices.Values(lines)) }

func progressing(reason, message string) func(*v1.Pod2) {
	return func(p *v1.Pod2) {
		p.Status.UpdatedReplicas = 1
		p.Status.Conditions = []metav1.Condition{{Type: v1.ConditionProgressing, Reason: reason, Message: message}}
	}
}

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		name, args string
		pod2       *v1.Pod2
		want       string
	}{
		{"complete", "status web", web(), "Pod2 default/web is rolled out: 2 of 2 replicas are updated, 2 available\n"},
		{"partition", "status web", web(progressing(pod2.ReasonComplete, "")),
			"Pod2 default/web is rolled out as far as its updateStrategy has it: 1 of 2 replicas are updated, 2 available\n"},
		{"deadline", "status web", web(progressing(pod2.ReasonProgressDeadlineExceeded, "no progress for 600 seconds: web-1 is not ready")),
			"1 of 2 replicas are updated, 2 available\n! Pod2 default/web exceeded its progress deadline: no progress for 600 seconds: web-1 is not ready\n"},
		{"deadline, once", "status web -w=false", web(progressing(pod2.ReasonProgressDeadlineExceeded, "no progress")),
			"1 of 2 replicas are updated, 2 available\n! Pod2 default/web exceeded its progress deadline: no progress\n"},
		{"under way, once", "status web --watch=false", web(progressing(pod2.ReasonProgressing, "1 of 2 replicas are updated; web-1 is not ready")),
			"Waiting: 1 of 2 replicas are updated, 2 available; web-1 is not ready ...\n"},
		{"a surge replica is no updated one", "status web --watch=false", web(progressing(pod2.ReasonProgressing, "0 of 2 replicas are updated; web-2 is not ready")),
			"Waiting: 0 of 2 replicas are updated, 2 available; web-2 is not ready ...\n"},
		{"scaled down", "status web --watch=false", web(progressing(pod2.ReasonProgressing, "web-2 is terminating")),
			"Waiting: 1 of 2 replicas are updated, 2 available; web-2 is terminating ...\n"},
		{"paused, timeout", "status web --timeout=10ms", web(progressing(pod2.ReasonPaused, "")),
			"Paused, until `kubectl pod2 resume web`: 1 of 2 replicas are updated, 2 available\n! not complete after 10ms: Pod2 default/web\n"},
		{"not observed", "status web --watch=false", web(func(p *v1.Pod2) { p.Generation = 4 }), "Waiting for the controller to observe the spec ...\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireText(t, newWorld(t, tt.pod2).run(strings.Fields(tt.args)...), tt.want)
		})
	}
}

func TestHistory(t *testing.T) {
	cause := func(p *v1.Pod2) { p.Annotations = map[string]string{pod2.ChangeCauseAnnotation: "newer nginx"} }
	old, latest := revisionOf(web(withImage("nginx:2")), 1), revisionOf(web(cause), 2)
	w := newWorld(t, web(func(p *v1.Pod2) { p.Status.CurrentRevision = old.Name }), old, latest)
	for _, tt := range []struct{ args, want string }{
		{"history web", `
REVISION   NAME             ROLE      CHANGE-CAUSE   AGE
1          ` + old.Name + `   current   <none>         9h
2          ` + latest.Name + `   update    newer nginx    8h
`},
		{"history web -o name", "controllerrevision.apps/" + old.Name + "\ncontrollerrevision.apps/" + latest.Name + "\n"},
		{"history web --revision=1 -o jsonpath={.metadata.name}", old.Name},
		{"history web --revision=2", `
# Pod2 default/web, revision 2 (` + latest.Name + `)
networks:
- addresses:
  - 10.0.0.5
  name: blue
serviceName: ""
template:
  spec:
    containers:
    - image: nginx:3
      name: app
    - image: envoy:1
      name: side
    initContainers:
    - image: busybox:1
      name: init

# What it changed:
--- revision 1
+++ revision 2
@@ -6,7 +6,7 @@
 template:
   spec:
     containers:
-    - image: nginx:2
+    - image: nginx:3
       name: app
     - image: envoy:1
       name: side
`},
		{"history web --revision=5", "! Pod2 default/web: there is no revision 5; there are 1, 2\n"},
	} {
		t.Run(tt.args, func(t *testing.T) { requireText(t, w.run(strings.Fields(tt.args)...), tt.want) })
	}
}

func TestAddresses(t *testing.T) {
	objects := []runtime.Object{
		block("green-10.1.0.0", "green", "10.1.0.0/24", "10.1.0.3=Bound:job-x"),
		block("blue-10.0.1.0", "blue", "10.0.1.0/24", "10.0.1.0=Bound:web-2"),
		block("blue-10.0.0.0", "blue", "10.0.0.0/24", "10.0.0.10=Resting:web-9", "10.0.0.2=Bound:web-0", "10.0.0.3=Reserved:web-1"),
		newNetwork("blue", "10.0.0.0/23"), newNetwork("green", "10.1.0.0/28"),
	}
	green := objects[len(objects)-1].(*v1.Network)
	green.Spec.OnRequest = []v1.AddressRange{"10.1.0.3-10.1.0.5"}
	green.Status.CIDRs = []string{"10.1.0.0/29", "10.1.0.0/28"}
	for _, tt := range []struct{ args, want string }{
		{"addresses", `
NETWORK   ADDRESS     STATE      POD     OWNER      SINCE
blue      10.0.0.2    Bound      web-0   Pod2/web   60s
blue      10.0.0.3    Reserved   web-1   Pod2/web   60s
blue      10.0.0.10   Resting    web-9   Pod2/web   60s
blue      10.0.1.0    Bound      web-2   Pod2/web   60s
green     10.1.0.3    Bound      job-x   <none>     60s
`},
		{"addresses green", `
NETWORK   ADDRESS    STATE   POD     OWNER    SINCE
green     10.1.0.3   Bound   job-x   <none>   60s
`},
		{"addresses blue -o name", "addressblock.samplecrd.k8s.io/blue-10.0.0.0\naddressblock.samplecrd.k8s.io/blue-10.0.1.0\n"},
		{"addresses -o jsonpath={.kind}/{.items[*].kind}", "List/AddressBlock AddressBlock AddressBlock"},
		{"addresses red", "! get Network default/red: networks.samplecrd.k8s.io \"red\" not found\n"},
		{"addresses --map", `
blue 10.0.0.0/24   1 bound, 1 reserved, 1 resting, 251 free
       10.0.0.0  xx#=......~.....................................................
      10.0.0.64  ................................................................
     10.0.0.128  ................................................................
     10.0.0.192  ................................................................
blue 10.0.1.0/24   1 bound, 0 reserved, 0 resting, 254 free
       10.0.1.0  #...............................................................
      10.0.1.64  ................................................................
     10.0.1.128  ................................................................
     10.0.1.192  ...............................................................x
green 10.1.0.0/24   1 bound, 0 reserved, 0 resting, 9 free, 2 free on request
       10.1.0.0  xx.#::.x.......x________________________________________________
      10.1.0.64  ________________________________________________________________
     10.1.0.128  ________________________________________________________________
     10.1.0.192  ________________________________________________________________

  # bound      = reserved for a replica      ~ resting
  . free       : free, only for pods that ask for it by name
  x never handed out                         _ outside the Network
`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			requireText(t, newWorld(t, objects...).run(strings.Fields(tt.args)...), tt.want)
		})
	}
	requireText(t, newWorld(t).run("addresses"), "! No address is held in namespace default.\n")
}

func TestCompletion(t *testing.T) {
	w := newWorld(t, web(), newNetwork("blue", "10.0.0.0/24"))
	for args, want := range map[string]string{
		"__complete undo w":         "web\n:4\n",
		"__complete undo web w":     ":4\n",
		"__complete addresses ":     "blue\n:4\n",
		"__complete set image web ": "init=\napp=\nside=\n:6\n",
	} {
		got, _, _ := strings.Cut(w.run(strings.Split(args, " ")...), "! ")
		requireText(t, got, want)
	}
}
