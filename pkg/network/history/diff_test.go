package history

import (
	"net/netip"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, 0, byte(2 + i)}) }

var ten = time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return ten.Add(time.Duration(seconds) * time.Second) }

// entry is of address 10.1.0.2. Without a UID it is Resting.
func entry(pod, uid string, since int) v1.AddressEntry {
	e := v1.AddressEntry{Address: address(0).String(), Pod: pod, PodUID: types.UID(uid), State: v1.AddressBound, Since: metav1.NewTime(at(since))}
	if uid == "" {
		e.State = v1.AddressResting
	}
	return e
}

// story is a Network whose AddressBlock has the given entries, one after the other, at 0, 10, 20
// seconds and so on.
type story struct {
	state   State
	now     int
	version int
}

func tell(entries ...[]v1.AddressEntry) *story {
	n := &v1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "u1"}}
	s := &story{state: State{Namespace: "default", Name: "blue", Network: n, Nodes: map[types.UID]string{"1": "n1"}}}
	for i, e := range entries {
		s.now = 10 * i
		s.become(e)
		s.sync()
	}
	return s
}

// become gives the AddressBlock new entries.
func (s *story) become(entries []v1.AddressEntry) {
	s.version++
	s.state.Blocks = []*v1.AddressBlock{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue-10.1.0.0", ResourceVersion: strconv.Itoa(s.version)},
		Spec: v1.AddressBlockSpec{Network: "blue", NetworkUID: s.state.Network.UID, Entries: entries}}}
}

// sync syncs once, and makes the write.
func (s *story) sync() Plan {
	s.state.Now = at(s.now)
	p := Diff(s.state)
	s.state.Seen = p.Written
	if p.Create != nil {
		s.state.Histories = append(s.state.Histories, p.Create)
	}
	if p.Update != nil {
		s.state.Histories[len(s.state.Histories)-1] = p.Update.Object
	}
	return p
}

// after is the plan some seconds later.
func (s *story) after(seconds int) string {
	s.now += seconds
	return s.sync().String()
}

func bound(pod, uid string, since int) []v1.AddressEntry {
	return []v1.AddressEntry{entry(pod, uid, since)}
}

func TestDiff(t *testing.T) {
	restarted := func(s *story, seconds int) string {
		s.now += seconds
		s.sync()
		s.state.Seen = nil
		return s.after(1) + s.after(8)
	}
	for _, tt := range []struct {
		name, got, want string
	}{
		{"new", tell(nil).after(60), ""},
		{"a pod came", tell(bound("a", "1", 0)).after(59), "again in 1s\n"},
		{"a pod came, a while ago", tell(bound("a", "1", 0)).after(60), "confirm the Network\ncreate AddressHistory blue-0\n  from 10:00:00 through 10:01:00\nagain in 1s\n"},
		{"it ended", tell(bound("a", "1", 0), bound("a", "", 9)).after(7), "again in 1s\n"},
		{"it ended, some seconds ago", tell(bound("a", "1", 0), bound("a", "", 9)).after(8),
			"confirm the Network\ncreate AddressHistory blue-0\n  from 10:00:00 through 10:00:18\n  10.1.0.2 a 10:00:00-10:00:09 1 n1\nagain in 1s\n"},
		{"its address went to another", tell(bound("a", "1", 0), bound("b", "2", 9)).after(8),
			"confirm the Network\ncreate AddressHistory blue-0\n  from 10:00:00 through 10:00:18\n  10.1.0.2 a 10:00:00-10:00:09 1 n1\nagain in 1s\n"},
		{"its address is free at once", tell(bound("a", "1", 0), nil).after(8),
			"confirm the Network\ncreate AddressHistory blue-0\n  from 10:00:00 through 10:00:18\n  10.1.0.2 a 10:00:00-10:00:10 1 n1\nagain in 1s\n"},
		{"it came and went between two syncs", tell(nil, bound("a", "", 9)).after(8),
			"confirm the Network\ncreate AddressHistory blue-0\n  from 10:00:00 through 10:00:18\n  10.1.0.2 a ?-10:00:09\nagain in 1s\n"},
		{"restarted, nothing changed", restarted(tell(bound("a", "1", 0)), 60), ""},
		{"restarted, a pod ended before the write", restarted(tell(bound("a", "1", 0), nil, bound("b", "2", 19), bound("c", "3", 29)), 4),
			"again in 8s\nupdate AddressHistory blue-0 (version ): add records\n  from 10:00:00 through 10:00:43\n  10.1.0.2 a 10:00:00-10:00:10 1 n1\n  gap 10:00:12-10:00:35\nagain in 1s\n"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, tt.got, tt.want)
		}
	}
}

