//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	k8smetrics "k8s.io/component-base/metrics"

	"github.com/pod2/pod2/pkg/agent/dataplane"
)

// memory is a kernel that applies the table whenever it differs from the last one, or if it is damaged. It fails with
// err, if that is not nil.
type memory struct {
	bridges []string
	host    dataplane.Host
	damaged bool
	err     error
	done    []string
	// Pods refuse all routes with failed, if that is not nil.
	pods   []dataplane.Port
	failed error
}

func (m *memory) Bridges() ([]string, error) { return m.bridges, nil }

func (m *memory) Apply(want dataplane.Host) (done dataplane.Plan, err error) {
	if !m.damaged && m.host.Equal(want) {
		return nil, m.err
	}
	if m.err != nil {
		return nil, m.err
	}
	m.host, m.damaged = want, false
	done = dataplane.Plan{{Kind: dataplane.KindTable, Text: fmt.Sprint("replace the table, with ", len(want.Table.Sets[4].Elements), " nodes")}}
	m.done = append(m.done, done.String())
	return done, nil
}

func (m *memory) AddPodRoutes(grown []dataplane.Port) (done dataplane.Plan, failed []error) {
	m.pods = append(m.pods, grown...)
	for _, p := range grown {
		if m.failed != nil {
			failed = append(failed, m.failed)
		} else {
			done = append(done, dataplane.Step{Kind: dataplane.KindRoute, Text: "add a route in " + p.Pod})
		}
	}
	return done, failed
}

// plugged are the ports of the node. Their Sync finds changes, takes a time, and fails with err, if that is not nil.
type plugged struct {
	here    []dataplane.Network
	ports   []dataplane.Port
	changes int
	took    time.Duration
	err     error
	unready error
	blocked error
	synced  []string
}

func (p *plugged) State() ([]dataplane.Network, []dataplane.Port) { return p.here, p.ports }

func (p *plugged) Sync(full bool) (int, time.Duration, error) {
	p.synced = append(p.synced, fmt.Sprint(full))
	return p.changes, p.took, p.err
}

func (p *plugged) Block(why error)      { p.blocked = why }
func (p *plugged) Ready() error         { return p.unready }
func (p *plugged) Problems() []string   { return nil }
func (p *plugged) Size() map[string]int { return map[string]int{"port": len(p.ports)} }

// cluster of nodes. The first one, if any, is this node.
func cluster(nodes ...string) dataplane.State {
	var s dataplane.State
	for _, a := range nodes {
		s.Nodes = append(s.Nodes, netip.MustParseAddr(a))
	}
	s.Self = s.Nodes[:min(1, len(nodes))]
	return s
}

func newTestAgent(h host, s *dataplane.State) *agent {
	o := &options{node: "n1", vxlanPort: 4789, vxlanReversePathFilter: true, transit: netip.MustParsePrefix("100.64.0.0/16"), resync: time.Hour}
	return newAgent(h, &plugged{}, func() dataplane.State { return *s }, o)
}

// registered returns a registry: metrics count only once they are registered.
func registered(a *agent) k8smetrics.KubeRegistry {
	r := k8smetrics.NewKubeRegistry()
	r.MustRegister(a.metrics.all()...)
	return r
}

// metricsText has the metrics that are more than 0.
func metricsText(t *testing.T, r k8smetrics.KubeRegistry, names ...string) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, name := range names {
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == name && (m.GetCounter().GetValue() > 0 || m.GetGauge().GetValue() > 0 || m.GetHistogram().GetSampleCount() > 0) {
					lines = append(lines, strings.TrimSpace(fmt.Sprint(name, " ", m.GetLabel(), " ", m.GetCounter().GetValue()+m.GetGauge().GetValue()+float64(m.GetHistogram().GetSampleCount()))))
				}
			}
		}
	}
	return strings.Join(lines, "\n")
}

