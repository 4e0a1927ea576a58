//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// The kubelet's probes of a pod that has only a Network: HTTP probes fail, because the node has
// no route there, and exec probes work. docs/concepts/limitations.md says both.
func TestProbesOfPodOnNetworkAlone(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "probes")
	with := func(name, check string) string {
		return strings.Replace(alone(name, "node1", "blue@eth0"), "    args: [serve]\n",
			"    args: [serve]\n    readinessProbe: {periodSeconds: 1, "+check+"}\n", 1)
	}
	create(t, ns, networks+with("by-http", "httpGet: {port: 8080}")+with("by-exec", "exec: {command: [/netprobe, get, '127.0.0.1:8080']}"))
	waitReady(t, ns, "pod/by-exec")
	waitRunning(t, ns, "by-http")
	at := pods(t, ns, "app=alone")["by-http"].Published["blue"].Address.Addr().String()
	requireAnswer(t, ns, "by-exec", at+":8080", "by-http at "+at) // it serves
	want := `Readiness probe failed: Get "http://` + at + `:8080/": `
	eventually(t, "an event says "+want, func() (string, error) {
		out, err := kubectl("", "--namespace", ns, "get", "events", "--field-selector=involvedObject.name=by-http", "--output=jsonpath={range .items[*]}{.message}{\"\\n\"}{end}")
		if strings.Contains(out, want) {
			return "", err
		}
		return "events say " + out, err
	})
	if got := run(t, ns, "get", "pod", "by-http", `--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}`); got != "False" {
		t.Errorf("by-http is ready: %s", got)
	}
}
