package faults

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/test/sim"
)

// inWorld performs the acts while a controller works, and checks that no promise is broken.
func (program Program) inWorld(t *testing.T, acts func(t *testing.T, w *sim.World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := sim.NewWorld(program.alone, nil, nil)
		defer w.Close()
		w.Watch(sim.NewPromises())
		w.Start("it", nil)
		acts(t, w)
		for _, fault := range w.Faults() {
			t.Errorf("%s\n%s", fault, w.Trace())
		}
	})
}

// requests returns the requests of the created pods, in name order, after the world has
// settled.
func requests(w *sim.World) string {
	time.Sleep(sim.Settle)
	var all []string
	for _, pod := range w.Pods() {
		all = append(all, pod.Name+": "+pod.Annotations[samplecrdv1.NetworksAnnotation])
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

const (
	simNetwork = "apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: blue}\nspec: {cidr: 10.0.0.0/24}"
	simPod2    = "apiVersion: samplecrd.k8s.io/v1\nkind: Pod2\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: app, image: one}]}}, "
)

// HeldBackReplicaComesBackAsItWas deletes a replica that the update holds back. The replica
// comes back with the interface and the address of its revision.
func (program Program) HeldBackReplicaComesBackAsItWas(t *testing.T) {
	for name, hold := range map[string]string{
		"partition": `"updateStrategy":{"rollingUpdate":{"partition":9}}`,
		"pause":     `"paused":true`,
	} {
		t.Run(name, func(t *testing.T) {
			program.inWorld(t, func(t *testing.T, w *sim.World) {
				w.Create(simNetwork, simPod2+"replicas: 2, networks: [{name: blue, interface: eth0, addresses: [10.0.0.10, 10.0.0.11]}]}")
				want := requests(w)
				w.Patch("pod2s", "web", `{"spec":{`+hold+`,"networks":[{"name":"blue","interface":"data0","addresses":["10.0.0.20","10.0.0.21"]}]}}`)
				time.Sleep(sim.Settle)
				w.Delete("pods", "web-0", "")
				if got := requests(w); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		})
	}
}

func wanted(addresses string) string {
	return `{"spec":{"networks":[{"name":"blue","addresses":["` + strings.ReplaceAll(addresses, ",", `","`) + `"]}]}}`
}

// published returns the addresses of the pods, in name order, after the world has settled.
func published(w *sim.World) string {
	time.Sleep(sim.Settle)
	var all []string
	for _, pod := range w.Pods() {
		for _, a := range attachment.Published(pod) {
			all = append(all, pod.Name+" "+a.Address.Addr().String())
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// ReplicasExchangeAddresses has replicas take over each other's addresses, one after the other.
func (program Program) ReplicasExchangeAddresses(t *testing.T) {
	for _, tt := range []struct{ name, max, to, want string }{
		{"up", "1", "10.0.0.11,10.0.0.12,10.0.0.13", "web-0 10.0.0.11, web-1 10.0.0.12, web-2 10.0.0.13"},
		{"down", "1", "10.0.0.9,10.0.0.10,10.0.0.11", "web-0 10.0.0.9, web-1 10.0.0.10, web-2 10.0.0.11"},
		{"two swap", "2", "10.0.0.11,10.0.0.10,10.0.0.12", "web-0 10.0.0.11, web-1 10.0.0.10, web-2 10.0.0.12"},
		{"in a cycle", "2", "10.0.0.12,10.0.0.10,10.0.0.11", "web-0 10.0.0.12, web-1 10.0.0.10, web-2 10.0.0.11"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program.inWorld(t, func(t *testing.T, w *sim.World) {
				w.Create(simNetwork, simPod2+"replicas: 3, networks: [{name: blue, addresses: [10.0.0.10, 10.0.0.11, 10.0.0.12]}], updateStrategy: {rollingUpdate: {maxUnavailable: "+tt.max+"}}}")
				time.Sleep(sim.Settle)
				w.Patch("pod2s", "web", wanted(tt.to))
				if got := published(w); got != tt.want {
					t.Errorf("got  %s\nwant %s\n%s", got, tt.want, w.Trace())
				}
				w.Expect("pod2s/web", "all 3 replicas are available")
			})
		})
	}
}

// ReplicasThatCannotExchangeAddressesServe has two replicas that want each other's
// addresses. They continue to serve until the user allows two replicas to be unavailable.
func (program Program) ReplicasThatCannotExchangeAddressesServe(t *testing.T) {
	program.inWorld(t, func(t *testing.T, w *sim.World) {
		w.Create(simNetwork, simPod2+"replicas: 2, networks: [{name: blue, addresses: [10.0.0.10, 10.0.0.11]}]}")
		time.Sleep(sim.Settle)
		w.Patch("pod2s", "web", wanted("10.0.0.11,10.0.0.10"))
		if got := published(w); got != "web-0 10.0.0.10, web-1 10.0.0.11" {
			t.Errorf("got %s", got)
		}
		w.Expect("pod2s/web", "web-0 and web-1 want each other's addresses", "maxUnavailable to at least 2")
		w.Patch("pod2s", "web", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}}}`)
		if got := published(w); got != "web-0 10.0.0.11, web-1 10.0.0.10" {
			t.Errorf("got %s", got)
		}
	})
}

// ReplicaRunsOnWhileAnotherPodHasItsAddress keeps a replica running while another pod holds
// its wanted address. The replica gets the address when that pod is gone.
func (program Program) ReplicaRunsOnWhileAnotherPodHasItsAddress(t *testing.T) {
	program.inWorld(t, func(t *testing.T, w *sim.World) {
		w.Create(simNetwork, "apiVersion: v1\nkind: Pod\nmetadata: {name: holder, labels: {samplecrd.k8s.io/managed: \"true\"}, annotations: {samplecrd.k8s.io/networks: blue=10.0.0.20}}\n"+
			"spec: {schedulingGates: [{name: samplecrd.k8s.io/addresses}], containers: [{name: app, image: one}]}",
			simPod2+"replicas: 1, networks: [{name: blue, addresses: [10.0.0.10]}]}")
		time.Sleep(sim.Settle)
		w.Patch("pod2s", "web", wanted("10.0.0.20"))
		if got := published(w); got != "holder 10.0.0.20, web-0 10.0.0.10" {
			t.Errorf("got %s", got)
		}
		w.Expect("pod2s/web", "web-0 is not updated: it wants address 10.0.0.20 of Network blue, but pod holder holds it")
		w.Delete("pods", "holder", "")
		if got := published(w); got != "web-0 10.0.0.20" {
			t.Errorf("got %s", got)
		}
	})
}
