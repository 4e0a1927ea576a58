//go:build linux && kernel

package node

import (
	"testing"

	"github.com/vishvananda/netlink"
)

// Pods that were deleted while no agent ran lose their entries at the first Sync.
func TestPodsDeletedWithoutAgent(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a", "b")
	for _, p := range pods {
		p.attach()
	}
	n.stop()
	n.pods = n.pods[1:]
	n.start()
	n.sync()
	n.expect("place 192.168.0.3: b\nport b: 192.168.0.3\n")
}

// The first list of pods is older than a pod that runs already. The pod is reached again once the agent knows it.
func TestPodMissingFromFirstList(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a", "b")
	for _, p := range pods {
		p.attach()
	}
	n.stop()
	young := n.pods[0]
	n.pods = n.pods[1:]
	n.start()
	n.sync()
	n.pods = append(n.pods, young)
	n.tellPod(pods[0])
	pods[1].reaches(pods[0].ip, "a")
}

// An agent ended during Add, before it stored the owner. Nothing else would remove the interface before the pod's end.
func TestInterfaceWithoutOwnerIsRemoved(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	pods[0].attach()
	n.stop()
	n.in(n.name, func() error { return netlink.LinkSetAlias(pods[0].link(), "") })
	n.start()
	n.sync()
	if pods[0].link() != nil {
		t.Error("the interface is left")
	}
}

// The runtime lists the valid attachments after a restart of the agent: GC removes the interface of a pod that no agent
// knew any more.
func TestGCAfterRestart(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	pods[0].attach()
	n.stop()
	n.pods = nil
	n.start()
	n.sync()
	n.in(n.name, func() error { return n.node.GC(t.Context(), "default.blue", nil) })
	if pods[0].link() != nil {
		t.Error("the interface is left")
	}
}

// While an agent runs, it leaves interfaces of unknown pods to Del: the API server may be ahead
// of the runtime.
func TestPodDeletedWithAgent(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	pods[0].attach()
	n.lose(pods[0])
	n.step(true)
	if pods[0].link() == nil {
		t.Error("the interface is gone")
	}
	n.expect("")
}

// A replica comes back with its name and its address while the closed interface of the pod before is still there.
func TestAddBesideClosedPort(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a", "b")
	for _, p := range pods {
		p.attach()
	}
	n.stop()
	n.pods[0].UID = "u-again"
	n.start()
	n.sync()
	n.namespace("again")
	again := &labPod{lab: n.lab, on: n, name: "again", network: pods[0].network}
	request := pods[0].attachment()
	request.ContainerID, request.Pod.UID = "c-again", "u-again"
	_, err := n.addAs(again, request)
	must(t, err)
	n.echo("again", "again")
	pods[1].reaches(pods[0].ip, "again")
}
