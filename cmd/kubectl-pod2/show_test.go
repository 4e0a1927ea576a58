package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

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
			"Pod2 default/web is rolled out as far as its updateStrategy allows: 1 of 2 replicas are updated, 2 available\n"},
		{"deadline", "status web", web(progressing(pod2.ReasonProgressDeadlineExceeded, "no progress for 600 seconds: web-1 is not ready")),
			"1 of 2 replicas are updated, 2 available\n! Pod2 default/web exceeded its progress deadline: no progress for 600 seconds: web-1 is not ready\n"},
		{"deadline, once", "status web -w=false", web(progressing(pod2.ReasonProgressDeadlineExceeded, "no progress")),
			"1 of 2 replicas are updated, 2 available\n! Pod2 default/web exceeded its progress deadline: no progress\n"},
		{"progressing, once", "status web --watch=false", web(progressing(pod2.ReasonProgressing, "1 of 2 replicas are updated; web-1 is not ready")),
			"Waiting: 1 of 2 replicas are updated, 2 available; web-1 is not ready ...\n"},
		{"a surge replica does not count as updated", "status web --watch=false", web(progressing(pod2.ReasonProgressing, "0 of 2 replicas are updated; web-2 is not ready")),
			"Waiting: 0 of 2 replicas are updated, 2 available; web-2 is not ready ...\n"},
		{"scaled down", "status web --watch=false", web(progressing(pod2.ReasonProgressing, "web-2 is terminating")),
			"Waiting: 1 of 2 replicas are updated, 2 available; web-2 is terminating ...\n"},
		{"paused, timeout", "status web --timeout=10ms", web(progressing(pod2.ReasonPaused, "")),
			"Paused (run `kubectl pod2 resume web` to continue): 1 of 2 replicas are updated, 2 available\n! timed out after 10ms waiting for Pod2 default/web\n"},
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

# Changes since the previous revision:
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
		{"history web --revision=5", "! Pod2 default/web: revision 5 not found: choose one of 1, 2\n"},
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
	blue, green := objects[len(objects)-2].(*v1.Network), objects[len(objects)-1].(*v1.Network)
	blue.Spec.ReuseDelaySeconds = ptr.To[int32](360)
	green.Spec.OnRequest = []v1.AddressRange{"10.1.0.3-10.1.0.5"}
	green.Status.CIDRs = []string{"10.1.0.0/29", "10.1.0.0/28"}
	for _, tt := range []struct{ args, want string }{
		{"addresses", `
NETWORK   ADDRESS     STATE      POD     OWNER      SINCE   FREE-IN
blue      10.0.0.2    Bound      web-0   Pod2/web   60s     -
blue      10.0.0.3    Reserved   web-1   Pod2/web   60s     -
blue      10.0.0.10   Resting    web-9   Pod2/web   60s     5m
blue      10.0.1.0    Bound      web-2   Pod2/web   60s     -
green     10.1.0.3    Bound      job-x   <none>     60s     -
`},
		{"addresses green", `
NETWORK   ADDRESS    STATE   POD     OWNER    SINCE   FREE-IN
green     10.1.0.3   Bound   job-x   <none>   60s     -
`},
		{"addresses blue -o name", "addressblock.samplecrd.k8s.io/blue-10.0.0.0\naddressblock.samplecrd.k8s.io/blue-10.0.1.0\n"},
		{"addresses -o jsonpath={.kind}/{.items[*].kind}", "List/AddressBlock AddressBlock AddressBlock"},
		{"addresses red", "! get Network default/red: networks.samplecrd.k8s.io \"red\" not found\n"},
		{"addresses --map", `
blue 10.0.0.0/23   2 bound, 1 reserved, 1 resting, 505 free
       10.0.0.0  xx#=......~.....................................................
      10.0.0.64  ................................................................
     10.0.0.128  ................................................................
     10.0.0.192  ................................................................
       10.0.1.0  #...............................................................
      10.0.1.64  ................................................................
     10.0.1.128  ................................................................
     10.0.1.192  ...............................................................x
green 10.1.0.0/28   1 bound, 0 reserved, 0 resting, 9 free, 2 free on request
       10.1.0.0  xx.#::.x.......x________________________________________________

  # bound      = reserved for a replica      ~ resting
  . free       : free, only for pods that ask for it by name
  x never handed out                         _ outside the Network
`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			requireText(t, newWorld(t, objects...).run(strings.Fields(tt.args)...), tt.want)
		})
	}
	w := newWorld(t, newNetwork("blue", "10.0.0.0/24"), block("blue-10.0.0.0", "blue", "10.0.0.0/24"))
	requireText(t, w.run("addresses"), "! No addresses are in use in namespace default.\n")
	requireText(t, w.run("addresses", "blue"), "! No addresses of Network default/blue are in use.\n")
	requireText(t, w.run("addresses", "--map", "-o", "yaml"), "! --map and -o cannot be combined: leave one out\n")
	requireText(t, newWorld(t).run("addresses", "--map"), "! No Networks found in namespace default.\n")
}

