//go:build integration

package integration

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// network is a manifest of a Network.
func network(name, spec string) string { return "---" + fmt.Sprintf(networkManifest, name, spec) }

// gatedPod is a manifest of a bare pod in the form that the admission policy gives it.
func gatedPod(name, request string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels: {samplecrd.k8s.io/managed: "true"}
  annotations: {samplecrd.k8s.io/networks: %q}
spec:
  schedulingGates: [{name: samplecrd.k8s.io/addresses}]
  containers: [{name: c, image: registry.k8s.io/pause:3.10}]
`, name, request)
}

// waitAddresses waits until the live pods publish exactly these addresses, "web-0:
// blue=..." in each line.
func waitAddresses(t *testing.T, namespace, want string) {
	t.Helper()
	eventually(t, "addresses", func(context.Context) (string, error) {
		got := render(addresses(t, namespace))
		if got == strings.TrimSpace(want) {
			return "", nil
		}
		return "got\n" + got + "\nwant\n" + want, nil
	})
}

// waitCondition waits for "<status> <reason>: <message>" of a condition. If the condition
// has an observedGeneration, it must be the object's present one: an older condition may
// match now and change soon.
func waitCondition(t *testing.T, namespace, object, kind, want string) {
	t.Helper()
	path := fmt.Sprintf(`jsonpath={.metadata.generation}|{range .status.conditions[?(@.type=="%s")]}{.observedGeneration}|{.status} {.reason}: {.message}{end}`, kind)
	eventually(t, object+" has "+kind, func(context.Context) (string, error) {
		out, err := kubectl("-n", namespace, "get", object, "-o", path)
		generation, condition, _ := strings.Cut(out, "|")
		observed, got, _ := strings.Cut(condition, "|")
		if strings.Contains(got, want) && (observed == "" || observed == generation) {
			return "", err
		}
		return fmt.Sprintf("got %q at observedGeneration %s (generation %s), want %q", got, observed, generation, want), err
	})
}

const bound = "samplecrd.k8s.io/AddressesBound"

// waitGone waits until no object of the kinds remains in the namespace.
func waitGone(t *testing.T, namespace, kinds string) {
	t.Helper()
	eventually(t, kinds+" are gone", func(ctx context.Context) (string, error) {
		for _, kind := range strings.Split(kinds, ",") {
			client, err := (&kubectlCall{namespace: namespace}).kind(kind)
			if err != nil {
				return "", err
			}
			list, err := client.List(ctx, metav1.ListOptions{Limit: 1}) // thousands may exist during the deletion
			if err != nil {
				return "", err
			}
			if len(list.Items) > 0 {
				return client.name(list.Items[0].GetName()), nil
			}
		}
		return "", nil
	})
}

func ledger(t *testing.T, namespace string) string {
	t.Helper()
	return run(t, namespace, "get", "ab", "-o", `jsonpath={range .items[*]}{range .spec.entries[*]}{.address} {.state} {.pod}{"\n"}{end}{end}`)
}

func waitLedger(t *testing.T, namespace, want string) {
	t.Helper()
	eventually(t, "AddressBlocks", func(context.Context) (string, error) {
		if got := ledger(t, namespace); got != strings.TrimSpace(want) {
			return "got\n" + got + "\nwant\n" + want, nil
		}
		return "", nil
	})
}

func TestBindAndPublish(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, exclude: ["10.0.0.2-10.0.0.3"]}`)+network("green", `{cidr: "2001:db8::/64"}`)+
		gatedPod("a", "blue, green")+gatedPod("b", "green=2001:db8::77"))
	waitAddresses(t, ns, "a: blue=10.0.0.4/24 green=2001:db8::2/64\nb: green=2001:db8::77/64")
	waitReady(t, ns, "pod/a", "pod/b", "network/blue")

	got := run(t, ns, "get", "pod", "a", "-o", `jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/networks}`)
	want := fmt.Sprintf(`[{"name":"blue","namespace":"%[1]s","interface":"net1","ips":["10.0.0.4/24"],"mac":"0a:58:0a:00:00:04"},`+
		`{"name":"green","namespace":"%[1]s","interface":"net2","ips":["2001:db8::2/64"],"mac":"0a:58:00:00:00:02"}]`, ns)
	if got != want {
		t.Errorf("Multus reads\n%s\nwant\n%s", got, want)
	}
}

// The smallest Networks, each with as many pods as addresses, and one more pod that waits.
func TestSmallNetworks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cidr, want string }{
		{"10.0.0.0/30", "p0: net=10.0.0.2/30"},
		{"10.0.0.0/31", "p0: net=10.0.0.1/31"},
		{"10.0.0.9/32", "p0: net=10.0.0.9/32"},
		{"2001:db8::/126", "p0: net=2001:db8::2/126\np1: net=2001:db8::3/126"},
		{"2001:db8::/127", "p0: net=2001:db8::1/127"},
	} {
		t.Run(c.cidr, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			startController(t, ns)
			create(t, ns, network("net", fmt.Sprintf("{cidr: %q}", c.cidr)))
			waits := strings.Count(c.want, "\n") + 1
			for i := range waits {
				create(t, ns, gatedPod(fmt.Sprintf("p%d", i), "net"))
				waitReady(t, ns, fmt.Sprintf("pod/p%d", i))
			}
			create(t, ns, gatedPod("late", "net"))
			waitCondition(t, ns, "pod/late", bound, `False NetworkExhausted: Network "net" has no free address`)
			waitAddresses(t, ns, c.want)
		})
	}
}

