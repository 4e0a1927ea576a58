package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pod2/pod2/test/bench/measure"
)

// peer is another project. test/bench/bench.sh builds its programs into bin/peers, from the Go
// modules that a module of its own, test/bench/peers/<Name>, requires at exact versions.
type peer struct {
	Name, Title, Module, Version string
	Settings                     string // for the page
	dir                          string // of its sources, with the manifests that it ships
}

var peerModules = []peer{
	{Name: "kruise", Title: "OpenKruise", Module: "github.com/openkruise/kruise", Settings: "kruise-manager with the settings of its chart, and its webhooks; CloneSet and StatefulSet with " +
		"InPlaceIfPossible and maxUnavailable 25%. Without a client-side limit (by default 30 requests a second) and leader election"},
	{Name: "whereabouts", Title: "whereabouts", Module: "github.com/k8snetworkplumbingwg/whereabouts", Settings: "the CNI plugin with a pool in Kubernetes, as install-cni.sh configures it; fast IPAM with " +
		"node-slice-controller and a " + nodeSlice + " for each node. The limits of its clients are compiled in. " +
		"One right was added to those of its manifests: it may update finalizers of NetworkAttachmentDefinitions. The API server here requires that, because it " +
		"enables OwnerReferencesPermissionEnforcement"},
	{Name: "spiderpool", Title: "Spiderpool", Module: "github.com/spidernet-io/spiderpool", Settings: "spiderpool-controller, its webhooks, and the CNI plugin with one spiderpool-agent for all nodes; the " +
		"values of its chart, without Multus, with IPv4 only, and without its changes of sysctls. The limit of its client is compiled in: 50 requests a second, and the first 100 at once"},
}

// findPeers reads the version and the directory of each peer from Go.
func (b *bench) findPeers(ctx context.Context) {
	for _, p := range peerModules {
		cmd := exec.CommandContext(ctx, "go", "list", "-C", filepath.Join(b.Root, "test/bench/peers", p.Name), "-m", "-f", "{{.Version}} {{.Dir}}", p.Module)
		cmd.Stderr = os.Stderr
		version, dir, found := strings.Cut(strings.TrimSpace(string(measure.Must(cmd.Output()))), " ")
		if !found {
			measure.Check(fmt.Errorf("find the sources of %s: they are not downloaded: run `make bench-peers`", p.Module))
		}
		p.Version, p.dir = version, dir
		b.Peers = append(b.Peers, p)
	}
}

// peer with this name.
func (b *bench) peer(name string) peer {
	for _, p := range b.Peers {
		if p.Name == name {
			return p
		}
	}
	measure.Check(fmt.Errorf("no peer %s", name))
	return peer{}
}

// program of a peer.
func (b *bench) program(name string) string { return filepath.Join(b.Root, "bin/peers", name) }

// read files of a peer's sources as one YAML stream.
func (p peer) read(files ...string) []byte {
	var all []byte
	for _, file := range files {
		all = append(all, measure.Must(os.ReadFile(filepath.Join(p.dir, file)))...)
		all = append(all, "\n---\n"...)
	}
	return all
}

// pod2Policies are files of the checkout. They are absent while a peer is measured, because its
// users would not have them.
var pod2Policies = []string{"artifacts/30-admission-policy.yaml", "artifacts/31-validation-policies.yaml"}

// withoutPod2 removes the policies of Pod2 until the returned function is called.
func (b *bench) withoutPod2(ctx context.Context) (restore func()) {
	for _, file := range pod2Policies {
		b.Kubectl(ctx, "delete", "--wait=false", "-f", file)
	}
	return func() {
		for _, file := range pod2Policies {
			b.Kubectl(ctx, "apply", "-f", file)
		}
	}
}