func TestAddressesOfAllNamespaces(t *testing.T) {
	other := block("blue-10.0.0.0", "blue", "10.0.0.0/24", "10.0.0.2=Resting:web-0")
	short := newNetwork("blue", "10.0.0.0/29")
	short.Spec.ReuseDelaySeconds = ptr.To[int32](90)
	other.Namespace, short.Namespace = "apps", "apps"
	long := newNetwork("blue", "10.0.0.0/29") // the same UID, as a check that namespaces differ
	long.Spec.ReuseDelaySeconds = ptr.To[int32](360)
	green := block("green-10.1.0.0", "green", "10.1.0.0/24", "10.1.0.2=Bound:job-y")
	green.Namespace = "apps"
	w := newWorld(t, short, long, block("blue-10.0.0.0", "blue", "10.0.0.0/24", "10.0.0.3=Resting:job-x"), other, green)
	const list = `
NAMESPACE   NETWORK   ADDRESS    STATE     POD     OWNER      SINCE   FREE-IN
apps        blue      10.0.0.2   Resting   web-0   Pod2/web   60s     30s
apps        green     10.1.0.2   Bound     job-y   <none>     60s     -
default     blue      10.0.0.3   Resting   job-x   <none>     60s     5m
`
	requireText(t, w.run("addresses", "-A"), list)
	requireText(t, w.run("addresses", "--all-namespaces"), list)
	requireText(t, w.run("addresses", "-A", "-o", "jsonpath={.items[*].metadata.namespace}"), "apps apps default")
	requireText(t, w.run("addresses", "-A", "--map"), `
apps/blue 10.0.0.0/29   0 bound, 0 reserved, 1 resting, 4 free
       10.0.0.0  xx~....x________________________________________________________
apps/green (deleted)   1 bound, 0 reserved, 0 resting, 0 free
       10.1.0.0  __#_____________________________________________________________
default/blue 10.0.0.0/29   0 bound, 0 reserved, 1 resting, 4 free
       10.0.0.0  xx.~...x________________________________________________________
`+legend)
	requireText(t, w.run("addresses", "blue", "-A"), "! NETWORK and --all-namespaces cannot be combined: name the namespace of the Network with -n\n")
	requireText(t, newWorld(t).run("addresses", "-A"), "! No addresses are in use in any namespace.\n")
}

// The heading has the CIDR of the Network. Its numbers include addresses that no
// AddressBlock records yet.
func TestMapOfOneNetwork(t *testing.T) {
	row := func(first string, width int, marks string) string {
		return fmt.Sprintf("%*s  %s%s\n", width, first, marks, strings.Repeat(".", perRow-len(marks)))
	}
	four := func(first, second, third, fourth string, width int, marks string) string {
		return row(first, width, marks) + row(second, width, "") + row(third, width, "") + row(fourth, width, "")
	}
	v6 := len("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")
	for _, tt := range []struct {
		cidr, block, entry string
		want               string
	}{
		{"10.0.0.8/29", "10.0.0.0/24", "10.0.0.10=Bound:web-0", `
blue 10.0.0.8/29   1 bound, 0 reserved, 0 resting, 4 free
       10.0.0.0  ________xx#....x________________________________________________
`},
		{"10.0.0.8/29", "", "", `
blue 10.0.0.8/29   0 bound, 0 reserved, 0 resting, 5 free
       10.0.0.0  ________xx.....x________________________________________________
`},
		{"10.0.0.0/16", "10.0.0.0/24", "10.0.0.2=Bound:web-0", "blue 10.0.0.0/16   1 bound, 0 reserved, 0 resting, 65532 free\n" +
			four("10.0.0.0", "10.0.0.64", "10.0.0.128", "10.0.0.192", 15, "xx#") + "  65279 more are free, in AddressBlocks that do not exist yet\n"},
		{"fd00::/112", "fd00::/120", "fd00::2=Reserved:web-0", "blue fd00::/112   0 bound, 1 reserved, 0 resting, 65533 free\n" +
			four("fd00::", "fd00::40", "fd00::80", "fd00::c0", v6, "xx=") + "  65280 more are free, in AddressBlocks that do not exist yet\n"},
		{"fd00::/64", "", "", "blue fd00::/64   0 bound, 0 reserved, 0 resting, about 2^64 free\n" +
			four("fd00::", "fd00::40", "fd00::80", "fd00::c0", v6, "xx") + "  about 2^64 more are free, in AddressBlocks that do not exist yet\n"},
		{"fd00::/80", "fd00::/120", "fd00::2=Resting:web-0", "blue fd00::/80   0 bound, 0 reserved, 1 resting, about 2^48 free\n" +
			four("fd00::", "fd00::40", "fd00::80", "fd00::c0", v6, "xx~") + "  about 2^48 more are free, in AddressBlocks that do not exist yet\n"},
		{"10.0.0.1/24", "", "", "blue   cannot be drawn: spec.cidr: CIDR \"10.0.0.1/24\": has bits set after the prefix: write \"10.0.0.0/24\"\n"},
		{"", "10.0.0.0/24", "10.0.0.10=Bound:web-0", `
blue (deleted)   1 bound, 0 reserved, 0 resting, 0 free
       10.0.0.0  __________#_____________________________________________________
`},
	} {
		t.Run(tt.cidr+" "+tt.block, func(t *testing.T) {
			var objects []runtime.Object
			if tt.cidr != "" {
				objects = append(objects, newNetwork("blue", tt.cidr))
			}
			if tt.block != "" {
				objects = append(objects, block("blue-0", "blue", tt.block, tt.entry))
			}
			requireText(t, newWorld(t, objects...).run("addresses", "--map", "blue"), strings.TrimPrefix(tt.want, "\n")+legend)
		})
	}
}

