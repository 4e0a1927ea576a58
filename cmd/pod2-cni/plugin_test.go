//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/pod2/pod2/pkg/agent/cni"
)

const (
	podArgs     = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=5b0c;K8S_POD_UID=8f31"
	noneValid   = `,"cni.dev/valid-attachments":[]`
	fromRuntime = `,"runtimeConfig":{"ips":["192.168.0.2/16"],"mac":"0a:58:c0:a8:00:02"}`
	// added is the result of ADD.
	added = `{ "cniVersion": "1.1.0", "interfaces": [ { "name": "pod247a35d2cb39" }, { "mac": "0a:58:c0:a8:00:02", "mtu": 1450, "name": "net1", "sandbox": "/proc/self/ns/net" } ], ` +
		`"ips": [ { "address": "192.168.0.2/16", "gateway": "192.168.0.1", "interface": 1 } ], "routes": [ { "dst": "192.168.0.0/15" } ] }`
)

// call the plugin as a container runtime does.
func call(t *testing.T, command, socket, more string, env ...string) string {
	t.Helper()
	conf := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"default.blue","type":"pod2-cni","socket":%q%s}`, socket, more)
	env = append([]string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=5b0c", "CNI_IFNAME=net1", "CNI_PATH=/opt/cni/bin",
		"CNI_NETNS=/proc/self/ns/net", "CNI_NETNS_OVERRIDE=1", "CNI_ARGS=" + podArgs}, env...)
	return run(t, env, conf)
}

func failed(code int, message string) string {
	return fmt.Sprintf(`{ "code": %d, "msg": %q } exit status 1`, code, message)
}

func TestPlugin(t *testing.T) {
	const web = "{ID:{ContainerID:5b0c Interface:net1} Network:default.blue Pod:default/web-0 IPs:[192.168.0.2/16] MAC:0a:58:c0:a8:00:02} UID 8f31"
	const bare = "{ID:{ContainerID:5b0c Interface:net1} Network:default.blue Pod:/ IPs:[] MAC:} UID "
	g := &agent{address: netip.MustParsePrefix("192.168.0.2/16")}
	socket := serve(t, g)
	prev := func(result string) string { return fromRuntime + `,"prevResult":` + result }
	for _, tt := range []struct {
		name, command, more string
		env                 []string
		want, calls         string
	}{
		{"ADD", "ADD", fromRuntime, nil, added, "Add " + web + ", a namespace: true"},
		{"ADD without addresses", "ADD", "", []string{"CNI_ARGS="}, added, "Add " + bare + ", a namespace: true"},
		{"ADD of an older specification", "ADD", `,"cniVersion":"0.4.0"`, []string{"CNI_ARGS="},
			`{ "cniVersion": "0.4.0", "interfaces": [ { "name": "pod247a35d2cb39" }, { "name": "net1", "mac": "0a:58:c0:a8:00:02", "sandbox": "/proc/self/ns/net" } ], ` +
				`"ips": [ { "version": "4", "interface": 1, "address": "192.168.0.2/16", "gateway": "192.168.0.1" } ], "routes": [ { "dst": "192.168.0.0/15" } ], "dns": {} }`, "Add " + bare + ", a namespace: true"},
		{"ADD of a pod that is gone", "ADD", fromRuntime, []string{"CNI_NETNS=/run/netns/gone"},
			failed(8, "pod2-cni cannot open the pod's network namespace: open /run/netns/gone: no such file or directory"), ""},
		{"ADD with an address of nothing", "ADD", `,"runtimeConfig":{"ips":["192.168.0.2"]}`, nil,
			failed(6, `pod2-cni cannot read runtimeConfig in the network configuration: netip.ParsePrefix("192.168.0.2"): no '/'`), ""},
		{"ADD after another plugin", "ADD", prev(added), nil, failed(7, "pod2-cni must be the first plugin of its list: it adds nothing to the result of another one"), ""},
		{"DEL", "DEL", "", nil, "", strings.ReplaceAll("Del "+bare, "Pod:/", "Pod:default/web-0") + "8f31"},
		{"DEL with an address of nothing", "DEL", `,"runtimeConfig":{"ips":["192.168.0.2"]}`, nil, "", strings.ReplaceAll("Del "+bare, "Pod:/", "Pod:default/web-0") + "8f31"},
		{"DEL of a pod that is gone", "DEL", "", []string{"CNI_NETNS=", "CNI_ARGS="}, "", "Del " + bare},
		{"CHECK", "CHECK", prev(added), nil, "", "Check " + web + ", a namespace: true"},
		{"CHECK of an older specification", "CHECK", prev(strings.Replace(added, "1.1.0", "1.0.0", 1)) + `,"cniVersion":"1.0.0"`, nil, "", "Check " + web + ", a namespace: true"},
		{"CHECK without a result", "CHECK", fromRuntime, nil,
			failed(7, "CHECK needs a prevResult in the network configuration"), "Check " + web + ", a namespace: true"},
		{"CHECK of another address", "CHECK", prev(strings.Replace(added, "192.168.0.2/16", "192.168.0.3/16", 1)), nil,
			failed(100, "the pod has the address 192.168.0.2/16, which the result of ADD does not have: recreate the pod"), "Check " + web + ", a namespace: true"},
		{"STATUS", "STATUS", "", nil, "", "Status"},
		{"GC", "GC", `,"cni.dev/valid-attachments":[{"containerID":"5b0c","ifname":"net1"},{"containerID":"77aa","ifname":"net2"}]`, nil, "", "GC default.blue [{5b0c net1} {77aa net2}]"},
		{"GC of all", "GC", `,"cni.dev/valid-attachments":[]`, nil, "", "GC default.blue []"},
		{"GC without a list", "GC", "", nil, failed(7, "GC needs cni.dev/valid-attachments in the network configuration: without it, the attachments of all pods would go"), ""},
		{"VERSION", "VERSION", "", nil, `{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}`, ""},
		{"version that is unknown", "ADD", `,"cniVersion":"2.0.0"`, nil,
			`{ "code": 1, "msg": "incompatible CNI versions", "details": "config is \"2.0.0\", plugin supports [\"0.4.0\" \"1.0.0\" \"1.1.0\"]" } exit status 1`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := call(t, tt.command, socket, tt.more, tt.env...); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if calls := g.take(); calls != tt.calls {
				t.Errorf("the agent got  %s\nwant %s", calls, tt.calls)
			}
		})
	}
}

// The agent's refusal reaches the runtime with its code. An agent of another release does not hold
// up a pod that is deleted.
func TestPluginIsRefused(t *testing.T) {
	g := &agent{}
	socket := serve(t, g)
	for _, tt := range []struct {
		err                                         error
		wantAdd, wantCheck, wantDel, wantGC, status string
	}{
		{cni.Errorf(cni.CodeRefused, "not here"), failed(100, "not here"), failed(100, "not here"), failed(100, "not here"), failed(100, "not here"),
			failed(50, "pods of Overlay Networks cannot start on this node: not here")},
		{cni.Errorf(cni.CodeTryAgainLater, "not yet"), failed(11, "not yet"), failed(11, "not yet"), failed(11, "not yet"), failed(11, "not yet"),
			failed(50, "pods of Overlay Networks cannot start on this node: not yet")},
		{errors.New("broken"), failed(999, "broken"), failed(999, "broken"), failed(999, "broken"), failed(999, "broken"),
			failed(50, "pods of Overlay Networks cannot start on this node: broken")},
		{cni.Errorf(cni.CodeIncompatible, "too old"), failed(101, "too old"), failed(101, "too old"), "", "",
			failed(50, "pods of Overlay Networks cannot start on this node: too old")},
	} {
		g.fail(tt.err)
		for command, want := range map[string]string{"ADD": tt.wantAdd, "CHECK": tt.wantCheck, "DEL": tt.wantDel, "GC": tt.wantGC, "STATUS": tt.status} {
			if got := call(t, command, socket, fromRuntime+noneValid); got != want {
				t.Errorf("%s: got  %s\nwant %s", command, got, want)
			}
		}
	}
}

// Without an agent pods wait, and pods go.
func TestAgentAway(t *testing.T) {
	socket := socketPath(t)
	away := "pod2-agent does not answer on " + socket + ": dial unix " + socket + ": connect: no such file or directory"
	waits := failed(11, away+": the pod waits until pod2-agent runs on this node")
	for command, want := range map[string]string{"ADD": waits, "CHECK": waits, "DEL": "", "GC": "",
		"STATUS": failed(50, "pods of Overlay Networks cannot start on this node: "+away)} {
		if got := call(t, command, socket, fromRuntime+noneValid); got != want {
			t.Errorf("%s: got  %s\nwant %s", command, got, want)
		}
	}
	if got := call(t, "DEL", socket, "", "CNI_NETNS=", "CNI_ARGS="); got != "" {
		t.Errorf("DEL without a pod: %s", got)
	}
}
