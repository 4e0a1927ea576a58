package tables

import (
	"net/netip"
	"strings"
	"testing"
)

const two = "node 10.0.0.1\nnetwork blue 1001 192.168.0.0/24\nnetwork six 1006 fd00::/64\npod a blue=192.168.0.2\npod b blue=192.168.0.3\npod c six=fd00::2\n"

// A port has the transit address at its index, or the next free one of a small range. It keeps it.
func TestTransits(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"IPv4", "port 7 u-a blue", `
			ports set 7 -> 1001 0a:58:c0:a8:00:02 192.168.0.2 transit 100.64.0.3
			places set 1001 0a:58:c0:a8:00:02 -> port 7 192.168.0.2
			transits set 100.64.0.3 -> port 7`},
		{"IPv6", "port 65543 u-c six", `
			ports set 65543 -> 1006 0a:58:00:00:00:02 fd00::2 transit fd64:706f:6432::1:7
			places set 1006 0a:58:00:00:00:02 -> port 65543 fd00::2
			transits set fd64:706f:6432::1:7 -> port 65543`},
		{"one that is taken, and then free", "port 7 u-a blue\nport 11 u-b blue\nport- 7", `
			ports set 7 -> 1001 0a:58:c0:a8:00:02 192.168.0.2 transit 100.64.0.3
			places set 1001 0a:58:c0:a8:00:02 -> port 7 192.168.0.2
			transits set 100.64.0.3 -> port 7
			ports set 11 -> 1001 0a:58:c0:a8:00:03 192.168.0.3 transit 100.64.0.0
			places set 1001 0a:58:c0:a8:00:03 -> port 11 192.168.0.3
			transits set 100.64.0.0 -> port 11
			places delete 1001 0a:58:c0:a8:00:02
			transits delete 100.64.0.3
			ports delete 7`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := withTransits(30)
			w.lines(t, two)
			expect(t, w.lines(t, tt.in), tt.want)
			w.check(t)
		})
	}
}

// A new agent gives each port the address that it had, even if another one would be its first choice. It ignores those
// of another range, and of ports that are gone.
func TestTransitsAfterARestart(t *testing.T) {
	w := withTransits(30)
	was := map[netip.Addr]PortKey{netip.MustParseAddr("100.64.0.0"): 11, netip.MustParseAddr("100.64.0.1"): 99, netip.MustParseAddr("100.65.0.2"): 7}
	w.desired.SetTransits(w.range4, was)
	w.twin.SetTransits(w.range4, was)
	w.lines(t, two+"port 7 u-a blue\nport 11 u-b blue")
	for index, want := range map[PortKey]string{7: "100.64.0.3", 11: "100.64.0.0"} {
		if got, _ := w.desired.Transit(index); got.String() != want {
			t.Errorf("port %d has %s, want %s", index, got, want)
		}
	}
}

// More ports than addresses: one has none, which is a problem.
func TestTransitsAreTaken(t *testing.T) {
	w := withTransits(32)
	w.lines(t, two+"port 7 u-a blue\nport 11 u-b blue")
	w.check(t)
	const want = "interface 11 of a pod of Network default/blue: all addresses of --transit-cidr are taken; its packets cannot leave the Network"
	if got := w.desired.Problems(); len(got) != 1 || got[0] != want {
		t.Errorf("got %q", got)
	}
}

// lines of events, and the changes after them.
func (w *world) lines(t *testing.T, lines string) (changes string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		list := w.event(t, line)
		w.apply(t, list)
		changes += render(list)
	}
	return changes
}
