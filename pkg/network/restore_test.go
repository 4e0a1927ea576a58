package network

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func TestRestore(t *testing.T) {
	const block = `
		block 10.0.0.0/24 uid=n-earlier orphaned nofinalizer age=1m
		10.0.0.2 Bound web-0/u1 Pod2/web 50h
		10.0.0.3 Reserved web-1 Pod2/web 50h
		10.0.0.4 Resting x 50h
		`
	const inherit = `inherit from Network n-earlier; reserve 10.0.0.2 for web-0; reserve 10.0.0.3 for web-1; reserve 10.0.0.4 for x; add owner reference; add finalizer; if terminated: web-0 (u1)`
	checkPlans(t, []planTest{
		{"a restored Network inherits: all entries become Reserved, and nothing is bound before that is written", `
			network blue 10.0.0.0/24 restored age=10s` + block + `
			pod web-0/u7 gated asks=blue has=blue:10.0.0.2/24 of=Pod2/web
			pod b/u8 gated asks=blue`, `
			update block blue-10.0.0.0: ` + inherit + `
			again in 50s`},
		{"so does a new Network that was never marked, for example from a manifest", `
			network blue 10.0.0.0/24 new` + block + `
			pod b/u8 gated asks=blue`, `
			update block blue-10.0.0.0: ` + inherit},
		{"an address that a pod had left for another one is not kept", `
			network blue 10.0.0.0/24 new
			block 10.0.0.0/24 uid=n-earlier orphaned
			10.0.0.2 Resting web-0 Pod2/web 50h
			10.0.0.9 Reserved web-0 Pod2/web 50h`, `
			update block blue-10.0.0.0: inherit from Network n-earlier; reserve 10.0.0.9 for web-0; add owner reference
			again in 1s`},
		{"the finalizer of the Network comes first", `
			network blue 10.0.0.0/24 new nofinalizer` + block, `
			add finalizer
			update block blue-10.0.0.0: ` + inherit},
		{"not a Network that handed out addresses: the entries end with their pods", `
			network blue 10.0.0.0/24` + block, `
			update block blue-10.0.0.0: free 10.0.0.2 of web-0; free 10.0.0.3 of web-1; free 10.0.0.4 of x; seal and remove finalizer; if terminated: web-0 (u1)`},
		{"not a Network that is being deleted", `
			network blue 10.0.0.0/24 new terminating nofinalizer` + block, `
			update block blue-10.0.0.0: free 10.0.0.2 of web-0; free 10.0.0.3 of web-1; free 10.0.0.4 of x; seal and remove finalizer; if terminated: web-0 (u1)`},
		{"not a block in which a live pod holds an address: it is treated as one of an earlier Network", `
			network blue 10.0.0.0/24 new` + block + `
			pod web-0/u1 has=blue:10.0.0.2/24 of=Pod2/web`, `
			begin; if alive: web-0 (u1)
			update block blue-10.0.0.0: free 10.0.0.3 of web-1; free 10.0.0.4 of x; add finalizer`},
		{"while the Network waits for its blocks, the view of the pod may be old", `
			network blue 10.0.0.0/24 restored age=10s` + block + `
			pod web-0/u1 has=blue:10.0.0.2/24 of=Pod2/web`, `
			again in 50s`},
		{"not a sealed block", `
			network blue 10.0.0.0/24 new
			block 10.0.0.0/24 uid=n-earlier orphaned sealed nofinalizer`, `
			begin
			delete block blue-10.0.0.0: empty and sealed`},
		{"not a block of a Network that was removed by force: the block has its owner reference", `
			network blue 10.0.0.0/24 new
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.3 Reserved web-1 Pod2/web`, `
			begin
			update block blue-10.0.0.0: free 10.0.0.3 of web-1; seal and remove finalizer`},
		{"not an empty block", `
			network blue 10.0.0.0/24 new
			block 10.0.0.0/24 uid=n-earlier orphaned`, `
			begin
			update block blue-10.0.0.0: seal and remove finalizer`},
		{"without a Network it waits", `
			network blue -` + block, `
			again in 59m0s`},
		{"for an hour", `
			network blue -
			block 10.0.0.0/24 uid=n-earlier orphaned age=1h
			10.0.0.3 Reserved web-1 Pod2/web`, `
			update block blue-10.0.0.0: free 10.0.0.3 of web-1; seal and remove finalizer`},
		{"a block that lost its owner reference takes no entry until it has it back", `
			network blue 10.0.0.0/23
			block 10.0.0.0/24 orphaned
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/23
			pod b/u2 gated asks=blue=10.0.0.3`, `
			update block blue-10.0.0.0: add owner reference
			b (u2) waits: AddressInUse: the wanted address 10.0.0.3 of Network "blue" is not free yet; wait until it is free, or ask for another one, or for none to get any`},
		{"until then the pod that has an address in it waits", `
			network blue 10.0.0.0/16
			owner Pod2/web 1 blue
			block 10.0.0.0/24 orphaned
			10.0.0.5 Reserved web-0 Pod2/web 100s
			pod web-0/u1 gated asks=blue of=Pod2/web`, `
			update block blue-10.0.0.0: add owner reference`},
	})
}

