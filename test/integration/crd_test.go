//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const networkManifest = `
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: %s}
spec: %s
`

const pod2Manifest = `
apiVersion: samplecrd.k8s.io/v1
kind: Pod2
metadata: {name: %s}
spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: registry.k8s.io/pause:3.10}]}}%s}
`

// Objects that the API server refuses, with their messages.
func TestRefusedAtCreation(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	network := func(spec string) string { return fmt.Sprintf(networkManifest, "net", spec) }
	pod2 := func(spec string) string { return fmt.Sprintf(pod2Manifest, "p", ", "+spec) }
	long := strings.Repeat("a", 58)
	for _, c := range []struct{ name, manifest, want string }{
		{"no CIDR", network(`{cidr: 10.0.0.0}`), "must be a CIDR such as 10.1.0.0/16"},
		{"host bits", network(`{cidr: 10.0.0.1/24}`), "must be canonical"},
		{"long IPv6 form", network(`{cidr: "2001:0db8::/64"}`), "must be canonical"},
		{"one IPv6 address", network(`{cidr: "2001:db8::1/128"}`), "the prefix length of an IPv6 CIDR must be at most 127"},
		{"loopback", network(`{cidr: 127.0.0.0/16}`), "must not overlap loopback"},
		{"contains loopback", network(`{cidr: 0.0.0.0/0}`), "must not overlap loopback"},
		{"IPv6 loopback", network(`{cidr: "::/64"}`), "must not overlap loopback"},
		{"link-local", network(`{cidr: 169.254.7.0/24}`), "must not overlap loopback (127.0.0.0/8, ::1), link-local"},
		{"IPv6 link-local", network(`{cidr: "fe80::/64"}`), "link-local"},
		{"multicast", network(`{cidr: 239.0.0.0/8}`), "multicast"},
		{"gateway outside", network(`{cidr: 10.0.0.0/24, gateway: 10.0.1.1}`), "gateway must be inside cidr"},
		{"gateway of another family", network(`{cidr: 10.0.0.0/24, gateway: "2001:db8::1"}`), "gateway must be inside cidr"},
		{"gateway not an address", network(`{cidr: 10.0.0.0/24, gateway: router}`), "must be an IP address in canonical form"},
		{"gateway is the network address", network(`{cidr: 10.0.0.0/24, gateway: 10.0.0.0}`), "gateway must not be the network address of cidr"},
		{"gateway is the anycast address", network(`{cidr: "2001:db8::/64", gateway: "2001:db8::"}`), "gateway must not be the network address of cidr (IPv6: the subnet-router anycast address)"},
		{"gateway is the broadcast address", network(`{cidr: 10.0.0.0/24, gateway: 10.0.0.255}`), "gateway must not be the broadcast address of cidr"},
		{"gateway is the broadcast address of a /30", network(`{cidr: 10.0.0.4/30, gateway: 10.0.0.7}`), "gateway must not be the broadcast address of cidr"},
		{"gateway is the broadcast address of a /10", network(`{cidr: 10.64.0.0/10, gateway: 10.127.255.255}`), "gateway must not be the broadcast address of cidr"},
		{"onRequest of two families", network(`{cidr: 10.0.0.0/24, onRequest: ["10.0.0.7-2001:db8::1"]}`), "must be a CIDR without host bits"},
		{"invalid exclusion", network(`{cidr: 10.0.0.0/24, exclude: ["10.0.0.7-"]}`), "must be a CIDR without host bits"},
		{"exclusion of two families", network(`{cidr: 10.0.0.0/24, exclude: ["10.0.0.7-2001:db8::1"]}`), "must be a CIDR without host bits"},
		{"exclusion with host bits", network(`{cidr: 10.0.0.0/24, exclude: ["10.0.0.7/28"]}`), "must be a CIDR without host bits"},
		{"negative reuse delay", network(`{cidr: 10.0.0.0/24, reuseDelaySeconds: -1}`), "should be greater than or equal to 0"},
		{"name with a dot", fmt.Sprintf(networkManifest, "a.b", `{cidr: 10.0.0.0/24}`), "the name of a Network must be a DNS label"},
		{"too few replicas", pod2(`replicas: -1`), "should be greater than or equal to 0"},
		{"too many replicas", pod2(`replicas: 100001`), "should be less than or equal to 100000"},
		{"a Network twice", pod2(`networks: [{name: blue}, {name: blue}]`), "Duplicate value"},
		{"not an address", pod2(`networks: [{name: blue, addresses: [ten]}]`), "must be an IP address"},
		{"an address twice", pod2(`networks: [{name: blue, addresses: [10.0.0.2, 10.0.0.2]}]`), "Duplicate value"},
		{"unknown strategy", pod2(`updateStrategy: {type: Swift}`), `supported values: "RollingUpdate", "Recreate"`},
		{"bounds of another strategy", pod2(`updateStrategy: {type: Recreate, rollingUpdate: {maxUnavailable: 1}}`), "rollingUpdate is allowed only if type is RollingUpdate"},
		{"percentage too high", pod2(`updateStrategy: {rollingUpdate: {maxUnavailable: "101%"}}`), "a percentage from 0% to 100%"},
		{"negative number", pod2(`updateStrategy: {rollingUpdate: {maxUnavailable: -1}}`), "must be a number from 0 to 100000"},
		{"name too long", fmt.Sprintf(pod2Manifest, long, ""), "at most 57 characters"},
		{"name with a dot", fmt.Sprintf(pod2Manifest, "a.b", ""), "the name of a Pod2 must be a DNS label"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := refused(t, ns, c.manifest, "create", "-f", "-"); !strings.Contains(got, c.want) {
				t.Errorf("refused with\n%s\nwant %q in it", got, c.want)
			}
		})
	}
}

// Gateways that look like network or broadcast addresses, but are host addresses.
func TestGatewaysThatAreHosts(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	for i, spec := range []string{
		`{cidr: 10.0.0.0/31, gateway: 10.0.0.0}`, `{cidr: 10.0.0.0/31, gateway: 10.0.0.1}`, `{cidr: 10.0.0.0/23, gateway: 10.0.0.255}`,
		`{cidr: 10.0.0.0/23, gateway: 10.0.1.0}`, `{cidr: 10.0.0.0/24, gateway: 10.0.0.254}`, `{cidr: 10.64.0.0/10, gateway: 10.126.255.255}`,
		`{cidr: "2001:db8::/64", gateway: "2001:db8::ffff:ffff:ffff:ffff"}`, `{cidr: "2001:db8::/127", gateway: "2001:db8::"}`,
	} {
		create(t, ns, fmt.Sprintf(networkManifest, fmt.Sprintf("net-%d", i), spec))
	}
}

// A gateway that was never in force can be corrected: the controller omits it from the
// status. A gateway in force is immutable.
func TestAGatewayThatWasRefusedCanBeCorrected(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t) // without a controller
	create(t, ns, fmt.Sprintf(networkManifest, "net", `{cidr: 10.0.0.0/24, gateway: 10.0.0.9}`))
	run(t, ns, "patch", "network", "net", "--subresource=status", "--type=merge", "-p", `{"status":{"observedGeneration":1}}`)
	run(t, ns, "patch", "network", "net", "--type=merge", "-p", `{"spec":{"gateway":"10.0.0.1"}}`)
	run(t, ns, "patch", "network", "net", "--subresource=status", "--type=merge", "-p", `{"status":{"gateway":"10.0.0.1"}}`)
	got := refused(t, ns, "", "patch", "network", "net", "--type=merge", "-p", `{"spec":{"gateway":"10.0.0.9"}}`)
	if want := "spec.gateway: Invalid value: gateway is immutable"; !strings.Contains(got, want) {
		t.Errorf("refused with\n%s\nwant %q in it", got, want)
	}
}

// A gateway in force can be removed from the spec and added again. The status keeps it, so
// later pods get the same gateway.
func TestAGatewayInForceCanBeLeftOut(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, network("blue", `{cidr: 10.0.0.0/24, gateway: 10.0.0.9}`)+gatedPod("before", "blue"))
	waitReady(t, ns, "pod/before")
	run(t, ns, "patch", "network", "blue", "--type=merge", "-p", `{"spec":{"gateway":null,"cidr":"10.0.0.0/16"}}`)
	waitCondition(t, ns, "network/blue", "Ready", "True Serving")
	create(t, ns, gatedPod("after", "blue"))
	waitReady(t, ns, "pod/after")
	for _, pod := range []string{"before", "after"} {
		const want = `"gateway":"10.0.0.9"`
		if got := run(t, ns, "get", "pod", pod, "-o", `jsonpath={.metadata.annotations.samplecrd\.k8s\.io/addresses}`); !strings.Contains(got, want) {
			t.Errorf("pod %s publishes %s, want %s in it", pod, got, want)
		}
	}
	const want = "spec.gateway: Invalid value: gateway is immutable"
	if got := refused(t, ns, "", "patch", "network", "blue", "--type=merge", "-p", `{"spec":{"gateway":"10.0.0.1"}}`); !strings.Contains(got, want) {
		t.Errorf("another gateway is refused with\n%s\nwant %q in it", got, want)
	}
	run(t, ns, "patch", "network", "blue", "--type=merge", "-p", `{"spec":{"gateway":"10.0.0.9"}}`)
}

// Changes that the API server refuses, each to the object in the field before.
func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	for _, c := range []struct{ name, before, patch, want string }{
		{"shrinking", `{cidr: 10.0.0.0/16}`, `{"spec":{"cidr":"10.0.0.0/24"}}`, "may only grow"},
		{"moving", `{cidr: 10.0.0.0/24}`, `{"spec":{"cidr":"10.1.0.0/16"}}`, "may only grow"},
		{"other family", `{cidr: 10.0.0.0/24}`, `{"spec":{"cidr":"2001:db8::/64"}}`, "may only grow"},
		{"growing a 31", `{cidr: 10.0.0.0/31}`, `{"spec":{"cidr":"10.0.0.0/24"}}`, "a /31, /32 or /127 cannot grow"},
		{"growing a 127", `{cidr: "2001:db8::/127"}`, `{"spec":{"cidr":"2001:db8::/64"}}`, "a /31, /32 or /127 cannot grow"},
		{"gateway changed", `{cidr: 10.0.0.0/24, gateway: 10.0.0.9}`, `{"spec":{"gateway":"10.0.0.1"}}`, "spec.gateway: Invalid value: gateway is immutable"},
		{"gateway removed", `{cidr: 10.0.0.0/24, gateway: 10.0.0.9}`, `{"spec":{"gateway":null}}`, "spec.gateway: Invalid value: gateway is immutable"},
		{"gateway added", `{cidr: 10.0.0.0/24}`, `{"spec":{"gateway":"10.0.0.9"}}`, "spec.gateway: Invalid value: gateway is immutable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := strings.ReplaceAll(c.name, " ", "-")
			create(t, ns, fmt.Sprintf(networkManifest, name, c.before))
			got := refused(t, ns, "", "patch", "network", name, "--type=merge", "-p", c.patch)
			if !strings.Contains(got, c.want) {
				t.Errorf("refused with\n%s\nwant %q in it", got, c.want)
			}
		})
	}
}

func TestOrdinalsStartNeverChanges(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, fmt.Sprintf(pod2Manifest, "web", ", ordinals: {start: 3}"))
	for _, patch := range []string{`{"spec":{"ordinals":{"start":4}}}`, `{"spec":{"ordinals":null}}`} {
		if got := refused(t, ns, "", "patch", "pod2", "web", "--type=merge", "-p", patch); !strings.Contains(got, "ordinals.start is immutable") {
			t.Errorf("%s is refused with\n%s", patch, got)
		}
	}
}

// `kubectl scale` must work with every spec: no rule connects a field with replicas.
func TestScaleIsNeverRefused(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, fmt.Sprintf(pod2Manifest, "web",
		`, replicas: 3, networks: [{name: blue, addresses: [10.0.0.2, 10.0.0.3, 10.0.0.4]}], updateStrategy: {rollingUpdate: {maxUnavailable: 3}}`))
	run(t, ns, "scale", "pod2", "web", "--replicas=0")
	run(t, ns, "scale", "p2/web", "--replicas=100000")
	if got := run(t, ns, "get", "pod2", "web", "-o", "jsonpath={.spec.replicas}"); got != "100000" {
		t.Errorf("replicas are %s", got)
	}
}

func TestDefaultsAreInTheSchema(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, fmt.Sprintf(networkManifest, "net", `{cidr: 10.0.0.0/24}`))
	create(t, ns, fmt.Sprintf(pod2Manifest, "p", ""))
	got := run(t, ns, "get", "network", "net", "-o", "jsonpath={.spec.reuseDelaySeconds}") + " " +
		run(t, ns, "get", "pod2", "p", "-o", "jsonpath={.spec.replicas} {.spec.updateStrategy.type}")
	if want := "60 1 RollingUpdate"; got != want {
		t.Errorf("defaults are %q, want %q", got, want)
	}
}

// Columns of tables, and the first lines of the help.
func TestKubectlShows(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, fmt.Sprintf(networkManifest, "net", `{cidr: 10.0.0.0/24}`)+"---"+fmt.Sprintf(pod2Manifest, "p", "")+blockManifest)
	run(t, ns, "patch", "net", "net", "--subresource=status", "--type=merge", "-p", networkStatus)
	run(t, ns, "patch", "p2", "p", "--subresource=status", "--type=merge", "-p", pod2Status)
	for _, c := range []struct {
		args, want string
	}{
		{"get networks -A", "NAMESPACE NAME CIDR GATEWAY BOUND AVAILABLE READY AGE"},
		{"get net -A", "NAMESPACE NAME CIDR GATEWAY BOUND AVAILABLE READY AGE"},
		{"get net -A -o wide", "NAMESPACE NAME CIDR GATEWAY BOUND AVAILABLE RESERVED RESTING READY ADDRESSESAVAILABLE VNI ATTACHABLE AGE"},
		{"get net net -o wide", "net 10.0.0.0/24 10.0.0.1 3 4 5 6 True Unknown 1001 False "},
		{"get p2 -A", "NAMESPACE NAME DESIRED READY UPDATED AVAILABLE NETWORKS AGE"},
		{"get p2 -A -o wide", "NAMESPACE NAME DESIRED READY UPDATED AVAILABLE NETWORKS AGE REASON IMAGE SELECTOR"},
		{"get p2 p -o wide", " PodsNotReady registry.k8s.io/pause:3.10 samplecrd.k8s.io/pod2=p"},
		{"get ab -A", "NAMESPACE NAME NETWORK CIDR SEALED AGE"},
		{"get all -A", "NAMESPACE NAME DESIRED READY UPDATED AVAILABLE NETWORKS AGE"},
		{"explain pod2.spec.networks.addresses", "addresses lists addresses to ask for: the first is for the first replica, and so on."},
		{"explain network.spec.cidr", "cidr is the address range of the Network, IPv4 or IPv6."},
		{"explain pod2.spec.template", "template is the pod template of the replicas."},
	} {
		t.Run(c.args, func(t *testing.T) {
			got := strings.Join(strings.Fields(run(t, ns, strings.Fields(c.args)...)), " ")
			if !strings.Contains(got, c.want) {
				t.Errorf("kubectl %s prints\n%s\nwant %q in it", c.args, got, c.want)
			}
		})
	}
}

// networkStatus has a different value in each column.
const networkStatus = `{"status":{"gateway":"10.0.0.1","bound":3,"available":4,"reserved":5,"resting":6,"vni":1001,"conditions":[
  {"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},
  {"type":"AddressesAvailable","status":"Unknown","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},
  {"type":"Attachable","status":"False","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

const pod2Status = `{"status":{"replicas":1,"readyReplicas":0,"availableReplicas":0,"updatedReplicas":1,"selector":"samplecrd.k8s.io/pod2=p","conditions":[
  {"type":"Ready","status":"False","reason":"PodsNotReady","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

const blockManifest = `---
apiVersion: samplecrd.k8s.io/v1
kind: AddressBlock
metadata: {name: ledger-10.9.0.0}
spec: {network: ledger, networkUID: u, cidr: 10.9.0.0/24}
`

// Client-side apply keeps the whole object in an annotation of at most 256 KiB.
func TestCRDsFitClientSideApply(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "crd", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, file := range files {
		// TestMain created the CRDs by client-side apply; this applies them again.
		if out, err := kubectl("apply", "-f", file); err != nil || !strings.Contains(out, "unchanged") {
			t.Errorf("apply %s: %v\n%s", file, err, out)
		}
		if info, err := os.Stat(file); err != nil || info.Size() > 256<<10 {
			t.Errorf("%s is %d bytes: %v", file, info.Size(), err)
		}
	}
}

func TestLedgerRules(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	create(t, ns, blockManifest)
	for _, c := range []struct{ name, patch, want string }{
		{"network changed", `{"spec":{"network":"other"}}`, "network and cidr are immutable"},
		{"cidr changed", `{"spec":{"cidr":"10.8.0.0/24"}}`, "network and cidr are immutable"},
		{"moved to another Network while an address is bound", `{"spec":{"networkUID":"v","entries":[{"address":"10.9.0.2","pod":"p","state":"Reserved","since":"2026-01-01T00:00:00Z"},{"address":"10.9.0.3","pod":"q","state":"Bound","since":"2026-01-01T00:00:00Z"}]}}`, "without Bound entries"},
		{"moved to another Network and sealed", `{"spec":{"networkUID":"v","sealed":true}}`, "unsealed AddressBlock"},
		{"sealed with entries", `{"spec":{"sealed":true,"entries":[{"address":"10.9.0.2","pod":"p","state":"Bound","since":"2026-01-01T00:00:00Z"}]}}`, "a sealed AddressBlock must not have entries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := refused(t, ns, "", "patch", "ab", "ledger-10.9.0.0", "--type=merge", "-p", c.patch); !strings.Contains(got, c.want) {
				t.Errorf("refused with\n%s\nwant %q in it", got, c.want)
			}
		})
	}
	run(t, ns, "patch", "ab", "ledger-10.9.0.0", "--type=merge", "-p", `{"spec":{"networkUID":"v"}}`)
	run(t, ns, "patch", "ab", "ledger-10.9.0.0", "--type=merge", "-p", `{"spec":{"sealed":true}}`)
	if got := refused(t, ns, "", "patch", "ab", "ledger-10.9.0.0", "--type=merge", "-p", `{"spec":{"sealed":false}}`); !strings.Contains(got, "sealed is immutable") {
		t.Errorf("unsealing is refused with\n%s", got)
	}
}
