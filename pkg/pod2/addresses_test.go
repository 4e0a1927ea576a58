package pod2

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// held parses the holders of addresses of the Network blue, such as
//
//	10.0.0.8 Bound web-0, 10.0.0.9 Reserved web-1 30s, 10.0.0.7 Bound db-0 of=Pod2/db,
//	10.0.0.6 Reserved db-2 of=Pod2/db away 30s
func held(t *testing.T, text string) []Holder {
	t.Helper()
	var holders []Holder
	for line := range strings.SplitSeq(text, ",") {
		words := strings.Fields(line)
		h := Holder{Network: "blue", AddressEntry: v1.AddressEntry{
			Address: words[0], State: v1.AddressState(words[1]), Pod: words[2], Owner: v1.AddressOwner{Kind: "Pod2", Name: "web"},
			Since: metav1.NewTime(now.Add(-3600e9)),
		}}
		if h.State == v1.AddressBound {
			h.PodUID = types.UID("u-" + strings.TrimPrefix(h.Pod, "web-"))
		}
		for _, word := range words[3:] {
			if owner, ok := strings.CutPrefix(word, "of="); ok {
				h.Owner.Kind, h.Owner.Name, _ = strings.Cut(owner, "/")
			} else if word == "away" {
				h.ScaledAway = true
			} else {
				h.Since = metav1.NewTime(now.Add(-duration(t, word)))
			}
		}
		holders = append(holders, h)
	}
	return holders
}

// a, b and c are the addresses that web-0, web-1 and web-2 had.
const (
	had0, had1, had2 = "10.0.0.10 Bound web-0", "10.0.0.11 Bound web-1", "10.0.0.12 Bound web-2"
	others           = "False AddressInUse: "
)