// The address of a replica that was scaled down long ago begins to rest when its Pod2 is deleted. No tenure ends then,
// so a controller that starts records none. It finds no gap unless the last one was killed.
func TestTheEndOfAReservationIsNoTenure(t *testing.T) {
	reserved, resting := entry("web-0", "", 9), entry("web-0", "", 3600)
	reserved.State, reserved.Owner = v1.AddressReserved, v1.AddressOwner{Kind: "Pod2", Name: "web"}
	resting.Owner = reserved.Owner
	for _, tt := range []struct {
		name  string
		stops bool
		want  string
	}{
		{"stopped", true, "again in 718h59m57s\nagain in 718h59m49s\n"},
		{"killed", false, "again in 8s\nupdate AddressHistory blue-0 (version ): add records\n" +
			"  from 10:00:00 through 11:00:20\n  10.1.0.2 web-0 10:00:00-10:00:09 1 n1\n  gap 10:00:10-11:00:12\nagain in 1s\n"},
	} {
		s := tell(bound("web-0", "1", 0), []v1.AddressEntry{reserved})
		s.after(8)
		s.now = 3600
		s.become([]v1.AddressEntry{resting})
		s.sync()
		s.state.Stopping = tt.stops
		s.after(2)
		s.state.Stopping, s.state.Seen = false, nil
		if got := s.after(10) + s.after(8); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, got, tt.want)
		}
	}
}

func TestTheBoundsOfTheSpec(t *testing.T) {
	full := func(change func(n *v1.Network)) *story {
		s := tell(bound("a", "1", 0))
		change(s.state.Network)
		for i := range 6 {
			s.state.Histories = append(s.state.Histories, s.state.create(nil, &Seen{newest: i - 1, since: at(i)}))
			s.state.Histories[i].Spec.Records = []v1.AddressRecord{{Address: "10.1.0.2", Pod: "b", Until: metav1.NewTime(at(i))}}
			s.state.Histories[i].Spec.Holders, _ = Checksums(s.state.Network, s.state.Blocks)
		}
		return s
	}
	bounds := func(limit, age int32) func(n *v1.Network) {
		return func(n *v1.Network) {
			n.Spec.AddressHistory = &v1.AddressHistoryBounds{Limit: ptr.To(limit), MaxAgeSeconds: ptr.To(age)}
		}
	}
	for _, tt := range []struct {
		name, got, want string
	}{
		{"within", full(bounds(6, 3600)).after(10), "again in 59m50s\n"},
		{"too many", full(bounds(5, 3600)).after(10), "delete AddressHistory blue-0 (uid ): its records are too many or too old\nagain in 1s\n"},
		{"too old", full(bounds(6, 60)).after(60), "delete AddressHistory blue-0 (uid ): its records are too many or too old\nagain in 1s\n"},
		{"none", full(bounds(0, 60)).after(1)[:60], "confirm the Network\ndelete AddressHistory blue-0 (uid ): the"},
		{"the Network is terminating", full(func(n *v1.Network) { n.DeletionTimestamp = ptr.To(metav1.NewTime(ten)) }).after(10), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.name, tt.got, tt.want)
		}
	}
}

// A restored AddressBlock names the former Network until the controller takes it over. Its entries were
// never those of the new Network.
func TestEntriesOfAFormerNetwork(t *testing.T) {
	s := tell(nil)
	former := s.state.Blocks[0].DeepCopy()
	former.Generation, former.Spec.NetworkUID, former.Spec.Entries = 1, "former", bound("a", "1", 0)
	s.state.Blocks[0].Generation = 2
	s.state.Seen, s.state.Versions = nil, map[string][]*v1.AddressBlock{former.Name: {former}}
	if p := Diff(s.state); len(p.Seen.ended) > 0 {
		t.Errorf("recorded: %v", p.Seen.ended)
	}
}
