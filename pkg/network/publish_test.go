package network

import (
	"math/rand/v2"
	"testing"

	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/chance"
)

func TestPublish(t *testing.T) {
	const networks = `
		network blue 192.168.0.0/16
		192.168.0.2 Bound web-0/u1
		network green 10.1.0.4/32
		10.1.0.4 Bound web-0/u1
		`
	const blue = `"blue":{"address":"192.168.0.2/16","gateway":"192.168.0.1","mac":"0a:58:c0:a8:00:02"}`
	const multusBlue = `{"name":"blue","namespace":"default","interface":"net1","ips":["192.168.0.2/16"],"mac":"0a:58:c0:a8:00:02"}`
	for _, test := range []struct{ name, in, want, multus string }{
		{"terminated", networks + `pod web-0/u1 gated asks=blue,green phase=Failed`, ``, ``},
		{"terminating", networks + `pod web-0/u1 gated asks=blue,green terminating`, ``, ``},
		{"gated without request", networks + `pod web-0/u1 gated`,
			`condition samplecrd.k8s.io/AddressesBound=False MissingRequest: the pod has the scheduling gate samplecrd.k8s.io/addresses but no annotation samplecrd.k8s.io/networks; name the Networks there, or remove the gate`, ``},
		{"gated, request unreadable", networks + `pod web-0/u1 gated asks=blue,blue`,
			`condition samplecrd.k8s.io/AddressesBound=False InvalidRequest: annotation samplecrd.k8s.io/networks: element 2 ("blue") names Network blue again after element 1: a pod can join a Network only once, remove one of the two; edit the annotation: the pod is still gated`, ``},
		{"gated, restored with an unreadable annotation", networks + `pod web-0/u1 gated asks=blue has=!`,
			`condition samplecrd.k8s.io/AddressesBound=False InvalidRequest: the pod was created with an unreadable annotation samplecrd.k8s.io/addresses; remove it to get any address`, ``},
		{"gated, restored with another address than it has: the AddressBlock counts", networks + `pod web-0/u1 gated asks=blue has=blue:192.168.0.9/16`,
			`publish {` + blue + `}`, `[` + multusBlue + `]`},
		{"gated, restored with addresses of Networks that it does not ask for", networks + `pod web-0/u1 gated asks=blue has=blue:192.168.0.2/16,red:10.7.0.2/24`,
			`publish {` + blue + `}`, `[` + multusBlue + `]`},
		{"gated, restored with an address that it does not have", networks + `pod c/u3 gated asks=blue has=blue:192.168.0.2/16`, ``, ``},
		{"gated, restored with elements for Multus of a Network that has grown since", networks +
			`pod web-0/u1 gated asks=blue has=blue:192.168.0.2/24 multus=[{"name":"blue","namespace":"other","interface":"net1","ips":["192.168.0.2/24"],"mac":"0a:58:c0:a8:00:02"}]`,
			`publish {` + blue + `}`, `[` + multusBlue + `]`},
		{"all bound; a /32 has no gateway", networks + `pod web-0/u1 gated asks=blue,green`,
			`publish {` + blue + `,"green":{"address":"10.1.0.4/32","mac":"0a:58:0a:01:00:04"}}`,
			`[` + multusBlue + `,{"name":"green","namespace":"default","interface":"net2","ips":["10.1.0.4/32"],"mac":"0a:58:0a:01:00:04"}]`},
		{"other elements for Multus stay in front", `
			network blue 192.168.0.0/16
			192.168.0.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue multus=ns/storage@net1`,
			`publish {` + blue + `}`,
			`[{"name":"storage","namespace":"ns","interface":"net1"},{"name":"blue","namespace":"default","interface":"net2","ips":["192.168.0.2/16"],"mac":"0a:58:c0:a8:00:02"}]`},
		{"unreadable elements are reported", `
			network blue 192.168.0.0/16
			192.168.0.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue multus=a//b`,
			`condition samplecrd.k8s.io/AddressesBound=False InvalidRequest: annotation k8s.v1.cni.cncf.io/networks: read the networks that the pod already requests from Multus: element 1 ("a//b") has an unexpected '/': write "name", "namespace/name" or "namespace/name@interface"; edit the annotation: the pod is still gated. To join other Networks, recreate the pod: its addresses are bound`, ``},
		{"an IPv6 address keeps its gateway after growth", `
			network blue fd00::/60 was=fd00:0:0:5::1
			fd00:0:0:5::2 Bound web-0/u1
			pod web-0/u1 gated asks=blue`,
			`publish {"blue":{"address":"fd00:0:0:5::2/60","gateway":"fd00:0:0:5::1","mac":"0a:58:00:00:00:02"}}`,
			`[{"name":"blue","namespace":"default","interface":"net1","ips":["fd00:0:0:5::2/60"],"mac":"0a:58:00:00:00:02"}]`},
		{"the pod of a controller needs no managedFields", networks + `pod web-0/u1 gated asks=blue of=Pod2/web managers=Update`,
			`publish {` + blue + `} and clear managedFields`, `[` + multusBlue + `]`},
		{"the pod of a controller that applies it", networks + `pod web-0/u1 gated asks=blue of=Pod2/web managers=Update,Apply`,
			`publish {` + blue + `}`, `[` + multusBlue + `]`},
		{"a user may apply a pod without a controller", networks + `pod web-0/u1 gated asks=blue managers=Update`,
			`publish {` + blue + `}`, `[` + multusBlue + `]`},
		{"one is not bound", `
			network blue 192.168.0.0/16
			192.168.0.2 Bound web-0/u1
			network green 10.1.0.0/24
			pod web-0/u1 gated asks=blue,green`, ``, ``},
		{"bound to another UID", `
			network blue 192.168.0.0/16
			192.168.0.2 Bound web-0/u0
			pod web-0/u1 gated asks=blue`, ``, ``},
		{"reserved only", `
			network blue 192.168.0.0/16
			192.168.0.2 Reserved web-0/u1 Pod2/web
			pod web-0/u1 gated asks=blue of=Pod2/web`, ``, ``},
		{"bound by an earlier Network with this name", `
			network blue 192.168.0.0/16
			block 192.168.0.0/24 uid=n-earlier
			192.168.0.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue`, `stale: AddressBlock blue-192.168.0.0 belongs to a Network blue that the cache does not have`, ``},
		{"bound also by an earlier Network with this name, which was removed by force", `
			network blue 192.168.0.0/16
			192.168.0.2 Bound web-0/u1
			block 192.168.1.0/24 uid=n-earlier terminating
			192.168.1.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue`, `publish {` + blue + `}; if Network blue is n-blue`, `[` + multusBlue + `]`},
		{"bound also by an earlier Network with this name, whose AddressBlock was restored", `
			network blue 192.168.0.0/16
			192.168.0.2 Bound web-0/u1
			block 192.168.1.0/24 uid=n-earlier orphaned
			192.168.1.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue`, `publish {` + blue + `}; if Network blue is n-blue`, `[` + multusBlue + `]`},
		{"the Network is gone", `
			network blue -
			192.168.0.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue`, `stale: AddressBlock blue-192.168.0.0 belongs to a Network blue that the cache does not have`, ``},
		{"the Network is gone, and its AddressBlock names another pod", `
			network blue -
			192.168.0.2 Bound web-0/u0
			pod web-0/u1 gated asks=blue`, ``, ``},
		{"bound before its Network was deleted", `
			network blue 192.168.0.0/16 terminating
			192.168.0.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue`, `publish {` + blue + `}`, `[` + multusBlue + `]`},
		{"bound twice: the lowest", `
			network blue 192.168.0.0/16
			192.168.0.2 Bound web-0/u1
			192.168.1.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue`, `publish {` + blue + `}`, `[` + multusBlue + `]`},
		{"by a damaged entry: the address is not of its block", `
			network blue 192.168.0.0/16
			192.168.1.2 Bound web-0/u1 in=192.168.0.0/24
			pod web-0/u1 gated asks=blue`, ``, ``},
		{"by a damaged entry: the second one of its address", `
			network blue 192.168.0.0/16
			192.168.0.2 Bound web-1/u2
			192.168.0.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue`, ``, ``},
		{"by a block that we did not write", `
			network blue 192.168.0.0/16
			block 192.168.0.0/24 name=mine
			192.168.0.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue`, ``, ``},
		{"request without gate", networks + `pod web-0/u1 asks=blue`,
			`condition samplecrd.k8s.io/AddressesBound=False MissingGate: the pod asks for Networks "blue" without the scheduling gate samplecrd.k8s.io/addresses, so it may already be running. Recreate it with the gate and without spec.nodeName. A pod with spec.nodeName cannot have a gate, so use a nodeSelector or an affinity`, ``},
		{"on the network of its node", `
			network blue 192.168.0.0/16
			192.168.0.2 Bound web-0/u1
			pod web-0/u1 gated asks=blue hostnetwork`,
			`condition samplecrd.k8s.io/AddressesBound=False HostNetwork: the pod uses the network of its node (spec.hostNetwork: true), so it cannot join Networks "blue"; recreate it without hostNetwork or without the annotation samplecrd.k8s.io/networks`, ``},
		{"on the network of its node, without the gate", networks + `pod web-0/u1 asks=! hostnetwork`,
			`condition samplecrd.k8s.io/AddressesBound=False HostNetwork: the pod uses the network of its node (spec.hostNetwork: true), so it cannot join Networks "!"; recreate it without hostNetwork or without the annotation samplecrd.k8s.io/networks`, ``},
		{"on the network of its node, without request", networks + `pod web-0/u1 gated hostnetwork`,
			`condition samplecrd.k8s.io/AddressesBound=False MissingRequest: the pod has the scheduling gate samplecrd.k8s.io/addresses but no annotation samplecrd.k8s.io/networks; name the Networks there, or remove the gate`, ``},
		{"on the network of its node, served by an earlier release", networks + `pod web-0/u1 asks=blue has=blue:192.168.0.2/16 hostnetwork`, ``, ``},
		{"neither request nor gate", networks + `pod web-0/u1`, ``, ``},
		{"published, never had to wait", networks + `pod web-0/u1 asks=blue has=blue:192.168.0.2/16`, ``, ``},
		{"published, had to wait", networks + `pod web-0/u1 asks=blue has=blue:192.168.0.2/16 condition=False/NetworkExhausted`,
			`condition samplecrd.k8s.io/AddressesBound=True Published: `, ``},
		{"published, already reported", networks + `pod web-0/u1 asks=blue has=blue:192.168.0.2/16 condition=True/Published`, ``, ``},
		{"published, asks for one more since", networks + `pod web-0/u1 asks=blue,green has=blue:192.168.0.2/16`,
			`condition samplecrd.k8s.io/AddressesBound=True RequestChanged: the pod keeps its addresses; its annotation samplecrd.k8s.io/networks changed to "blue,green", which has no effect until you recreate the pod`, ``},
		{"published, asks for another address since", networks + `pod web-0/u1 asks=blue=192.168.0.9 has=blue:192.168.0.2/16`,
			`condition samplecrd.k8s.io/AddressesBound=True RequestChanged: the pod keeps its addresses; its annotation samplecrd.k8s.io/networks changed to "blue=192.168.0.9", which has no effect until you recreate the pod`, ``},
		{"published, unreadable request since", networks + `pod web-0/u1 asks=! has=blue:192.168.0.2/16`,
			`condition samplecrd.k8s.io/AddressesBound=True RequestChanged: the pod keeps its addresses; its annotation samplecrd.k8s.io/networks changed to "!", which has no effect until you recreate the pod`, ``},
		{"published, asks for the address that it has", networks + `pod web-0/u1 asks=blue=192.168.0.2 has=blue:192.168.0.2/16`, ``, ``},
		{"published, asks again for the Networks that it has", networks + `pod web-0/u1 asks=blue has=blue:192.168.0.2/16 condition=True/RequestChanged`,
			`condition samplecrd.k8s.io/AddressesBound=True Published: `, ``},
		{"in conflict", networks + `pod web-0/u1 asks=blue has=blue:192.168.0.7/16 condition=False/AddressConflict`, ``, ``},
		{"in conflict on one of two", networks + `pod web-0/u1 asks=blue,green has=blue:192.168.0.2/16,green:10.1.0.9/32 condition=False/AddressConflict`, ``, ``},
		{"no longer in conflict", networks + `pod web-0/u1 asks=blue,green has=blue:192.168.0.2/16,green:10.1.0.4/32 condition=False/AddressConflict`,
			`condition samplecrd.k8s.io/AddressesBound=True Published: `, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := Publish(podState(parse(t, test.in), 0))
			if got := kept(plan.String()); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
			multus := ""
			if plan.Publish != nil {
				multus = plan.Publish.Multus.Networks
			}
			if multus != test.multus {
				t.Errorf("for Multus: got\n%s\nwant\n%s", multus, test.multus)
			}
		})
	}
}

