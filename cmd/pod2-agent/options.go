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
	"github.com/pod2/pod2/pkg/agent/kernel"
)

// options is the command line; the usage texts of flags are its manual.
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
	cniResults             []string
	resync                 time.Duration

	metricsAddress, healthAddress string

	help, cleanup bool
}

func parseOptions(args []string) (*options, error) {
	o := &options{
		node: os.Getenv("NODE_NAME"), vxlanPort: 4789, vxlanReversePathFilter: true, transitText: "100.64.0.0/16", underlayMTU: 1500, netnsDir: "/run/netns",
		cniResults: kernel.CNIResults, resync: 30 * time.Second, metricsAddress: "127.0.0.1:9750", healthAddress: "127.0.0.1:9751",
	}
	flags := o.flags()
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		o.help = true
		return o, nil
	case err != nil:
		return nil, err
	case flags.NArg() == 1 && flags.Arg(0) == "cleanup":
		o.cleanup = true
		return o, nil
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q: there is only cleanup", flags.Arg(0))
	}
	return o, o.validate()
}

func (o *options) flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet(programName, pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.SortFlags = false
	fs.Usage = func() {} // command prints it

	fs.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig,
		"Path of a kubeconfig; without it and without --master: the cluster this process is a pod of.")
	fs.StringVar(&o.master, "master", o.master,
		"URL of the API server; overrides the one in the kubeconfig.")
	fs.StringVar(&o.node, "node-name", o.node,
		"Name of the Node that this is; by default what the variable NODE_NAME says.")
	fs.Uint16Var(&o.vxlanPort, "vxlan-port", o.vxlanPort,
		"UDP port of VXLAN, the same on all nodes.")
	fs.BoolVar(&o.vxlanReversePathFilter, "vxlan-reverse-path-filter", o.vxlanReversePathFilter,
		"Drop VXLAN that comes with the address of a node by another interface than packets to that node leave by, as a pod's does that forges it. To be false on all nodes where routes between them are not symmetrical (docs/networking.md, Limits), and where the kernel's nftables lacks fib.")
	fs.StringVar(&o.transitText, "transit-cidr", o.transitText,
		"IPv4 addresses between the node and the routers of Networks, two for each Network. They never leave the node, and nothing else on it may use them.")
	fs.StringSliceVar(&o.denyTexts, "deny-cidrs", o.denyTexts,
		"CIDRs that no pod reaches from an Overlay Network, in addition to Nodes, the API server, "+denyDefaults()+". A CIDR of this list with - before it is allowed: --deny-cidrs=10.96.0.0/12,-"+metadata[0].String()+".")
	fs.Int32Var(&o.underlayMTU, "underlay-mtu", o.underlayMTU,
		"The largest packet that the nodes' network takes; the same as the controller's flag of this name.")
	fs.StringVar(&o.netnsDir, "netns-dir", o.netnsDir,
		"Where the network namespaces of routers are mounted, and where the container runtime keeps those of pods.")
	fs.StringSliceVar(&o.cniResults, "cni-results", o.cniResults,
		"Where the container runtime and Multus keep what CNI plugins made.")
	fs.DurationVar(&o.resync, "resync", o.resync,
		"How often to compare the kernel with what is wanted, even if nothing says that either has changed.")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress,
		"host:port of /metrics, over plain HTTP; 0 for none.")
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", o.healthAddress,
		"host:port of /healthz and /readyz; 0 for none.")

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
	if err != nil || !transit.Addr().Is4() || transit.Bits() > 31 || transit != transit.Masked() {
		bad("transit-cidr", o.transitText, "must be an IPv4 CIDR without host bits, of at least two addresses")
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
		bad("node-name", o.node, "must be the name of this node, or be in the variable NODE_NAME")
	}
	if o.vxlanPort == 0 {
		bad("vxlan-port", o.vxlanPort, "must be a UDP port")
	}
	if o.underlayMTU < 1330 || o.underlayMTU > 65535 {
		bad("underlay-mtu", o.underlayMTU, "must be from 1330 (IPv6's least, and VXLAN's headers) to 65535")
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
