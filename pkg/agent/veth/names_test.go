//go:build linux

package veth

import (
	"fmt"
	"testing"

	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// The kernel of a node keeps these names and texts while agents are replaced. They are those of v0.1.0:
// a later agent must find the interfaces of pods that run.
func TestNamesInTheKernel(t *testing.T) {
	const name, alias = "pod20d963bad2d1", "default.blue 6f8d1a3e-3c55-4a3b-9d0e-0b6a4f1c2d3e net1 0123456789abcdef default/web-0"
	o := Owner{ID: cni.ID{ContainerID: "0123456789abcdef", Interface: "net1"}, Network: "default.blue", PodUID: "6f8d1a3e-3c55-4a3b-9d0e-0b6a4f1c2d3e", PodName: "default/web-0"}
	if got, ok := ownerOf(name, alias); !ok || got != o || o.HostInterface() != name || o.alias() != alias {
		t.Errorf("%s %q is read as %+v, %t", o.HostInterface(), o.alias(), got, ok)
	}
	got := fmt.Sprintln(dataplane.GatewayName, dataplane.GatewayPeer, dataplane.TableName, dataplane.NodeMAC, dataplane.GatewayMAC(70000))
	if want := "pod2gw pod2gwp pod2 02:00:5e:00:00:00 02:00:5e:01:11:70\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
}
