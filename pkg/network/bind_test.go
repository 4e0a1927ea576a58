package network

import (
	"strings"
	"testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestBind(t *testing.T) {
	checkPlans(t, []planTest{
		{"the first usable address after the gateway, in a new block", `
			network blue 10.0.0.0/29 nofinalizer
			pod web-0/u0 gated asks=blue`, `
			add finalizer
			create block blue-10.0.0.0: bind 10.0.0.2 to web-0 (u0)`},
		{"the lowest free address, in one write for many pods, oldest first", `
			network blue 10.0.0.0/29
			10.0.0.3 Bound db/u9
			pod a/u1 gated asks=blue age=1m
			pod b/u2 gated asks=blue age=2m
			pod db/u9 has=blue:10.0.0.3/29`,
			`update block blue-10.0.0.0: bind 10.0.0.2 to b (u2); bind 10.0.0.4 to a (u1)`},
		{"excluded addresses are skipped, and those of a full block", `
			network blue 10.0.0.0/23 exclude=10.0.0.0/24,10.0.1.0-10.0.1.5,10.0.1.7
			pod a/u1 gated asks=blue
			pod b/u2 gated asks=blue`,
			`create block blue-10.0.1.0: bind 10.0.1.6 to a (u1); bind 10.0.1.8 to b (u2)`},
		{"no pod gets the gateway, the network or the broadcast address", `
			network blue 10.0.0.0/30 gateway=10.0.0.2
			pod a/u1 gated asks=blue
			pod b/u2 gated asks=blue`, `
			create block blue-10.0.0.0: bind 10.0.0.1 to a (u1)
			b (u2) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one`},
		{"a pod that is already bound keeps its address", `
			network blue 10.0.0.0/29
			10.0.0.2 Bound a/u1
			pod a/u1 gated asks=blue`, ``},
		{"only gated, live pods with their own network namespace and readable annotations are bound", `
			network blue 10.0.0.0/29
			pod a/u1 asks=blue
			pod b/u2 gated asks=blue terminating
			pod c/u3 gated asks=blue phase=Failed
			pod d/u4 gated asks=blue,blue
			pod e/u5 gated
			pod f/u6 gated asks=green
			pod g/u7 gated asks=blue has=!
			pod h/u8 gated asks=blue hostnetwork
			pod i/u9 gated asks=blue has=blue:10.0.0.2/29 hostnetwork`, ``},
		{"a Network that does not exist", `
			network blue -
			pod a/u1 gated asks=blue`,
			`a (u1) waits: NetworkNotFound: Network "blue" does not exist in this namespace; create it`},
		{"a Network whose spec cannot be served", `
			network blue 10.0.0.0/29 exclude=10.0.0.9-10.0.0.2
			pod a/u1 gated asks=blue`,
			`a (u1) waits: NetworkNotReady: Network "blue" cannot serve: spec.exclude: address range "10.0.0.9-10.0.0.2" is reversed: write "10.0.0.2-10.0.0.9"`},
	})
}