func TestRestoredNetworkWaitsForItsBlocks(t *testing.T) {
	const waits = `Network "blue" was restored from a backup: until 2026-01-02T15:04:35Z it waits for its AddressBlocks and serves only pods whose address is in one`
	checkPlans(t, []planTest{
		{"it serves pods whose address it keeps or is free in an existing block", `
			network blue 10.0.0.0/23 restored age=30s
			owner Pod2/web 3 blue
			block 10.0.0.0/24 inherited=5s
			10.0.0.2 Reserved web-0 Pod2/web 5s
			pod web-0/u1 gated asks=blue of=Pod2/web
			pod web-1/u2 gated asks=blue of=Pod2/web has=blue:10.0.0.3/23
			pod web-2/u3 gated asks=blue of=Pod2/web has=blue:10.0.1.3/23
			pod b/u4 gated asks=blue`, `
			update block blue-10.0.0.0: bind 10.0.0.2 to web-0 (u1); bind 10.0.0.3 to web-1 (u2)
			b (u4) waits: NetworkNotReady: ` + waits + `
			web-2 (u3) waits: NetworkNotReady: ` + waits + `
			again in 30s`},
		{"addresses of running pods are written back at once", `
			network blue 10.0.0.0/24 restored age=30s
			pod a/u1 has=blue:10.0.0.2/24`, `
			create block blue-10.0.0.0: bind 10.0.0.2 to a (u1)
			again in 30s`},
		{"after a minute it serves all pods, and first says so", `
			network blue 10.0.0.0/23 restored age=1m
			pod b/u4 gated asks=blue has=blue:10.0.1.3/23`, `
			begin
			create block blue-10.0.1.0: bind 10.0.1.3 to b (u4)`},
		{"a pod on two Networks waits for the Network that waits", `
			network blue 10.0.0.0/24
			network green 10.1.0.0/24 restored age=30s
			pod b/u4 gated asks=blue,green`,
			`again in 30s`},
	})
}

func TestGraceOfInheritedEntries(t *testing.T) {
	checkPlans(t, []planTest{
		{"they are kept for owners that do not exist yet, and for pods without an owner", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 inherited=59m
			10.0.0.2 Reserved web-0 Pod2/web 59m
			10.0.0.3 Reserved x 59m
			10.0.0.4 Reserved y ReplicaSet/z 59m
			pod b/u4 gated asks=blue=10.0.0.3`, `
			b (u4) waits: AddressInUse: the wanted address 10.0.0.3 of Network "blue" is reserved for pod x; wait until it is free, or ask for another one, or for none to get any
			again in 1m0s`},
		{"a pod with this name and no owner gets its address", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 inherited=59m
			10.0.0.3 Reserved x 59m
			pod x/u4 gated asks=blue has=blue:10.0.0.3/24`,
			`update block blue-10.0.0.0: bind 10.0.0.3 to x (u4)`},
		{"a pod that its owner has yet to adopt waits", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 inherited=59m
			10.0.0.3 Reserved web-0 Pod2/web 59m
			pod web-0/u4 gated asks=blue has=blue:10.0.0.3/24`, `
			web-0 (u4) waits: AddressInUse: the wanted address 10.0.0.3 of Network "blue" is reserved for pod web-0; wait until it is free, or ask for another one, or for none to get any
			again in 1m0s`},
		{"not if no pod of this Network can have the address, because the Network in the backup had another CIDR or gateway", `
			network blue 10.0.0.0/28 gateway=10.0.0.3 exclude=10.0.0.5 cidrs=10.0.0.0/29,10.0.0.0/28
			owner Pod2/web 5 blue
			block 10.0.0.0/24 inherited=59m
			10.0.0.3 Reserved web-0 Pod2/web 59m
			10.0.0.5 Reserved web-1 Pod2/web 59m
			10.0.0.7 Reserved web-2 Pod2/web 59m
			10.0.0.15 Reserved web-3 Pod2/web 59m
			10.0.0.16 Reserved web-4 Pod2/web 59m
			pod web-0/u1 gated asks=blue of=Pod2/web
			pod web-1/u2 gated asks=blue of=Pod2/web
			pod web-2/u3 gated asks=blue of=Pod2/web
			pod web-3/u4 gated asks=blue of=Pod2/web
			pod web-4/u5 gated asks=blue of=Pod2/web`, `
			update block blue-10.0.0.0: bind 10.0.0.1 to web-0 (u1); bind 10.0.0.2 to web-2 (u3); rest 10.0.0.3 of web-0; bind 10.0.0.4 to web-3 (u4); bind 10.0.0.5 to web-1 (u2); bind 10.0.0.6 to web-4 (u5); rest 10.0.0.7 of web-2; rest 10.0.0.15 of web-3; rest 10.0.0.16 of web-4
			again in 1m0s`},
		{"after an hour they rest", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 inherited=60m
			10.0.0.3 Reserved x 60m`, `
			update block blue-10.0.0.0: rest 10.0.0.3 of x
			again in 1m0s`},
		{"those that were reserved later are not kept", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 inherited=59m
			10.0.0.3 Reserved web-0 Pod2/web 58m`, `
			update block blue-10.0.0.0: rest 10.0.0.3 of web-0
			again in 1m0s`},
		{"they are kept if the clock was a little ahead", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 inherited=-3s
			10.0.0.3 Reserved web-0 Pod2/web -3s`,
			`again in 1h0m0s`},
		{"a clock that was far ahead keeps no address", `
			network blue 10.0.0.0/24
			block 10.0.0.0/24 inherited=-24h
			10.0.0.3 Reserved x -24h`, `
			update block blue-10.0.0.0: rest 10.0.0.3 of x
			again in 1m0s`},
	})
}