// When a Network is exhausted, the other pods are served, and the Network names the waiting
// pods. Those are served later without a user's action.
func TestExhaustionEnds(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("tiny", `{cidr: 10.0.0.0/30, reuseDelaySeconds: 1}`)+gatedPod("first", "tiny"))
	waitReady(t, ns, "pod/first")
	create(t, ns, gatedPod("second", "tiny"))
	waitCondition(t, ns, "network/tiny", "AddressesAvailable", "False NetworkExhausted: no address is free for: second")
	waitCondition(t, ns, "network/tiny", "Ready", "True")
	eventually(t, "one event of each object", func(context.Context) (string, error) {
		got := run(t, ns, "get", "events", "--field-selector=reason=NetworkExhausted", "-o", "jsonpath={.items[*].involvedObject.name}")
		if got != "second tiny" {
			return fmt.Sprintf("events of %q", got), nil
		}
		return "", nil
	})
	run(t, ns, "delete", "pod", "first")
	waitAddresses(t, ns, "second: tiny=10.0.0.2/30")
	waitCondition(t, ns, "pod/second", bound, "True Published")
	waitCondition(t, ns, "network/tiny", "AddressesAvailable", "True")
}

// A pod gets all of its addresses or none: the free addresses of one Network stay free.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+gatedPod("both", "blue, green"))
	waitCondition(t, ns, "pod/both", bound, `False NetworkNotFound: Network "green" does not exist`)
	waitLedger(t, ns, "")
	create(t, ns, network("green", `{cidr: 10.0.0.0/24}`))
	waitAddresses(t, ns, "both: blue=10.0.0.2/24 green=10.0.0.2/24")
}

// A terminating pod has not terminated: no other pod gets its address.
func TestTerminatingPodKeepsItsAddress(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("tiny", `{cidr: 10.0.0.0/30, reuseDelaySeconds: 0}`)+gatedPod("old", "tiny"))
	waitReady(t, ns, "pod/old")
	run(t, ns, "patch", "pod", "old", "--type=merge", "-p", `{"metadata":{"finalizers":["test.example.com/hold"]}}`)
	run(t, ns, "delete", "pod", "old", "--wait=false")
	create(t, ns, gatedPod("new", "tiny"))
	waitCondition(t, ns, "pod/new", bound, "False NetworkExhausted")
	waitLedger(t, ns, "10.0.0.2 Bound old")
	run(t, ns, "patch", "pod", "old", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	waitAddresses(t, ns, "new: tiny=10.0.0.2/30")
}

// A pod that lost Pod2's label is still alive. The cache says it is gone; the live read
// shows that it is not.
func TestUnlabelledPodKeepsItsAddress(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	c := startController(t, ns, "--v=2")
	create(t, ns, network("tiny", `{cidr: 10.0.0.0/30, reuseDelaySeconds: 0}`)+gatedPod("old", "tiny"))
	waitReady(t, ns, "pod/old")
	run(t, ns, "label", "pod", "old", "samplecrd.k8s.io/managed-")
	create(t, ns, gatedPod("new", "tiny"))
	waitCondition(t, ns, "pod/new", bound, "False NetworkExhausted")
	waitLedger(t, ns, "10.0.0.2 Bound old")
	eventually(t, "the live read prevents the release", func(context.Context) (string, error) {
		if !strings.Contains(c.log.String(), "but the API server says they have not") {
			return "the log does not say so", nil
		}
		return "", nil
	})
	waitLedger(t, ns, "10.0.0.2 Bound old")
	run(t, ns, "delete", "pod", "old")
	// No event reports this deletion: the controller looks again by itself.
	waitAddresses(t, ns, "new: tiny=10.0.0.2/30")
}