func TestWantedAddress(t *testing.T) {
	const net = "network blue 10.0.0.0/24 exclude=10.0.0.64/26\n"
	checkPlans(t, []planTest{
		{"free", net + `
			pod a/u1 gated asks=blue=10.0.0.10`,
			`create block blue-10.0.0.0: bind 10.0.0.10 to a (u1)`},
		{"held by another", net + `
			10.0.0.10 Bound b/u2
			pod a/u1 gated asks=blue=10.0.0.10
			pod b/u2 has=blue:10.0.0.10/24`,
			`a (u1) waits: AddressInUse: the wanted address 10.0.0.10 of Network "blue" is held by pod b; wait until it is free, or ask for another one, or for none to get any`},
		{"excluded", net + `
			pod a/u1 gated asks=blue=10.0.0.70`,
			`a (u1) waits: AddressRefused: the wanted address 10.0.0.70 is excluded by 10.0.0.64-10.0.0.127 of Network "blue"; ask for another one, or for none to get any`},
		{"outside", net + `
			pod a/u1 gated asks=blue=10.0.9.9`,
			`a (u1) waits: AddressRefused: the wanted address 10.0.9.9 is outside 10.0.0.0/24 of Network "blue"; ask for another one, or for none to get any`},
		{"the gateway", net + `
			pod a/u1 gated asks=blue=10.0.0.1`,
			`a (u1) waits: AddressRefused: the wanted address 10.0.0.1 is the gateway of Network "blue"; ask for another one, or for none to get any`},
		{"wanted by two: the older pod gets it", net + `
			pod a/u1 gated asks=blue=10.0.0.10 age=1s
			pod b/u2 gated asks=blue=10.0.0.10`, `
			create block blue-10.0.0.0: bind 10.0.0.10 to b (u2)
			a (u1) waits: AddressInUse: the wanted address 10.0.0.10 of Network "blue" is held by pod b; wait until it is free, or ask for another one, or for none to get any`},
		{"reserved for another replica", net + `
			owner Pod2/web 1 blue
			10.0.0.10 Reserved web-0 Pod2/web
			pod a/u1 gated asks=blue=10.0.0.10`,
			`a (u1) waits: AddressInUse: the wanted address 10.0.0.10 of Network "blue" is reserved for pod web-0; wait until it is free, or ask for another one, or for none to get any`},
		{"resting, of another pod", net + `
			10.0.0.10 Resting b 20s
			pod a/u1 gated asks=blue=10.0.0.10`, `
			a (u1) waits: AddressInUse: the wanted address 10.0.0.10 of Network "blue" is resting since pod b terminated; wait until it is free, or ask for another one, or for none to get any
			again in 40s`},
		{"its own, reserved, excluded since", net + `
			owner Pod2/web 1 blue
			10.0.0.70 Reserved web-0 Pod2/web
			pod web-0/u1 gated asks=blue=10.0.0.70 of=Pod2/web`,
			`update block blue-10.0.0.0: bind 10.0.0.70 to web-0 (u1)`},
		{"its own resting one, while another is reserved", net + `
			owner Pod2/web 1 blue
			10.0.0.2 Reserved web-0 Pod2/web
			10.0.0.10 Resting web-0 Pod2/web 20s
			pod web-0/u1 gated asks=blue=10.0.0.10 of=Pod2/web`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of web-0; bind 10.0.0.10 to web-0 (u1)
			again in 1m0s`},
		{"its own reserved one, while another rests", net + `
			owner Pod2/web 1 blue
			10.0.0.2 Resting web-0 Pod2/web 20s
			10.0.0.10 Reserved web-0 Pod2/web
			pod web-0/u1 gated asks=blue=10.0.0.10 of=Pod2/web`, `
			update block blue-10.0.0.0: bind 10.0.0.10 to web-0 (u1)
			again in 40s`},
		{"not its own: its own one rests", net + `
			owner Pod2/web 1 blue
			10.0.0.2 Reserved web-0 Pod2/web
			pod web-0/u1 gated asks=blue=10.0.0.10 of=Pod2/web`, `
			update block blue-10.0.0.0: rest 10.0.0.2 of web-0; bind 10.0.0.10 to web-0 (u1)
			again in 1m0s`},
		{"not its own, and not available: its own one is kept", net + `
			owner Pod2/web 1 blue
			10.0.0.2 Reserved web-0 Pod2/web
			10.0.0.10 Bound b/u2
			pod b/u2 has=blue:10.0.0.10/24
			pod web-0/u1 gated asks=blue=10.0.0.10 of=Pod2/web`,
			`web-0 (u1) waits: AddressInUse: the wanted address 10.0.0.10 of Network "blue" is held by pod b; wait until it is free, or ask for another one, or for none to get any`},
		{"promised to a pod that another Network binds first", `
			network green 10.1.0.0/24
			pod a/u1 gated asks=green=10.1.0.10
			pod b/u2 gated asks=blue,green=10.1.0.10 age=2h
			network blue 10.0.0.0/24`,
			`a (u1) waits: AddressInUse: the wanted address 10.1.0.10 of Network "green" is not free yet; wait until it is free, or ask for another one, or for none to get any`},
		{"in a range that an earlier Network still holds", net + `
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound old/u9
			pod a/u1 gated asks=blue=10.0.0.10
			pod old/u9 has=blue:10.0.0.2/24`,
			`a (u1) waits: AddressInUse: the wanted address 10.0.0.10 of Network "blue" is not free yet; wait until it is free, or ask for another one, or for none to get any`},
	})
}

// The addresses that each size hands out first, for at most three pods at once.
func TestSizes(t *testing.T) {
	const pods = "\npod a/u1 gated asks=blue\npod b/u2 gated asks=blue\npod c/u3 gated asks=blue"
	for cidr, want := range map[string]string{
		"10.0.0.0/8":    "10.0.0.2 10.0.0.3 10.0.0.4",
		"10.0.0.0/24":   "10.0.0.2 10.0.0.3 10.0.0.4",
		"10.0.0.0/29":   "10.0.0.2 10.0.0.3 10.0.0.4",
		"10.0.0.4/30":   "10.0.0.6",
		"10.0.0.4/31":   "10.0.0.5",
		"10.0.0.4/32":   "10.0.0.4",
		"fd00::/64":     "fd00::2 fd00::3 fd00::4",
		"fd00::fc/126":  "fd00::fe fd00::ff",
		"fd00::fe/127":  "fd00::ff",
		"fd00::100/127": "fd00::101",
	} {
		t.Run(cidr, func(t *testing.T) {
			s := parse(t, "network blue "+cidr+pods)
			var got []string
			for _, w := range Diff(s).Blocks {
				for _, e := range w.Block.Spec.Entries {
					got = append(got, e.Address)
				}
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestGateway(t *testing.T) {
	for _, test := range []struct{ name, network, want string }{
		{"declared", "10.0.0.0/24 gateway=10.0.0.9 was=10.0.0.1", "10.0.0.9"},
		{"declared, then removed from the spec", "10.0.0.0/24 was=10.0.0.9", "10.0.0.9"},
		{"default", "10.0.0.0/24", "10.0.0.1"},
		{"default of an excluded range", "10.0.0.0/24 exclude=10.0.0.0/28", "10.0.0.1"},
		{"the lower address of a /31", "10.0.0.4/31", "10.0.0.4"},
		{"none in a /32", "10.0.0.4/32", ""},
		{"stays when the CIDR grows downwards", "10.0.0.0/16 was=10.0.1.1", "10.0.1.1"},
		{"a Network that was a /32 still has none", "10.0.0.0/24 was=", ""},
		{"an IPv6 default", "fd00::/64", "fd00::1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Diff(parse(t, "network blue "+test.network+"\npod a/u1 gated asks=blue")).Status.Gateway; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	t.Run("recorded with the finalizer, it survives a lost status", func(t *testing.T) {
		s := parse(t, "network blue 10.0.0.0/16")
		s.Network.Annotations = map[string]string{v1.GatewayAnnotation: "10.0.1.1"}
		if got := Diff(s).Status.Gateway; got != "10.0.1.1" {
			t.Errorf("got %q", got)
		}
	})
	for _, copied := range []string{"172.16.0.1", "10.0.0.0", "10.0.255.255", "fd00::1", ""} {
		t.Run("the annotation of another Network does not count: "+copied, func(t *testing.T) {
			s := parse(t, "network blue 10.0.0.0/16")
			s.Network.Annotations = map[string]string{v1.GatewayAnnotation: copied}
			p := Diff(s)
			got, recorded := p.Status.Gateway, p.Marked(s.Network).Annotations[v1.GatewayAnnotation]
			if got != "10.0.0.1" || recorded != got {
				t.Errorf("got %q, and recorded %q", got, recorded)
			}
		})
	}
	t.Run("an annotation that users can write does not move it", func(t *testing.T) {
		s := parse(t, "network blue 10.0.0.0/16 was=10.0.0.1")
		s.Network.Annotations = map[string]string{v1.GatewayAnnotation: "10.0.1.1"}
		if got := gatewayText(s.Network); got != "10.0.0.1" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("the old gateway is not handed out after growth", func(t *testing.T) {
		s := parse(t, "network blue 10.0.0.0/23 was=10.0.1.1\npod a/u1 gated asks=blue=10.0.1.1\npod b/u2 gated asks=blue")
		const want = `create block blue-10.0.0.0: bind 10.0.0.1 to b (u2)
a (u1) waits: AddressRefused: the wanted address 10.0.1.1 is the gateway of Network "blue"; ask for another one, or for none to get any`
		if got := kept(Diff(s).String(), "status ", "event "); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