// A pod that carries an address from a backup gets the same as a pod that asks for this
// address. Users who may create a pod may write either, unless a policy forbids it.
func TestBringingAnAddressIsAskingForIt(t *testing.T) {
	for _, ledger := range []string{
		``,
		`10.0.0.4 Bound b/u2`,
		`10.0.0.4 Reserved web-0 Pod2/web`,
		`10.0.0.4 Reserved web-9 Pod2/web 10m`,
		`10.0.0.4 Resting b 10s`,
		`10.0.0.4 Resting a 10s`,
		`10.0.0.3 Bound a/u1`,
		`10.0.0.3 Resting a 10s`,
	} {
		for _, spec := range []string{"10.0.0.0/24", "10.0.0.0/24 exclude=10.0.0.4", "10.0.0.0/24 gateway=10.0.0.4", "10.7.0.0/24", "10.0.0.0/24 restored age=30s"} {
			state := "network blue " + spec + "\nowner Pod2/web 1 blue\n" + ledger + "\npod b/u2 has=blue:10.0.0.9/24\n"
			brings := Diff(parse(t, state+"pod a/u1 gated asks=blue has=blue:10.0.0.4/24")).String()
			asks := Diff(parse(t, state+"pod a/u1 gated asks=blue=10.0.0.4")).String()
			if brings != asks {
				t.Errorf("in\n%s\na pod that carries the address gets\n%s\na pod that asks for it gets\n%s", state, brings, asks)
			}
		}
	}
}

func TestRequestBeatsWhatThePodBrings(t *testing.T) {
	checkPlans(t, []planTest{{"it asks for another address", `
		network blue 10.0.0.0/24
		pod a/u1 gated asks=blue=10.0.0.9 has=blue:10.0.0.4/24`,
		`create block blue-10.0.0.0: bind 10.0.0.9 to a (u1)`}})
}

// Only the annotation decides when the hour of an entry ends. A damaged annotation keeps no
// address and has no other effect.
func TestSpoiledTimeOfInheritance(t *testing.T) {
	s := parse(t, `
		network blue 10.0.0.0/24
		10.0.0.3 Reserved x 1m`)
	s.Blocks[0].Annotations = map[string]string{v1.InheritedAnnotation: "yesterday"}
	if got := Diff(s).String(); !strings.Contains(got, "rest 10.0.0.3 of x") {
		t.Error(got)
	}
}

func TestAwaitsBlocks(t *testing.T) {
	for _, tt := range []struct {
		network string
		want    time.Duration
	}{
		{"blue 10.0.0.0/24 restored age=10s", 50 * time.Second},
		{"blue 10.0.0.0/24 restored age=2m", 0},
		{"blue 10.0.0.0/24 restored age=-2h", time.Minute},
		{"blue 10.0.0.0/24 restored age=10s terminating", 0},
		{"blue 10.0.0.0/24 new age=10s", 0},
		{"blue 10.0.0.0/24 age=10s", 0},
	} {
		if got := AwaitsBlocks(parse(t, "network "+tt.network).Network, now); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.network, got, tt.want)
		}
	}
}