func TestWhatWaitsSaysWhy(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, exclude: [10.0.0.66]}`)+network("bad", `{cidr: 10.0.0.0/24, exclude: ["10.0.0.9-10.0.0.8"]}`)+
		gatedPod("holder", "blue=10.0.0.5"))
	waitReady(t, ns, "pod/holder")
	// The command of README.md. A pod that was bound at once has no condition to wait for.
	run(t, ns, "wait", "pod/holder", `--for=jsonpath={.metadata.annotations.samplecrd\.k8s\.io/addresses}`, "--timeout=10s")
	for _, c := range []struct{ pod, request, want string }{
		{"typo", "blue,,green", "InvalidRequest: annotation samplecrd.k8s.io/networks: element 2"},
		{"twice", "blue, blue", "InvalidRequest: annotation samplecrd.k8s.io/networks: element 2"},
		{"nowhere", "red", `NetworkNotFound: Network "red" does not exist`},
		{"outside", "blue=10.9.0.1", "AddressRefused: the wanted address 10.9.0.1 is outside 10.0.0.0/24"},
		{"excluded", "blue=10.0.0.66", "AddressRefused: the wanted address 10.0.0.66 is excluded by 10.0.0.66"},
		{"gateway", "blue=10.0.0.1", "AddressRefused: the wanted address 10.0.0.1 is the gateway"},
		{"taken", "blue=10.0.0.5", `AddressInUse: the wanted address 10.0.0.5 of Network "blue" is held by pod holder`},
		{"reversed", "bad", `NetworkNotReady: Network "bad" cannot serve: spec.exclude`},
	} {
		create(t, ns, gatedPod(c.pod, c.request))
		waitCondition(t, ns, "pod/"+c.pod, bound, "False "+c.want)
	}
	// The command of README.md for all pods at once.
	waits := `custom-columns=POD:.metadata.name,WAITS:.status.conditions[?(@.type=="` + bound + `")].message`
	if got := run(t, ns, "get", "pods", "-o", waits); !regexp.MustCompile(`(?m)^nowhere +Network "red" does not exist`).MatchString(got) {
		t.Errorf("the reasons for waiting are:\n%s", got)
	}
	// Users look here first. The event is sent once for each pod.
	eventually(t, "kubectl describe has the reason", func(context.Context) (string, error) {
		got := run(t, ns, "describe", "pod", "nowhere")
		if _, events, _ := strings.Cut(got, "Events:"); strings.Count(events, `NetworkNotFound`) == 1 {
			return "", nil
		}
		return "got " + got, nil
	})
	// No object has to be recreated: the controller reads the request until it has answered
	// it.
	for _, pod := range []string{"typo", "outside"} {
		run(t, ns, "annotate", "pod", pod, "--overwrite", "samplecrd.k8s.io/networks=blue")
		waitReady(t, ns, "pod/"+pod)
	}
	run(t, ns, "delete", "pod", "typo", "outside")
	waitCondition(t, ns, "network/bad", "Ready", "False InvalidSpec: spec.exclude")
	waitCondition(t, ns, "network/blue", "Ready", "True")

	// A pod with a nodeName can have no gate, not even from the admission policy that other
	// tests apply.
	ungated := strings.ReplaceAll(gatedPod("ungated", "blue"), "schedulingGates: [{name: samplecrd.k8s.io/addresses}]", "nodeName: node-000000")
	create(t, ns, ungated)
	waitCondition(t, ns, "pod/ungated", bound, "False MissingGate")
	create(t, ns, strings.ReplaceAll(gatedPod("ofthenode", "blue"), "spec:\n", "spec:\n  hostNetwork: true\n"))
	waitCondition(t, ns, "pod/ofthenode", bound, "False HostNetwork")
	empty := strings.ReplaceAll(gatedPod("silent", "blue"), "samplecrd.k8s.io/networks:", "example.com/note:")
	create(t, ns, empty)
	waitCondition(t, ns, "pod/silent", bound, "False MissingRequest")
	waitAddresses(t, ns, "holder: blue=10.0.0.5/24\nungated:")
	eventually(t, "an event of ungated alone", func(context.Context) (string, error) {
		if got := run(t, ns, "get", "events", "--field-selector=reason=MissingGate", "-o", "jsonpath={.items[*].involvedObject.name}"); got != "ungated" {
			return "events of " + got, nil
		}
		return "", nil
	})
}

// Another controller's gate stays when the controller removes its own.
func TestForeignGateStays(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24}`)+
		strings.ReplaceAll(gatedPod("p", "blue"), "[{name: samplecrd.k8s.io/addresses}]", "[{name: example.com/a}, {name: samplecrd.k8s.io/addresses}, {name: example.com/b}]"))
	waitAddresses(t, ns, "p: blue=10.0.0.2/24")
	pod, err := kube.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(pod.Spec.SchedulingGates); got != "[{example.com/a} {example.com/b}]" {
		t.Errorf("gates are %s", got)
	}
}

// When a Network grows, new pods get the new prefix, and live pods keep the old one. The
// gateway does not change, even if its annotation does.
func TestGrowth(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.1.0/30}`)+gatedPod("old", "blue"))
	waitReady(t, ns, "pod/old")
	create(t, ns, gatedPod("new", "blue"))
	waitCondition(t, ns, "pod/new", bound, "False NetworkExhausted")
	run(t, ns, "patch", "network", "blue", "--type=merge", "-p",
		`{"metadata":{"annotations":{"samplecrd.k8s.io/gateway":"10.0.0.1"}},"spec":{"cidr":"10.0.0.0/23"}}`)
	waitAddresses(t, ns, "new: blue=10.0.0.1/23\nold: blue=10.0.1.2/30")
	if got := run(t, ns, "get", "network", "blue", "-o", "jsonpath={.status.gateway}"); got != "10.0.1.1" {
		t.Errorf("the gateway changed to %s", got)
	}
}