// podState returns the part of a State about one pod, as observe would return it.
func podState(s State, pod int) PodState {
	p := PodState{Now: s.Now, Pod: s.Pods[pod]}
	all := append([]Neighbour{{s.Name, s.Network, s.Blocks}}, s.Neighbours...)
	requests, _ := attachment.Requests(s.Pods[pod])
	for _, r := range requests {
		for _, n := range all {
			if n.Name == r.Network {
				p.Networks = append(p.Networks, n)
			}
		}
	}
	return p
}

func TestComplaintIsMadeOnce(t *testing.T) {
	s := podState(parse(t, "network blue 10.0.0.0/24\npod a/u1 asks=blue"), 0)
	first := Publish(s)
	if first.Event == nil || first.Event.Reason != ReasonMissingGate {
		t.Errorf("no event in\n%s", first)
	}
	s.Pod = s.Pod.DeepCopy()
	s.Pod.Status.Conditions = append(s.Pod.Status.Conditions, *first.Condition)
	s.Pod.Spec.NodeName = "node-1" // it was scheduled in the meantime
	if again := Publish(s); !again.Empty() || again.Event != nil {
		t.Errorf("reported twice:\n%s", again)
	}
}

// The controller does not ask Publish about such a pod.
func TestNothingIsDecidedAboutAServedPod(t *testing.T) {
	served, others := 0, 0
	chance.ForSeeds(t, states, func(t *testing.T, dice *rand.Rand) {
		text := arbitrary(dice)
		s := parse(t, text)
		settleSome(dice, &s)
		for i, pod := range s.Pods {
			if !Served(pod) {
				others++
				continue
			}
			served++
			if plan := Publish(podState(s, i)); !plan.Empty() || plan.Stale != "" {
				t.Errorf("pod %s in a state made of\n%s\n%s", pod.Name, text, plan)
			}
		}
	})
	if served < states/20 || others < states/20 {
		t.Errorf("%d pods are served, %d are not: too few to prove anything", served, others)
	}
}