// Steps that follow from a change in the cluster are changes. Steps with an unchanged desired
// state are repairs.
func TestSyncTellsRepairsFromChanges(t *testing.T) {
	s := cluster("10.0.0.1")
	m := &memory{}
	a := newTestAgent(m, &s)
	r := registered(a)
	sync := func() {
		t.Helper()
		if err := a.sync(t.Context()); err != nil || a.ready() != nil {
			t.Fatal(err, a.ready())
		}
	}
	if a.ready() == nil {
		t.Error("ready before the first sync")
	}
	sync()
	m.damaged = true
	sync()
	sync()
	s = cluster("10.0.0.1", "10.0.0.2")
	sync()
	if got, want := strings.Join(m.done, "--\n"), `replace the table, with 1 nodes
--
replace the table, with 1 nodes
--
replace the table, with 2 nodes
`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got := metricsText(t, r, "pod2_agent_repairs_total", "pod2_agent_changes_total")
	if want := `pod2_agent_repairs_total [name:"kind" value:"table"] 1
pod2_agent_changes_total [name:"kind" value:"table"] 2`; strings.ReplaceAll(got, "  ", " ") != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// After an error the agent is not ready, and steps that were not done do not count.
func TestSyncFails(t *testing.T) {
	s := cluster("10.0.0.1")
	m := &memory{err: errors.New("refused")}
	a := newTestAgent(m, &s)
	r := registered(a)
	for range 2 {
		if err := a.sync(t.Context()); err == nil || err.Error() != "refused" || a.ready() == nil {
			t.Error(err, a.ready())
		}
	}
	m.err = nil
	if err := a.sync(t.Context()); err != nil || a.ready() != nil {
		t.Error(err, a.ready())
	}
	if got, want := metricsText(t, r, "pod2_agent_repairs_total", "pod2_agent_changes_total", "pod2_agent_ready"),
		"pod2_agent_changes_total [name:\"kind\" value:\"table\"] 1\npod2_agent_ready [] 1"; strings.ReplaceAll(got, "  ", " ") != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	s = cluster()
	if err := a.sync(t.Context()); err == nil || !strings.Contains(err.Error(), "the Node has no address") || a.ready() == nil {
		t.Error(err)
	}
	if got := metricsText(t, r, "pod2_agent_ready"); got != "" {
		t.Errorf("got %s", got)
	}
}

// Undoing a change that failed is not a repair: the cluster asked for both.
func TestChangeThatFailedIsNotRepaired(t *testing.T) {
	s := cluster("10.0.0.1")
	m := &memory{}
	a := newTestAgent(m, &s)
	r := registered(a)
	for _, step := range []struct {
		cluster dataplane.State
		err     error
	}{{cluster("10.0.0.1"), nil}, {cluster("10.0.0.1", "10.0.0.2"), errors.New("refused")}, {cluster("10.0.0.1"), nil}} {
		s, m.err = step.cluster, step.err
		if err := a.sync(t.Context()); (err == nil) != (step.err == nil) {
			t.Error(err)
		}
	}
	if got := metricsText(t, r, "pod2_agent_repairs_total"); got != "" {
		t.Errorf("got %s", got)
	}
}

// Retrying a repair that failed is a repair: the cluster asked for nothing.
func TestRepairThatFailedIsARepair(t *testing.T) {
	s := cluster("10.0.0.1")
	m := &memory{}
	a := newTestAgent(m, &s)
	r := registered(a)
	refused := errors.New("refused")
	for i, err := range []error{nil, refused, refused, nil} {
		m.err, m.damaged = err, i > 0
		if err := a.sync(t.Context()); !errors.Is(err, m.err) {
			t.Error(err)
		}
	}
	if got, want := metricsText(t, r, "pod2_agent_repairs_total", "pod2_agent_changes_total"),
		"pod2_agent_repairs_total [name:\"kind\" value:\"table\"] 1\npod2_agent_changes_total [name:\"kind\" value:\"table\"] 1"; strings.ReplaceAll(got, "  ", " ") != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// No pod gets a node's credentials from its cloud unless the command line allows it.
func TestMetadataIsDenied(t *testing.T) {
	for _, address := range []string{"169.254.169.254", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200", "168.63.129.16",
		"192.0.0.192", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "fd00:100::100:200"} {
		o, err := parseOptions([]string{"--node-name=n1", "--deny-cidrs=10.96.0.0/12"})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(o.denied, func(p netip.Prefix) bool { return p.Contains(netip.MustParseAddr(address)) }) {
			t.Errorf("%s is not denied by %v", address, o.denied)
		}
	}
}

// Flags for filters show up in the table.
func TestFilterOptions(t *testing.T) {
	for arg, want := range map[string]string{
		"--deny-cidrs=10.96.0.0/12,fd00::/8":                  "{ 10.96.0.0/12,\n\t\t\t     100.100.100.200,\n\t\t\t     168.63.129.16,\n\t\t\t     169.254.0.0/16,\n",
		"--deny-cidrs=":                                       "{ 100.100.100.200,\n\t\t\t     168.63.129.16,\n\t\t\t     169.254.0.0/16,\n",
		"--deny-cidrs=-169.254.0.0/16":                        "{ 100.100.100.200,\n\t\t\t     168.63.129.16,\n\t\t\t     192.0.0.192 }",
		"--deny-cidrs=-169.254.0.0/16,169.254.169.254/32":     "     168.63.129.16,\n\t\t\t     169.254.169.254,\n",
		"--vxlan-port=8472":                                   "meta l4proto udp th dport 8472 @th,96,24 >= 65536 goto vxlan",
		"--vxlan-reverse-path-filter=false --vxlan-port=8472": "8472 @th,96,24 >= 65536 ip daddr @nodes4 notrack",
	} {
		o, err := parseOptions(append(strings.Fields(arg), "--node-name=n1"))
		if err != nil {
			t.Fatal(err)
		}
		s := cluster("10.0.0.1")
		k := &memory{}
		a := newAgent(k, &plugged{}, func() dataplane.State { return s }, o)
		if err := a.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := a.last.Table.String(); !strings.Contains(got, want) || o.vxlanReversePathFilter != strings.Contains(got, "fib saddr") {
			t.Errorf("%s: got\n%s\nwithout\n%s", arg, got, want)
		}
	}
}

// The loop syncs once at the start, and once more after any number of rings.
func TestRunIsWokenUp(t *testing.T) {
	s := cluster("10.0.0.1")
	synced := make(chan int)
	m := &counting{synced: synced}
	a := newTestAgent(m, &s)
	ctx, stop := context.WithCancel(t.Context())
	wake := newAlarm()
	ended := make(chan struct{})
	go func() { a.run(ctx, wake); close(ended) }()
	<-synced
	for range 10 {
		wake.ring()
	}
	<-synced
	stop()
	<-ended
}

type counting struct {
	memory
	synced chan int
}

func (c *counting) Apply(dataplane.Host) (dataplane.Plan, error) {
	c.synced <- 1
	return nil, nil
}

func TestOptions(t *testing.T) {
	t.Setenv("NODE_NAME", "n1")
	for _, tt := range []struct{ args, want string }{
		{"", ""}, {"--help", "help"}, {"cleanup", "cleanup"}, {"status", "status"}, {"status ports", "status ports"}, {"trace a 10.0.0.1", "trace a 10.0.0.1"},
		{"x", `unexpected arguments ["x"]: the commands are cleanup, status [TABLE] and trace POD ADDRESS`},
		{"trace a", `unexpected arguments ["trace" "a"]: the commands are cleanup, status [TABLE] and trace POD ADDRESS`},
		{"--transit-cidr=10.0.0.1/8", "--transit-cidr=10.0.0.1/8: must be an IPv4 CIDR without host bits, of at least 256 addresses"},
		{"--transit-cidr=10.0.0.0/25", "--transit-cidr=10.0.0.0/25: must be an IPv4 CIDR without host bits, of at least 256 addresses"},
		{"--transit-cidr=fd00::/64", "--transit-cidr=fd00::/64: must be an IPv4 CIDR without host bits, of at least 256 addresses"},
		{"--deny-cidrs=10.0.0.0/8,fd00::/8 --deny-cidrs=169.254.169.254/32", ""},
		{"--deny-cidrs=10.0.0.0/8,10.0.0.1/8", "--deny-cidrs=10.0.0.1/8: must be a CIDR without host bits"},
		{"--deny-cidrs=10.0.0.1", "--deny-cidrs=10.0.0.1: must be a CIDR without host bits"},
		{"--deny-cidrs=::ffff:10.0.0.0/104", "--deny-cidrs=::ffff:10.0.0.0/104: must be a CIDR without host bits"},
		{"--deny-cidrs=-10.0.0.0/8", "--deny-cidrs=-10.0.0.0/8: only a CIDR that is denied by default can be allowed: " + denyDefaults()},
		{"--node-name=", "--node-name=: must be the name of this Node; set the flag or the variable NODE_NAME"},
		{"--vxlan-port=0", "--vxlan-port=0: must be a UDP port"},
		{"--underlay-mtu=1000", "--underlay-mtu=1000: must be from 1330 (the minimum of IPv6, plus the headers of VXLAN) to 65535"},
		{"--resync=1ms", "--resync=1ms: must be at least 1s"},
		{"--metrics-bind-address=x", "--metrics-bind-address=x: must be host:port, :port, or 0 to disable"},
	} {
		o, err := parseOptions(strings.Fields(tt.args))
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case o.help:
			got = "help"
		default:
			got = strings.Join(o.command, " ")
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
}
