package network

import (
	"strings"
	"testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// Which pods of a Network that overlaps the cluster get an address, and which address.
func TestNetworksKeepOffTheCluster(t *testing.T) {
	const waits = "a (u1) waits: NetworkNotReady: Network \"blue\" cannot serve: spec.cidr overlaps "
	const cure = ", which the cluster itself uses: create a Network with another CIDR, or exclude these addresses in spec.exclude\nevent on a (u1): NetworkNotReady"
	const pod = "\npod a/u1 gated asks=blue\n"
	for _, test := range []planTest{
		{"no overlap", "network blue 10.0.0.0/28\ncluster 10.0.0.16/28 Node n1\ncluster fd00::/64 Node n2" + pod, "create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)"},
		{"overlap before its first bind", "network blue 10.0.0.0/28 new\ncluster 10.0.0.0/8 ServiceCIDR kubernetes" + pod, waits + "ServiceCIDR kubernetes (10.0.0.0/8)" + cure},
		{"overlap of one address", "network blue 10.0.0.0/28 new\ncluster 10.0.0.5/32 address of Node n1" + pod, waits + "address of Node n1 (10.0.0.5/32)" + cure},
		{"overlap of one excluded address", "network blue 10.0.0.0/28 exclude=10.0.0.5\ncluster 10.0.0.5/32 address of Node n1" + pod, "create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)"},
		{"several overlaps: the message names the first", "network blue 10.0.0.0/28 new\ncluster 10.0.0.4/30 Node n2\ncluster 10.0.0.8/30 Node n1\ncluster 10.0.0.0/30 Node n1" + pod, waits + "Node n1 (10.0.0.0/30)" + cure},
		{"the first block is empty", "network blue 10.0.0.0/28 new\nblock 10.0.0.0/24\ncluster 10.0.0.0/8 Node n1" + pod, waits + "Node n1 (10.0.0.0/8)" + cure +
			"\nupdate block blue-10.0.0.0: seal and remove finalizer"},
		{"an earlier Network with this name had bound", "network blue 10.0.0.0/28 new\nblock 10.0.0.0/24 uid=n-earlier\n10.0.0.2 Bound b/u2\npod b/u2 has=blue:10.0.0.2/28\ncluster 10.0.0.0/8 Node n1" + pod,
			waits + "Node n1 (10.0.0.0/8)" + cure},
		{"a Network that has bound in the range continues", "network blue 10.0.0.0/28\n10.0.0.2 Reserved web-0 Pod2/web\nowner Pod2/web 1 blue\ncluster 10.0.0.0/8 Node n1" + pod, "update block blue-10.0.0.0: bind 10.0.0.3 to a (u1)"},
		{"a Network that has bound elsewhere hands out none of the range", "network blue 10.0.0.0/28\n10.0.0.9 Reserved web-0 Pod2/web\nowner Pod2/web 1 blue\ncluster 10.0.0.0/30 Node n1" + pod, "update block blue-10.0.0.0: bind 10.0.0.4 to a (u1)"},
		{"so does a Network that has bound and holds nothing now", "network blue 10.0.0.0/28\ncluster 10.0.0.0/30 Node n1" + pod, "create block blue-10.0.0.0: bind 10.0.0.4 to a (u1)"},
		{"it serves no pod if there is no other address", "network blue 10.0.0.0/28\ncluster 10.0.0.0/8 Node n1" + pod, waits + "Node n1 (10.0.0.0/8)" + cure},
		{"a pod asks for an address of the range", "network blue 10.0.0.0/28\n10.0.0.9 Reserved web-0 Pod2/web\nowner Pod2/web 1 blue\ncluster 10.0.0.0/30 Node n1\npod a/u1 gated asks=blue=10.0.0.2",
			"a (u1) waits: AddressRefused: the wanted address 10.0.0.2 is excluded by 10.0.0.0-10.0.0.3 of Network \"blue\"; ask for another one, or for none to get any\nevent on a (u1): AddressRefused"},
		{"allowed", "network blue 10.0.0.0/28\ncluster 10.0.0.0/8 Node n1\nallowed 10.0.0.0/8" + pod, "create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)"},
		{"allowed for a smaller range", "network blue 10.0.0.0/28 new\ncluster 10.0.0.0/8 Node n1\nallowed 10.0.0.0/29" + pod, waits + "Node n1 (10.0.0.0/8)" + cure},
		{"allowed, but the Network is of type CNI", "network blue 10.0.0.0/28 new cni\ncluster 10.0.0.0/8 Node n1\nallowed 10.0.0.0/8" + pod, waits + "Node n1 (10.0.0.0/8)" + cure},
		{"a neighbour overlaps", "network blue 10.0.0.0/28\nnetwork green 10.1.0.0/28\ncluster 10.1.0.0/16 Node n1\npod a/u1 gated asks=blue,green", ""},
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
	const refused = "spec.cidr overlaps Node n1 (10.0.0.0/30), which the cluster itself uses: create a Network with another CIDR, or exclude these addresses in spec.exclude"
	want := `status capacity 11 bound 0 reserved 0 resting 0 available 0 gateway "10.0.0.1" Ready=False/OverlapsCluster(` + refused + `) AddressesAvailable=Unknown/OverlapsCluster(no new pod gets an address; see condition Ready)
event Warning OverlapsCluster: ` + refused
	if got := status(s); got != want {
		t.Errorf("before the first bind: got\n%s\nwant\n%s", got, want)
	}
	s.Network.Status = *Diff(s).Status
	if got := status(s); got != "" {
		t.Errorf("reported again: %s", got)
	}
	s = parse(t, "network blue 10.0.0.0/28\ncluster 10.0.0.0/30 Node n1\n10.0.0.2 Bound b/u2\npod b/u2 has=blue:10.0.0.2/28")
	const warned = "hands out addresses, but spec.cidr overlaps Node n1 (10.0.0.0/30), which the cluster itself uses. The Network hands out addresses of such a range only if pods already hold some of it. Exclude these addresses in spec.exclude, or move the pods to a Network with another CIDR"
	want = `status capacity 13 bound 1 reserved 0 resting 0 available 12 gateway "10.0.0.1" Ready=True/OverlapsCluster(` + warned + `) AddressesAvailable=True/AddressesAvailable(no pod waits for a free address)
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
