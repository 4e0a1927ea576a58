package app

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pod2/pod2/internal/version"
)

func TestBadCommandLines(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--wrokers=3", "unknown flag: --wrokers"},
		{"run", `unexpected argument "run": there are only flags`},
		{"--workers=many", `invalid argument "many" for "--workers" flag: strconv.ParseInt: parsing "many": invalid syntax`},
		{"--workers=0", "--workers=0: must be at least 1"},
		{"--namespace=Blue_1", "--namespace=Blue_1: must be the name of a namespace, or empty for all"},
		{"--cluster-cidrs=10.96.0.0/12,10.0.0.1", `--cluster-cidrs=10.96.0.0/12,10.0.0.1: must be CIDRs such as 10.96.0.0/12, separated by commas: netip.ParsePrefix("10.0.0.1"): no '/'`},
		{"--allow-cluster-overlap=all", `--allow-cluster-overlap=all: must be CIDRs such as 10.96.0.0/12, separated by commas: netip.ParsePrefix("all"): no '/'`},
		{"--kube-api-qps=0", "--kube-api-qps=0: must be positive, or -1 for no limit"},
		{"--kube-api-qps=50 --kube-api-burst=0", "--kube-api-burst=0: must be at least 1 when --kube-api-qps sets a limit"},
		{"--metrics-bind-address=8080", "--metrics-bind-address=8080: must be host:port, :port, or 0 to disable"},
		{"--health-probe-bind-address=", "--health-probe-bind-address=: must be host:port, :port, or 0 to disable"},
		{"--leader-elect --leader-elect-lease-duration=10s", "--leader-elect-lease-duration=10s: must be at least 1s and more than --leader-elect-renew-deadline (10s)"},
		{"--leader-elect --leader-elect-renew-deadline=2s", "--leader-elect-renew-deadline=2s: must be more than 1.2 times --leader-elect-retry-period (2s)"},
		{"--leader-elect --leader-elect-retry-period=0s", "--leader-elect-retry-period=0s: must be positive"},
		{"--leader-elect --leader-elect-resource-lock=endpoints", "--leader-elect-resource-lock=endpoints: must be leases"},
		{"--leader-elect --leader-elect-resource-name=", "--leader-elect-resource-name=: must name a lease, and --leader-elect-resource-namespace its namespace"},
		{"--workers=0 --kube-api-qps=0", "--workers=0: must be at least 1\n--kube-api-qps=0: must be positive, or -1 for no limit"},
	} {
		var stdout, stderr bytes.Buffer
		code := Command(strings.Fields(test.args), &stdout, &stderr, nil)
		want := "pod2-controller: " + test.want + "\nRun pod2-controller --help for the flags.\n"
		if code != 2 || stderr.String() != want || stdout.Len() > 0 {
			t.Errorf("pod2-controller %s\nexit status %d, want 2; stdout %q, want none; stderr:\n%swant:\n%s", test.args, code, stdout.String(), stderr.String(), want)
		}
	}
}

// The help of the flags and the version are results: on stdout, with status 0.
func TestHelpAndVersion(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--help", "pod2-controller runs the Networks, Pod2s and CronTabs of a cluster.\n"},
		{"--help", "--kubeconfig string"},
		{"-h", "--leader-elect-resource-namespace string"},
		{"--version", "pod2-controller " + version.String() + "\n"},
		{"--version --workers=0", "pod2-controller " + version.String() + "\n"},
	} {
		var stdout, stderr bytes.Buffer
		if code := Command(strings.Fields(test.args), &stdout, &stderr, nil); code != 0 || stderr.Len() > 0 || !strings.Contains(stdout.String(), test.want) {
			t.Errorf("pod2-controller %s\nexit status %d, want 0; stderr %q, want none; stdout lacks %q:\n%s", test.args, code, stderr.String(), test.want, stdout.String())
		}
	}
}

func TestFlagsMayBeWrittenWithUnderscores(t *testing.T) {
	o, err := parseOptions([]string{"--kube_api_qps=7"})
	if err != nil || o.kubeQPS != 7 {
		t.Errorf("--kube_api_qps=7: %v, %v", o, err)
	}
}

// The defaults of the leader election flags must be valid while it is off.
func TestDefaultsAreValid(t *testing.T) {
	for _, args := range [][]string{nil, {"--leader-elect"}, {"--leader-elect-lease-duration=1s"}} {
		if _, err := parseOptions(args); err != nil {
			t.Errorf("pod2-controller %s: %v", args, err)
		}
	}
}

func TestNoClusterNamed(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err := restConfig(NewOptions())
	if err == nil || !strings.Contains(err.Error(), "pass --kubeconfig or --master, for example --kubeconfig=$HOME/.kube/config") {
		t.Errorf("restConfig outside of a cluster and without flags: %v", err)
	}
}
