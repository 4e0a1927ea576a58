//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs/klogflags"

	"github.com/pod2/pod2/internal/serving"
	"github.com/pod2/pod2/pkg/agent/cni"
)

// options is the command line. The usage texts of its flags are the manual.
type options struct {
	kubeconfig, master, node string

	vxlanPort              uint16
	vxlanReversePathFilter bool
	transitText            string
	transit                netip.Prefix
	denyTexts              []string
	denied                 []netip.Prefix
	underlayMTU            int32
	netnsDir               string
	bpfDir, socket         string
	allowBypass            bool
	resync                 time.Duration

	metricsAddress, healthAddress string

	help, showVersion bool
	// command and its arguments; empty to run the agent.
	command []string
}

// arguments of each command: the least and the most.
var commands = map[string][2]int{"cleanup": {0, 0}, "status": {0, 1}, "trace": {2, 2}}

func parseOptions(args []string) (*options, error) {
	o := &options{
		node: os.Getenv("NODE_NAME"), vxlanPort: 4789, vxlanReversePathFilter: true, transitText: "100.64.0.0/16", underlayMTU: 1500, netnsDir: "/run/netns",
		bpfDir: "/sys/fs/bpf/pod2", socket: cni.DefaultSocket, resync: 30 * time.Second, metricsAddress: "127.0.0.1:9750", healthAddress: "127.0.0.1:9751",
	}
	flags := o.flags()
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		o.help = true
		return o, nil
	case err != nil:
		return nil, err
	case o.showVersion:
		return o, nil
	case flags.NArg() > 0:
		o.command = flags.Args()
		takes, known := commands[o.command[0]]
		if given := len(o.command) - 1; !known || given < takes[0] || given > takes[1] {
			return nil, fmt.Errorf("unexpected arguments %q: the commands are cleanup, status [TABLE] and trace POD ADDRESS", o.command)
		}
		return o, nil
	}
	return o, o.validate()
}

func (o *options) flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet(programName, pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.SortFlags = false
	fs.Usage = func() {} // command prints it

	fs.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig,
		"Path of a kubeconfig. Without this flag and --master, the agent uses the cluster that it runs in.")
	fs.StringVar(&o.master, "master", o.master,
		"URL of the API server. Overrides the URL in the kubeconfig.")
	fs.StringVar(&o.node, "node-name", o.node,
		"Name of this Node. Defaults to the environment variable NODE_NAME.")
	fs.Uint16Var(&o.vxlanPort, "vxlan-port", o.vxlanPort,
		"UDP port of VXLAN. Must be the same on all nodes.")
	fs.BoolVar(&o.vxlanReversePathFilter, "vxlan-reverse-path-filter", o.vxlanReversePathFilter,
		"Drop a VXLAN packet if the route to its source node uses another interface than the packet came from: a pod may have forged the node's address. Set to false on all nodes if routes between them are not symmetrical (docs/concepts/limitations.md), or if the kernel's nftables lacks fib.")
	fs.StringVar(&o.transitText, "transit-cidr", o.transitText,
		"IPv4 addresses that the node sees instead of those of its pods, one for each pod on a Network. They never leave the node. Nothing else on the node may use them.")
	fs.StringSliceVar(&o.denyTexts, "deny-cidrs", o.denyTexts,
		"CIDRs that pods cannot reach from an Overlay Network, such as other addresses of nodes, routers and Services. The addresses that the cluster lists for Nodes and the API server are always denied. These CIDRs are denied by default: "+denyDefaults()+". To allow one of them, list it with a leading minus sign, for example -169.254.0.0/16.")
	fs.Int32Var(&o.underlayMTU, "underlay-mtu", o.underlayMTU,
		"MTU of the node network, in bytes. Must be the same on all nodes. Overlay Networks default to this value minus 50, the overhead of VXLAN over IPv4.")
	fs.StringVar(&o.netnsDir, "netns-dir", o.netnsDir,
		"Directory where the container runtime keeps the network namespaces of pods.")
	fs.StringVar(&o.bpfDir, "bpf-dir", o.bpfDir,
		"Directory for the tables of the data plane's programs, on a BPF file system of the node. The tables outlive the agent.")
	fs.BoolVar(&o.allowBypass, "allow-tc-bypass", o.allowBypass,
		"Let programs in the node's own network make sockets that send past the eBPF programs (PACKET_QDISC_BYPASS, and AF_XDP with a ring to send). Such a program with NET_RAW reaches pods of Networks, on this node and on others. For nodes that need these sockets (docs/concepts/limitations.md).")
	fs.StringVar(&o.socket, "cni-socket", o.socket,
		"Path of the socket on which the agent serves the CNI plugin pod2-cni. The agent makes its directory, which only root may enter.")
	fs.DurationVar(&o.resync, "resync", o.resync,
		"How often to compare the kernel with its desired state, even without a notification of a change.")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress,
		"host:port of /metrics, over plain HTTP. 0 disables it.")
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", o.healthAddress,
		"host:port of /healthz and /readyz. 0 disables them.")

	fs.BoolVar(&o.showVersion, "version", o.showVersion,
		"Print the version and exit.")

	var klogFlags flag.FlagSet
	klogflags.Init(&klogFlags)
	fs.AddGoFlagSet(&klogFlags)
	return fs
}

func denyDefaults() string {
	var all []string
	for _, p := range metadata {
		all = append(all, p.String())
	}
	return strings.Join(all, ", ")
}

func (o *options) validate() error {
	var errs []error
	bad := func(flag string, value any, want string) {
		errs = append(errs, fmt.Errorf("--%s=%v: %s", flag, value, want))
	}
	transit, err := netip.ParsePrefix(o.transitText)
	if err != nil || !transit.Addr().Is4() || transit.Bits() > 24 || transit != transit.Masked() {
		bad("transit-cidr", o.transitText, "must be an IPv4 CIDR without host bits, of at least 256 addresses")
	}
	o.transit = transit
	o.denied = slices.Clone(metadata)
	for _, text := range o.denyTexts {
		cidr, allow := strings.CutPrefix(text, "-")
		p, err := netip.ParsePrefix(cidr)
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			bad("deny-cidrs", text, "must be a CIDR without host bits")
			continue
		}
		if !allow {
			o.denied = append(o.denied, p)
			continue
		}
		if !slices.Contains(metadata, p) {
			bad("deny-cidrs", text, "only a CIDR that is denied by default can be allowed: "+denyDefaults())
		}
		o.denied = slices.DeleteFunc(o.denied, func(d netip.Prefix) bool { return d == p })
	}
	if o.node == "" {
		bad("node-name", o.node, "must be the name of this Node; set the flag or the variable NODE_NAME")
	}
	if o.vxlanPort == 0 {
		bad("vxlan-port", o.vxlanPort, "must be a UDP port")
	}
	if o.underlayMTU < 1330 || o.underlayMTU > 65535 {
		bad("underlay-mtu", o.underlayMTU, "must be from 1330 (the minimum of IPv6, plus the headers of VXLAN) to 65535")
	}
	if o.resync < time.Second {
		bad("resync", o.resync, "must be at least 1s")
	}
	for _, f := range []struct{ flag, address string }{
		{"metrics-bind-address", o.metricsAddress}, {"health-probe-bind-address", o.healthAddress},
	} {
		if err := serving.CheckAddress(f.address); err != nil {
			bad(f.flag, f.address, err.Error())
		}
	}
	return errors.Join(errs...)
}