// A resting address is free once its Network's delay has passed, or at once if the
// Network is gone. A Network that was recreated with the same name is another Network.
func TestUntilWhenAnAddressRests(t *testing.T) {
	delayed := func(seconds *int32) *v1.Network {
		n := newNetwork("blue", "10.0.0.0/24")
		n.Spec.ReuseDelaySeconds = seconds
		return n
	}
	recreated, terminating := delayed(ptr.To[int32](90)), delayed(ptr.To[int32](90))
	recreated.UID = "u-other"
	terminating.DeletionTimestamp = &metav1.Time{Time: now}
	terminating.Finalizers = []string{"example.com/hold"}
	for _, tt := range []struct {
		name    string
		network *v1.Network
		want    string
	}{
		{"the default delay has passed", delayed(nil), "now"},
		{"90 seconds", delayed(ptr.To[int32](90)), "30s"},
		{"a day", delayed(ptr.To[int32](86460)), "24h"},
		{"recreated", recreated, "now"},
		{"terminating", terminating, "now"},
		{"gone", newNetwork("green", "10.0.0.0/24"), "now"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.network, block("blue-10.0.0.0", "blue", "10.0.0.0/24", "10.0.0.9=Resting:web-1"))
			requireText(t, w.run("addresses"), "NETWORK   ADDRESS    STATE     POD     OWNER      SINCE   FREE-IN\n"+
				"blue      10.0.0.9   Resting   web-1   Pod2/web   60s     "+tt.want+"\n")
		})
	}
}

// In a cluster without the CRDs, every command reports that Pod2 is not installed.
func TestNotInstalled(t *testing.T) {
	file := write(t, fmt.Sprintf(manifest, ""))
	for args, resource := range map[string]string{
		"status web": "pod2s", "history web": "pod2s", "undo web": "pod2s", "pause web": "pod2s", "restart web": "pod2s",
		"set image web app=nginx": "pod2s", "addresses": "addressblocks", "addresses blue --map": "addressblocks", "plan -f " + file: "pod2s",
	} {
		w := newWorld(t)
		w.sample.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			at := action.GetResource().GroupResource()
			return true, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, action.GetVerb(), at, "", "404 page not found", 0, true)
		})
		got := strings.TrimPrefix(w.run(strings.Fields(args)...), "! ignored: Service/web\n")
		requireText(t, got, "! Pod2 is not installed in this cluster: the API server has no "+resource+".samplecrd.k8s.io. "+
			"Ask an administrator to run `kubectl apply -f crd/ -f artifacts/` in a checkout of its repository\n")
	}
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

func TestFragment(t *testing.T) {
	for part, want := range map[string]string{
		"networks/default/blue/10.0.0.20": "#/networks/default/blue/10.0.0.20",
		"/networks/default/six/fd00::2":   "#/networks/default/six/fd00::2",
		"search/50% of <b>":               "#/search/50%25%20of%20%3Cb%3E",
	} {
		if got := fragment(part); got != want {
			t.Errorf("%s: got %s, want %s", part, got, want)
		}
	}
}

