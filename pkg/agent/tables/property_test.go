package tables

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pod2/pod2/test/chance"
)

// TestDesiredIsFull: after any events Desired equals Full of their sum. So do maps that had only
// the changes.
func TestDesiredIsFull(t *testing.T) {
	chance.ForSeeds(t, 1000, desiredIsFull)
}

func FuzzDesired(f *testing.F) { chance.Fuzz(f, desiredIsFull) }

func desiredIsFull(t *testing.T, dice *rand.Rand) {
	w := withTransits(32 - dice.IntN(4))
	var history []string
	for i := range 120 {
		line := randomEvent(dice)
		if i < len(usual) {
			line = usual[i]
		}
		history = append(history, line)
		w.apply(t, w.event(t, line))
		w.check(t)
		if t.Failed() {
			t.Fatalf("after the events\n%s", strings.Join(history, "\n"))
		}
	}
	nothingIsLeft(t, w)
}

// nothingIsLeft: once all is deleted, Desired has forgotten it.
func nothingIsLeft(t *testing.T, w *world) {
	s := w.state()
	var lines []string
	for _, p := range s.Pods {
		lines = append(lines, fmt.Sprintf("pod- %s ns=%s", p.Name, p.Namespace))
	}
	for _, x := range s.Slices {
		if x.Network == "" {
			lines = append(lines, "nodes- "+x.Name)
		} else {
			lines = append(lines, fmt.Sprintf("slice- %s %s ns=%s", x.Network, x.Name, x.Namespace))
		}
	}
	for _, p := range s.Ports {
		lines = append(lines, fmt.Sprintf("port- %d", p.Interface))
	}
	slices.Sort(lines)
	for _, line := range lines {
		w.apply(t, w.event(t, line))
		w.check(t)
	}
	d := w.desired
	if left := len(d.pods) + len(d.here) + len(d.networks) + len(d.vnis) + len(d.nodes) + len(d.hosts) + len(d.ports) + len(d.plugged) + len(d.transits.of) + len(d.transits.user) + len(d.dirty) + len(d.concerned); left > 0 {
		t.Errorf("%d things are left: %+v", left, d)
	}
}

// TestDiffIsSafe: from any contents to any others, and no entry leads astray in between.
func TestDiffIsSafe(t *testing.T) {
	chance.ForSeeds(t, 2000, func(t *testing.T, dice *rand.Rand) {
		worlds := [2]*world{newWorld(), newWorld()}
		for _, w := range worlds {
			for _, line := range usual {
				w.apply(t, w.event(t, line))
			}
			for range 40 {
				w.apply(t, w.event(t, randomEvent(dice)))
			}
		}
		is, want := worlds[0].maps, worlds[1].maps
		before := render(Diff(Empty(), is))
		for i, c := range Diff(is, want) {
			is.Apply(c)
			for _, problem := range astray(is) {
				t.Errorf("after %d changes: %s", i+1, problem)
			}
		}
		if rest := Diff(is, want); len(rest) > 0 {
			t.Errorf("left are\n%s", render(rest))
		}
		if t.Failed() {
			t.Errorf("from\n%sto\n%sby\n%s", before, render(Diff(Empty(), want)), render(Diff(worlds[0].desired.Tables(), want)))
		}
	})
}

// dice and the words that they choose from. The first word is likely, so most events fit
// together.
type words struct{ *rand.Rand }

func (w words) pick(likely string, others ...string) string {
	if len(others) == 0 || !chance.One(w.Rand, 4) {
		return likely
	}
	return chance.Pick(w.Rand, others...)
}

// usual is the beginning of each world.
var usual = []string{"node 10.0.0.1", "nodes s0 10.0.0.1 10.0.0.2", "nodes s1 10.0.0.3 fd0a::3=10.0.0.3",
	"network blue 1001 192.168.0.0/24", "network green 1002 192.168.0.0/24", "network red 1003 192.168.0.0/24"}

func randomEvent(dice *rand.Rand) string {
	w := words{dice}
	i := dice.IntN(3)
	network, vni := []string{"blue", "green", "red"}[i], []string{"1001", "1002", "1003"}[i]
	ns := w.pick("", "", "", "", " ns=other")
	index := 1 + dice.IntN(9)
	pod := chance.Pick(dice, "a", "b", "c", "d", "e")
	switch dice.IntN(30) {
	case 0:
		return "node" + w.pick("", "-")
	case 1, 2:
		return "node " + w.pick("10.0.0.1", "10.0.0.2", "fd0a::1", "10.0.0.1 fd0a::1")
	case 3:
		return fmt.Sprintf("nodes- s%d", dice.IntN(3))
	case 4, 5:
		line := fmt.Sprintf("nodes s%d", dice.IntN(3))
		for node := range 4 {
			line += w.pick("", fmt.Sprintf(" 10.0.0.%d", node), fmt.Sprintf(" fd0a::%d=10.0.0.%d", node, node), fmt.Sprintf(" fd0a::%d", node))
		}
		return line
	case 6:
		return chance.Pick(dice, "leave ", "network- ", "slice- ", "slice- ") + network + w.pick(" 1", " 2") + ns
	case 7, 8, 9:
		return fmt.Sprintf("network %s %s %s%s%s%s%s", network, w.pick(vni, "1001", "1002"), w.pick("192.168.0.0/24", "192.168.0.0/29", "192.168.0.3/32", "fd00::/64"),
			w.pick("", " mtu=1400", " egress=NAT"), w.pick("", " gateway=192.168.0.2"), w.pick("", " name=2", " owner=u2"), ns) + w.locations()
	case 10, 11, 12, 13:
		return fmt.Sprintf("slice %s %d%s%s", network, 1+dice.IntN(3), w.pick("", "", " owner=u2"), ns) + w.locations()
	case 14:
		return "pod- " + pod + w.pick("", " uid=u-a") + ns
	case 15, 16, 17, 18, 19:
		line := fmt.Sprintf("pod %s uid=%s created=%d", pod, w.uid(pod, ns), dice.IntN(3))
		for _, network := range []string{"blue", "green", "red"} {
			if !chance.One(dice, 3) {
				line += fmt.Sprintf(" %s=%s", network, w.address())
			}
		}
		return line + w.pick("", "", " mac=0a:58:c0:a8:00:03", " mac=02:00:5e:00:03:e9") + ns
	case 20, 21, 22, 23, 24, 25, 26, 27:
		return fmt.Sprintf("port %d %s %s%s", index, w.uid(pod, w.pick(ns, "", " ns=other")), network, ns)
	}
	return fmt.Sprintf("port- %d", index)
}

func (w words) address() string {
	return w.pick(fmt.Sprintf("192.168.0.%d", 2+w.IntN(12)), "192.168.0.1", "10.1.0.2", "fd00::3", "fd00::1:0:3", "fd00::2:0:3")
}

// locations of a slice: each address once.
func (w words) locations() (line string) {
	seen := map[string]bool{}
	for range w.IntN(6) {
		address := w.address()
		if !seen[address] {
			line += fmt.Sprintf(" %s=%s", address, w.pick(fmt.Sprintf("10.0.0.%d", 1+w.IntN(4)), "fd0a::2"))
		}
		seen[address] = true
	}
	return line
}

// uid is one of three pods that have had the name. No two pods share one.
func (w words) uid(pod, ns string) string {
	return "u-" + pod + strings.TrimPrefix(ns, " ns=") + w.pick("", "", "2", "3")
}
