package app

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	cliflag "k8s.io/component-base/cli/flag"
	componentbase "k8s.io/component-base/config"
	componentoptions "k8s.io/component-base/config/options"
	"k8s.io/component-base/logs/klogflags"

	"github.com/pod2/pod2/internal/serving"
	"github.com/pod2/pod2/pkg/reconcile"
)

// Options is the command line. The usage texts of the flags describe it.
type Options struct {
	// Namespace to serve; empty for all.
	Namespace string
	// Workers is the number of concurrent syncs.
	Workers  int
	Election componentbase.LeaderElectionConfiguration
	// MetricsAddress and HealthAddress are host:port, :port, or 0 to disable.
	MetricsAddress, HealthAddress string
	// Profiling serves profiles beside the metrics.
	Profiling bool

	kubeconfig, master            string
	clusterCIDRs, allowedOverlaps []string
	kubeQPS                       float32
	burst                         int
	help, version                 bool
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		Workers: 16,
		kubeQPS: -1,
		burst:   100,
		Election: componentbase.LeaderElectionConfiguration{
			// The values of kube-controller-manager.
			LeaseDuration:     metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline:     metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:       metav1.Duration{Duration: 2 * time.Second},
			ResourceLock:      resourcelock.LeasesResourceLock,
			ResourceName:      "pod2-controller",
			ResourceNamespace: "pod2-system",
		},
		MetricsAddress: "127.0.0.1:8080",
		HealthAddress:  ":8081",
	}
}

// parseOptions reads a command line without the program's name. An error is for the user:
// it names the flag and its valid values.
func parseOptions(args []string) (*Options, error) {
	o := NewOptions()
	flags := o.flags()
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		o.help = true
		return o, nil
	case err != nil:
		return nil, err
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	case o.version:
		return o, nil
	}
	return o, o.validate()
}

func (o *Options) flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet(programName, pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.SortFlags = false
	fs.Usage = func() {} // Command prints it

	fs.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig,
		"Path of a kubeconfig; its current context names the cluster. Defaults to the cluster that this pod runs in, if --master is empty too. "+
			"The controller does not read the variable KUBECONFIG: only the command line decides which cluster it writes to.")
	fs.StringVar(&o.master, "master", o.master,
		"URL of the API server. Overrides the URL in the kubeconfig.")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace,
		"Namespace to serve; empty for all. Controllers of different namespaces each need their own --leader-elect-resource-name.")
	fs.StringSliceVar(&o.clusterCIDRs, "cluster-cidrs", o.clusterCIDRs,
		"CIDRs that the cluster uses, separated by commas, in addition to those of ServiceCIDRs (Kubernetes 1.33) and Nodes. A controller of all namespaces reads those. "+
			"The controller refuses a Network that overlaps one of these CIDRs before its first address is bound.")
	fs.StringSliceVar(&o.allowedOverlaps, "allow-cluster-overlap", o.allowedOverlaps,
		"CIDRs in which Overlay Networks may overlap addresses of the cluster, separated by commas. Pods on such a Network cannot reach the cluster addresses that it hides.")
	fs.IntVar(&o.Workers, "workers", o.Workers,
		"Number of objects to sync at once.")
	fs.Float32Var(&o.kubeQPS, "kube-api-qps", o.kubeQPS,
		"Maximum requests per second to the API server. -1 means no limit: the API server's priority and fairness applies.")
	fs.IntVar(&o.burst, "kube-api-burst", o.burst,
		"Maximum burst of requests above --kube-api-qps. No effect without it.")

	componentoptions.BindLeaderElectionFlags(&o.Election, fs)
	fs.Lookup("leader-elect").Usage = "Wait while another controller holds the lease, and take over when it is released or expires. " +
		"Defaults to false. Two active controllers never give one address to two live pods, but they may exceed the bounds of an update. Required for more than one replica; the install manifests set it."

	fs.StringVar(&o.MetricsAddress, "metrics-bind-address", o.MetricsAddress,
		"host:port of /metrics, over plain HTTP; 0 to disable.")
	fs.StringVar(&o.HealthAddress, "health-probe-bind-address", o.HealthAddress,
		"host:port of /healthz and /readyz; 0 to disable.")
	fs.BoolVar(&o.Profiling, "profiling", o.Profiling,
		"Serve /debug/pprof/ on the address of /metrics. Anyone who can reach that address can then make the controller use CPU, and read parts of its memory.")

	var klogFlags flag.FlagSet
	klogflags.Init(&klogFlags)
	fs.AddGoFlagSet(&klogFlags)
	fs.BoolVar(&o.version, "version", o.version, "Print the version and exit.")
	return fs
}