func TestAddressHistory(t *testing.T) {
	record := func(address, pod string, from, until int) v1.AddressRecord {
		r := v1.AddressRecord{Address: address, Pod: pod, Until: metav1.NewTime(now.Add(time.Duration(until) * time.Minute))}
		if from != 0 {
			r.From, r.PodUID, r.Node = ptr.To(metav1.NewTime(now.Add(time.Duration(from)*time.Minute))), "u-pod", "n1"
		}
		return r
	}
	gap := record("", "", -20, -19)
	gap.Gap, gap.PodUID, gap.Node = true, "", ""
	h := &v1.AddressHistory{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue-0", Labels: map[string]string{v1.NetworkLabel: "blue"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Network", Name: "blue", UID: "u-net", Controller: ptr.To(true)}}}}
	h.Spec.Since, h.Spec.Through = metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now.Add(-10*time.Minute))
	h.Spec.Records = []v1.AddressRecord{record("10.0.0.2", "a", -50, -40), record("fd01::2", "six-0", -40, -30), gap, record("10.0.0.3", "b", 0, -12), record("10.0.0.2", "web-0", -40, -11)}
	objects := []runtime.Object{newNetwork("blue", "10.0.0.0/24"), newNetwork("green", "10.1.0.0/24"), block("blue-10.0.0.0", "blue", "10.0.0.0/24", "10.0.0.2=Bound:web-1"), h}
	for _, tt := range []struct{ args, want string }{
		{"addresses blue --history", `
ADDRESS    POD     OWNER      NODE   FROM                   UNTIL                  POD-UID
10.0.0.2   a       <none>     n1     2026-01-02T14:14:05Z   2026-01-02T14:24:05Z   u-pod
fd01::2    six-0   <none>     n1     2026-01-02T14:24:05Z   2026-01-02T14:34:05Z   u-pod
gap        -       -          -      2026-01-02T14:44:05Z   2026-01-02T14:45:05Z   -
10.0.0.3   b       <none>     -      ?                      2026-01-02T14:52:05Z   -
10.0.0.2   web-0   <none>     n1     2026-01-02T14:24:05Z   2026-01-02T14:53:05Z   u-pod
10.0.0.2   web-1   Pod2/web   -      2026-01-02T15:03:05Z   now                    -
! The history begins at 2026-01-02T14:04:05Z: earlier holders are not known.
`},
		{"addresses blue --history 10.0.0.2 --at 2026-01-02T14:30:00Z", `
ADDRESS    POD     OWNER    NODE   FROM                   UNTIL                  POD-UID
10.0.0.2   web-0   <none>   n1     2026-01-02T14:24:05Z   2026-01-02T14:53:05Z   u-pod
`},
		{"addresses blue --history --at 20m", `
ADDRESS    POD     OWNER    NODE   FROM                   UNTIL                  POD-UID
gap        -       -        -      2026-01-02T14:44:05Z   2026-01-02T14:45:05Z   -
10.0.0.3   b       <none>   -      ?                      2026-01-02T14:52:05Z   -
10.0.0.2   web-0   <none>   n1     2026-01-02T14:24:05Z   2026-01-02T14:53:05Z   u-pod
`},
		{"addresses blue --history a --at 2h", "! The history begins at 2026-01-02T14:04:05Z: earlier holders are not known.\n! No records match.\n"},
		{"addresses blue --history FD01::2", `
ADDRESS   POD     OWNER    NODE   FROM                   UNTIL                  POD-UID
fd01::2   six-0   <none>   n1     2026-01-02T14:24:05Z   2026-01-02T14:34:05Z   u-pod
gap       -       -        -      2026-01-02T14:44:05Z   2026-01-02T14:45:05Z   -
! The history begins at 2026-01-02T14:04:05Z: earlier holders are not known.
`},
		{"addresses blue --history -o name", "addresshistory.samplecrd.k8s.io/blue-0\n"},
		{"addresses green --history", "! Network default/green has no history yet: earlier holders are not known.\n! No records match.\n"},
		{"addresses --history", "! --history requires a NETWORK\n"},
		{"addresses blue --history --map", "! --history and --map cannot be combined: leave one out\n"},
		{"addresses blue --at 1h", "! --at requires --history\n"},
		{"addresses blue 10.0.0.2", "! ADDRESS and POD require --history\n"},
		{"addresses blue --history --at noon", "! --at \"noon\" is neither an RFC 3339 time such as 2026-01-31T10:00:00Z nor a duration such as 1h\n"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			requireText(t, newWorld(t, objects...).run(strings.Fields(tt.args)...), tt.want)
		})
	}
}
