package network

import (
	"strings"
	"testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Who of a Network that overlaps the cluster gets an address, and which.
func TestNetworksKeepOffTheCluster(t *testing.T) {
	const waits = "a (u1) waits: NetworkNotReady: Network \"blue\" cannot serve: spec.cidr overlaps "
	const cure = ", which the cluster uses itself: create a Network with another CIDR, or exclude these addresses in spec.exclude\nevent on a (u1): NetworkNotReady"
	const pod = "\npod a/u1 gated asks=blue\n"
	for _, test := range []planTest{
		{"beside it", "network blue 10.0.0.0/28\ncluster 10.0.0.16/28 Node n1\ncluster fd00::/64 Node n2" + pod, "create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)"},
		{"over it, before its first bind", "network blue 10.0.0.0/28 new\ncluster 10.0.0.0/8 ServiceCIDR kubernetes" + pod, waits + "ServiceCIDR kubernetes (10.0.0.0/8)" + cure},
		{"one address of it", "network blue 10.0.0.0/28 new\ncluster 10.0.0.5/32 address of Node n1" + pod, waits + "address of Node n1 (10.0.0.5/32)" + cure},
		{"one address of it, which is excluded", "network blue 10.0.0.0/28 exclude=10.0.0.5\ncluster 10.0.0.5/32 address of Node n1" + pod, "create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)"},
		{"of several the first is named", "network blue 10.0.0.0/28 new\ncluster 10.0.0.4/30 Node n2\ncluster 10.0.0.8/30 Node n1\ncluster 10.0.0.0/30 Node n1" + pod, waits + "Node n1 (10.0.0.0/30)" + cure},
		{"the first block is empty", "network blue 10.0.0.0/28 new\nblock 10.0.0.0/24\ncluster 10.0.0.0/8 Node n1" + pod, waits + "Node n1 (10.0.0.0/8)" + cure +
			"\nupdate block blue-10.0.0.0: seal and let go"},
		{"an earlier Network of the name had bound", "network blue 10.0.0.0/28 new\nblock 10.0.0.0/24 uid=n-earlier\n10.0.0.2 Bound b/u2\npod b/u2 has=blue:10.0.0.2/28\ncluster 10.0.0.0/8 Node n1" + pod,
			waits + "Node n1 (10.0.0.0/8)" + cure},
		{"one that has bound there goes on", "network blue 10.0.0.0/28\n10.0.0.2 Reserved web-0 Pod2/web\nowner Pod2/web 1 blue\ncluster 10.0.0.0/8 Node n1" + pod, "update block blue-10.0.0.0: bind 10.0.0.3 to a (u1)"},
		{"one that has bound elsewhere hands out none of it", "network blue 10.0.0.0/28\n10.0.0.9 Reserved web-0 Pod2/web\nowner Pod2/web 1 blue\ncluster 10.0.0.0/30 Node n1" + pod, "update block blue-10.0.0.0: bind 10.0.0.4 to a (u1)"},
		{"and so does one that has bound, and holds nothing now", "network blue 10.0.0.0/28\ncluster 10.0.0.0/30 Node n1" + pod, "create block blue-10.0.0.0: bind 10.0.0.4 to a (u1)"},
		{"but not if there is no other", "network blue 10.0.0.0/28\ncluster 10.0.0.0/8 Node n1" + pod, waits + "Node n1 (10.0.0.0/8)" + cure},
		{"wanted by name", "network blue 10.0.0.0/28\n10.0.0.9 Reserved web-0 Pod2/web\nowner Pod2/web 1 blue\ncluster 10.0.0.0/30 Node n1\npod a/u1 gated asks=blue=10.0.0.2",
			"a (u1) waits: AddressRefused: the wanted address 10.0.0.2 is excluded by 10.0.0.0-10.0.0.3 of Network \"blue\"; name another one, or none to get any\nevent on a (u1): AddressRefused"},
		{"allowed", "network blue 10.0.0.0/28\ncluster 10.0.0.0/8 Node n1\nallowed 10.0.0.0/8" + pod, "create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)"},
		{"allowed for less", "network blue 10.0.0.0/28 new\ncluster 10.0.0.0/8 Node n1\nallowed 10.0.0.0/29" + pod, waits + "Node n1 (10.0.0.0/8)" + cure},
		{"allowed, and on a CNI plugin's wire", "network blue 10.0.0.0/28 new cni\ncluster 10.0.0.0/8 Node n1\nallowed 10.0.0.0/8" + pod, waits + "Node n1 (10.0.0.0/8)" + cure},
		{"a neighbour is over it", "network blue 10.0.0.0/28\nnetwork green 10.1.0.0/28\ncluster 10.1.0.0/16 Node n1\npod a/u1 gated asks=blue,green", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := parse(t, test.in)
			got := kept(Diff(s).String(), "status ", "event Warning", "again ")
			for line := range strings.Lines(test.want) {
				if !strings.Contains(got, strings.TrimSuffix(line, "\n")) {
					t.Errorf("got\n%s\nwithout %s", got, line)
				}
			}
			if strings.Count(got, "\n") != strings.Count(test.want, "\n") || (got == "") != (test.want == "") {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestOverlapIsTold(t *testing.T) {
	status := func(s State) string {
		return kept(Diff(s).String(), "a (", "create ", "update ", "again ")
	}
	s := parse(t, "network blue 10.0.0.0/28 new\ncluster 10.0.0.0/30 Node n1")
	const refused = "spec.cidr overlaps Node n1 (10.0.0.0/30), which the cluster uses itself: create a Network with another CIDR, or exclude these addresses in spec.exclude"
	want := `status capacity 11 bound 0 reserved 0 resting 0 available 0 gateway "10.0.0.1" Ready=False/OverlapsCluster(` + refused + `) Exhausted=False/OverlapsCluster(no new pod gets an address, see Ready)
event Warning OverlapsCluster: ` + refused
	if got := status(s); got != want {
		t.Errorf("before the first bind: got\n%s\nwant\n%s", got, want)
	}
	s.Network.Status = *Diff(s).Status
	if got := status(s); got != "" {
		t.Errorf("told again: %s", got)
	}
	s = parse(t, "network blue 10.0.0.0/28\ncluster 10.0.0.0/30 Node n1\n10.0.0.2 Bound b/u2\npod b/u2 has=blue:10.0.0.2/28")
	const warned = "hands out addresses, but spec.cidr overlaps Node n1 (10.0.0.0/30), which the cluster uses itself: of such a range, none is handed out unless pods hold some already; exclude these addresses in spec.exclude, or move the pods to a Network with another CIDR"
	want = `status capacity 13 bound 1 reserved 0 resting 0 available 12 gateway "10.0.0.1" Ready=True/OverlapsCluster(` + warned + `) Exhausted=False/AddressesAvailable(no pod waits for want of a free address)
event Warning OverlapsCluster: ` + warned
	if got := status(s); got != want {
		t.Errorf("after it: got\n%s\nwant\n%s", got, want)
	}
}

func TestOverlapsOfNetworks(t *testing.T) {
	for cidr, want := range map[string]bool{"10.0.0.0/8": true, "10.0.0.5/32": true, "10.0.1.0/24": false, "fd00::/64": false, "nonsense": false} {
		r := parse(t, "network blue 10.0.0.0/28\ncluster 10.0.0.0/24 Node n1").Cluster[0]
		if got := r.Overlaps(&v1.Network{Spec: v1.NetworkSpec{CIDR: cidr}}); got != want {
			t.Errorf("%s: %t", cidr, got)
		}
	}
}