func TestAddressesThatReplicasExchange(t *testing.T) {
	const (
		forward  = "replicas=3 networks=blue=10.0.0.11|10.0.0.12|10.0.0.13"
		backward = "replicas=3 networks=blue=10.0.0.9|10.0.0.10|10.0.0.11"
		cycle    = "replicas=3 networks=blue=10.0.0.11|10.0.0.12|10.0.0.10"
		swap     = "replicas=2 networks=blue=10.0.0.11|10.0.0.10"
	)
	running := []string{"web-0 request=blue=10.0.0.10", "web-1 request=blue=10.0.0.11", "web-2 request=blue=10.0.0.12"}
	for _, tt := range []struct {
		name, spec string
		pods       []string
		held       string
		want       string // the deletions and creations, or why there are none
	}{
		{"a chain starts at its free end", forward, running, had0 + "," + had1 + "," + had2, "delete web-2"},
		{"at either end", backward, running, had0 + "," + had1 + "," + had2, "delete web-0"},
		{"the next one waits until the address is free", forward, []string{running[0], running[1], "web-2"},
			had0 + "," + had1 + ",10.0.0.12 Resting web-2 30s,10.0.0.13 Bound web-2", "False Updating: 1 of 3 replicas are updated"},
		{"and is then deleted", forward, []string{running[0], running[1], "web-2"}, had0 + "," + had1 + ",10.0.0.13 Bound web-2", "delete web-1"},
		{"a cycle is stuck", cycle, running, had0 + "," + had1 + "," + had2, "False AddressCycle: web-0, web-1 and web-2 want each other's addresses, so two of them must be replaced at once: " +
			"set updateStrategy.rollingUpdate.maxUnavailable to at least 2"},
		{"a cycle is broken if two may be missing", cycle + " max=2", running, had0 + "," + had1 + "," + had2, "delete web-2"},
		{"an unavailable replica is deleted first", cycle + " max=2", []string{running[0], running[1] + " notready", running[2]}, had0 + "," + had1 + "," + had2, "delete web-1"},
		{"even if the budget is used up", swap + " max=2", []string{running[0] + " notready", running[1] + " notready"}, had0 + "," + had1, "delete web-1"},
		{"the budget must cover both", "replicas=4 max=2 networks=blue=10.0.0.11|10.0.0.12|10.0.0.10", append(running[:3:3], "web-3 notready"), had0 + "," + had1 + "," + had2,
			"False Updating: 1 of 4 replicas are updated; web-3 is not ready (Running)"},
		{"a broken cycle continues", swap + " max=2", []string{running[0], "web-1 gated"}, had0 + ",10.0.0.11 Reserved web-1", "delete web-0"},
		{"once the address has rested", swap + " max=2", []string{running[0], "web-1 gated"}, had0 + ",10.0.0.11 Reserved web-1 20s",
			"again in 40s; False WaitingForAddresses: replicas are waiting for their addresses"},
		{"not before its replica asks for another address", swap + " max=2", []string{running[0], "web-1 terminating request=blue=10.0.0.11"}, had0 + "," + had1,
			"again in 30s; False Updating: 0 of 2 replicas are updated"},
		{"a cycle is not broken twice", cycle + " max=3", []string{running[0], running[1], "web-2 terminating request=blue=10.0.0.12"}, had0 + "," + had1 + "," + had2,
			"again in 30s; False Updating: 0 of 3 replicas are updated"},
		{"one replica is missing, and two may not be", swap, []string{running[0], "web-1 gated"}, had0 + ",10.0.0.11 Reserved web-1",
			"False AddressCycle: web-0 and web-1 want each other's addresses, so two of them must be replaced at once: set updateStrategy.rollingUpdate.maxUnavailable to at least 2"},
		{"with a surge replica two may be missing", swap + " surge=1", running[:2], had0 + "," + had1, "create web-2"},
		{"then the cycle is broken with the surge replica", swap + " surge=1", append(running[:2:2], "web-2"), had0 + "," + had1, "delete web-1"},
		{"a Recreate needs no order", swap + " recreate", running[:2], had0 + "," + had1, "delete web-1; delete web-0"},
		{"unless replicas are created one by one", swap + " recreate ordered", running[:2], had0 + "," + had1,
			others + "web-0 is not updated: it wants address 10.0.0.11 of Network blue, but pod web-1 (Pod2 web) holds it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, tt.spec, tt.pods...)
			s.Holders = held(t, tt.held)
			if got := exchanged(s); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func exchanged(s State) string {
	var done []string
	plan := Diff(s)
	for _, d := range plan.Delete {
		done = append(done, "delete "+d.Name)
	}
	for _, c := range plan.Create {
		done = append(done, "create "+c.Name)
	}
	if len(done) == 0 {
		if again := lines(s, "again"); again != "" {
			done = append(done, again)
		}
		done = append(done, ready(s))
	}
	if why := undone(s); why != "" && plan.Empty() {
		done = append(done, "nothing, and there is left to do: "+why)
	}
	return strings.Join(done, "; ")
}

// A replica whose wanted address is kept runs on, and the condition names the keeper.
func TestAddressesThatOthersKeep(t *testing.T) {
	const spec = "replicas=2 networks=blue=10.0.0.10|10.0.0.20"
	told := func(by string) string {
		return others + "web-1 is not updated: it wants address 10.0.0.20 of Network blue, but " + by
	}
	running := []string{"web-0", "web-1 request=blue=10.0.0.11"}
	for _, tt := range []struct {
		name, spec string
		pods       []string
		held       string
		want       string
	}{
		{"a pod", spec, running, "10.0.0.20 Bound x of=", told("pod x holds it")},
		{"a replica of another Pod2", spec, running, "10.0.0.20 Bound db-0 of=Pod2/db", told("pod db-0 (Pod2 db) holds it")},
		{"a reservation", spec, running, "10.0.0.20 Reserved db-0 of=Pod2/db", told("it is reserved for pod db-0 (Pod2 db)")},
		{"a rest", spec, running, "10.0.0.20 Resting x of=", told("it has been resting since pod x terminated")},
		{"no other pod", spec, running, "10.0.0.99 Bound x of=", "delete web-1"},
		{"a replica that may have any address, and keeps its own", "replicas=2 networks=blue=10.0.0.11", []string{"web-0 request=blue", "web-1"}, had1,
			others + "web-0 is not updated: it wants address 10.0.0.11 of Network blue, but pod web-1 (Pod2 web) holds it"},
		{"a replica that a partition holds back", "replicas=2 partition=1 networks=blue=10.0.0.9|10.0.0.10", []string{"web-0 request=blue=10.0.0.10", "web-1 request=blue"}, had0,
			others + "web-1 is not updated: it wants address 10.0.0.10 of Network blue, but pod web-0 (Pod2 web) holds it"},
		{"a replica that has it and cannot have another", "replicas=2 networks=blue=10.0.0.20|10.0.0.10", []string{"web-0 request=blue=10.0.0.10", "web-1 request=blue"},
			had0 + ",10.0.0.20 Bound x of=", others + "web-0 is not updated: it wants address 10.0.0.20 of Network blue, but pod x holds it"},
		{"a scaled-down replica, for a while", spec, running, "10.0.0.20 Reserved web-7 20s", "again in 40s; False Updating: 1 of 2 replicas are updated"},
		{"but not after that", spec, running, "10.0.0.20 Reserved web-7", "delete web-1"},
		{"a scaled-down replica of another Pod2, for a while", spec, running, "10.0.0.20 Reserved db-7 of=Pod2/db away 20s", "again in 40s; False Updating: 1 of 2 replicas are updated"},
		{"but not after that either", spec, running, "10.0.0.20 Reserved db-7 of=Pod2/db away", "delete web-1"},
		{"the replica itself", "replicas=2 networks=blue=10.0.0.10|10.0.0.11", []string{"web-0", "web-1 request=blue"}, had1, "delete web-1"},
		{"a replica that does not run is recreated, to report why it waits", spec, []string{"web-0", "web-1 gated request=blue=10.0.0.19"}, "10.0.0.20 Bound x of=", "delete web-1"},
		{"a Recreate deletes no replica", spec + " recreate", []string{"web-0 request=blue", "web-1 request=blue"}, "10.0.0.20 Bound x of=", told("pod x holds it")},
		{"and a lost replica comes back unchanged", "replicas=2 recreate current=old networks=blue=10.0.0.10|10.0.0.20", []string{"web-1 old request=blue"}, "10.0.0.20 Bound x of=", "create web-0"},
		{"a replica that does not run blocks nothing", "replicas=2 recreate networks=blue=10.0.0.20|10.0.0.11", []string{"web-1 request=blue"}, "10.0.0.20 Bound x of=", "delete web-1"},
		{"other replicas are updated", "replicas=2 networks=blue=10.0.0.10|10.0.0.20", []string{"web-0 request=blue", "web-1 request=blue"}, "10.0.0.20 Bound x of=", "delete web-0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, tt.spec, tt.pods...)
			s.Holders = held(t, tt.held)
			if got := exchanged(s); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A lost replica whose wanted address is kept comes back with its previous address.
func TestALostReplicaThatIsKeptFromItsAddress(t *testing.T) {
	const spec = "replicas=2 current=old networks=blue=10.0.0.10|10.0.0.20"
	for _, tt := range []struct{ name, pod, held, want string }{
		{"comes back unchanged", "", "10.0.0.20 Bound x of=", "create web-1 on blue: missing"},
		{"and may start", "web-1 old request=blue gated", "10.0.0.20 Bound x of=", ""},
		{"until the address is free", "web-1 old request=blue gated", "10.0.0.20 Resting web-1", "delete web-1 (uid u-1): request for addresses changed from \"blue\" to \"blue=10.0.0.20\""},
		{"then it gets the address", "", "10.0.0.20 Resting web-1", "create web-1 on blue=10.0.0.20: missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(t, spec, "web-0")
			if tt.pod != "" {
				s = state(t, spec, "web-0", tt.pod)
			}
			before := s.Pod2.DeepCopy()
			before.Spec.Networks[0].Addresses = nil
			s.Revisions[0] = oldRevision(before)
			s.Holders = held(t, tt.held)
			if got := actions(s); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestHolders(t *testing.T) {
	p := state(t, "networks=blue=10.0.0.10|10.0.1.10|fd00::0:1,green").Pod2
	blocks := map[string]*v1.AddressBlock{
		"blue-10.0.0.0": {Spec: v1.AddressBlockSpec{Network: "blue", Entries: []v1.AddressEntry{{Address: "10.0.0.10", Pod: "a"}, {Address: "10.0.0.11", Pod: "b"}, {Address: "x"}}}},
		"blue-fd00-0000-0000-0000-0000-0000-0000-0000": {Spec: v1.AddressBlockSpec{Network: "blue", Entries: []v1.AddressEntry{{Address: "fd00::1", Pod: "c"}}}},
	}
	var got []string
	for _, h := range Holders(p, func(name string) *v1.AddressBlock { return blocks[name] }) {
		got = append(got, fmt.Sprintf("%s of %s: %s", h.Address, h.Network, h.Pod))
	}
	if want := "10.0.0.10 of blue: a, fd00::1 of blue: c"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}