// prefixes reads CIDRs.
func prefixes(cidrs []string) ([]netip.Prefix, error) {
	all := make([]netip.Prefix, 0, len(cidrs))
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("must be CIDRs such as 10.96.0.0/12, separated by commas: %w", err)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

// Settings returns the settings of the reconciler. The Options must be valid.
func (o *Options) Settings() reconcile.Settings {
	s := reconcile.Settings{Namespace: o.Namespace}
	s.ClusterCIDRs, _ = prefixes(o.clusterCIDRs)
	s.AllowedOverlaps, _ = prefixes(o.allowedOverlaps)
	return s
}

func (o *Options) validate() error {
	var errs []error
	bad := func(flag string, value any, want string) {
		errs = append(errs, fmt.Errorf("--%s=%v: %s", flag, value, want))
	}
	if o.Namespace != "" && len(validation.IsDNS1123Label(o.Namespace)) > 0 {
		bad("namespace", o.Namespace, "must be the name of a namespace, or empty for all")
	}
	for _, f := range []struct {
		flag  string
		cidrs []string
	}{{"cluster-cidrs", o.clusterCIDRs}, {"allow-cluster-overlap", o.allowedOverlaps}} {
		if _, err := prefixes(f.cidrs); err != nil {
			bad(f.flag, strings.Join(f.cidrs, ","), err.Error())
		}
	}
	if o.Workers < 1 {
		bad("workers", o.Workers, "must be at least 1")
	}
	if o.kubeQPS == 0 {
		bad("kube-api-qps", o.kubeQPS, "must be positive, or -1 for no limit")
	}
	if o.kubeQPS > 0 && o.burst < 1 {
		bad("kube-api-burst", o.burst, "must be at least 1 when --kube-api-qps sets a limit")
	}
	if o.Election.LeaderElect {
		e := o.Election
		lease, renew, retry := e.LeaseDuration.Duration, e.RenewDeadline.Duration, e.RetryPeriod.Duration
		if lease < time.Second || lease <= renew {
			bad("leader-elect-lease-duration", lease, fmt.Sprintf("must be at least 1s and more than --leader-elect-renew-deadline (%s)", renew))
		}
		// The elector waits up to this factor times the period between tries.
		if least := time.Duration(leaderelection.JitterFactor * float64(retry)); renew <= least {
			bad("leader-elect-renew-deadline", renew, fmt.Sprintf("must be more than %g times --leader-elect-retry-period (%s)", leaderelection.JitterFactor, retry))
		}
		if retry <= 0 {
			bad("leader-elect-retry-period", retry, "must be positive")
		}
		if e.ResourceLock != resourcelock.LeasesResourceLock {
			bad("leader-elect-resource-lock", e.ResourceLock, "must be leases")
		}
		if e.ResourceName == "" || e.ResourceNamespace == "" {
			bad("leader-elect-resource-name", e.ResourceName, "must name a lease, and --leader-elect-resource-namespace its namespace")
		}
	}
	for _, f := range []struct{ flag, address string }{
		{"metrics-bind-address", o.MetricsAddress}, {"health-probe-bind-address", o.HealthAddress},
	} {
		if err := serving.CheckAddress(f.address); err != nil {
			bad(f.flag, f.address, err.Error())
		}
	}
	return errors.Join(errs...)
}
