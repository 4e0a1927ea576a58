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
	w := newWorld()
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
	for _, n := range s.Networks {
		lines = append(lines, fmt.Sprintf("network- %s ns=%s", n.Name, n.Namespace))
	}
	for _, n := range s.Nodes {
		lines = append(lines, "node- "+n.Name)
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
	if left := len(d.pods) + len(d.here) + len(d.networks) + len(d.vnis) + len(d.nodes) + len(d.vteps) + len(d.ports) + len(d.plugged) + len(d.dirty) + len(d.concerned); left > 0 {
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
var usual = []string{"node n1 10.0.0.1", "node n2 10.0.0.2", "node n3 10.0.0.3 fd0a::3",
	"network blue 1001 192.168.0.0/24", "network green 1002 192.168.0.0/24", "network red 1003 192.168.0.0/24"}

func randomEvent(dice *rand.Rand) string {
	w := words{dice}
	i := dice.IntN(3)
	network, vni := []string{"blue", "green", "red"}[i], []string{"1001", "1002", "1003"}[i]
	ns := w.pick("", "", "", "", " ns=other")
	index := 1 + dice.IntN(9)
	node := 1 + dice.IntN(4)
	pod := chance.Pick(dice, "a", "b", "c", "d", "e")
	switch dice.IntN(28) {
	case 0:
		return fmt.Sprintf("node- n%d", node)
	case 1, 2, 3, 4:
		return fmt.Sprintf("node n%d%s%s", node, w.pick(fmt.Sprintf(" 10.0.0.%d", node), "", " 10.0.0.1", " fd0a::1", " 10.0.0.2"), w.pick("", fmt.Sprintf(" fd0a::%d", node)))
	case 5:
		return "network- " + network + ns
	case 6, 7, 8:
		return fmt.Sprintf("network %s %s %s%s%s%s", network, w.pick(vni, "1001", "1002"), w.pick("192.168.0.0/24", "192.168.0.0/29", "192.168.0.3/32", "fd00::/64"),
			w.pick("", " mtu=1400"), w.pick("", " gateway=192.168.0.2"), ns)
	case 9:
		return "pod- " + pod + w.pick("", " uid=u-a") + ns
	case 10, 11, 12, 13, 14, 15:
		line := fmt.Sprintf("pod %s n%d uid=%s created=%d", pod, chance.Pick(dice, 1, 1, 2, 3), w.uid(pod, ns), dice.IntN(3))
		for _, network := range []string{"blue", "green", "red"} {
			if !chance.One(dice, 3) {
				line += fmt.Sprintf(" %s=%s", network, w.pick(fmt.Sprintf("192.168.0.%d", 2+dice.IntN(12)), "192.168.0.1", "10.1.0.2", "fd00::3", "fd00::1:0:3"))
			}
		}
		return line + w.pick("", "", " mac=0a:58:c0:a8:00:03", " mac=02:00:5e:00:03:e9") + ns
	case 16, 17, 18, 19, 20, 21, 22, 23, 24:
		return fmt.Sprintf("port %d %s %s%s", index, w.uid(pod, w.pick(ns, "", " ns=other")), network, ns)
	case 25, 26:
		return fmt.Sprintf("router %d %s", index, vni)
	}
	return fmt.Sprintf("port- %d", index)
}

// uid is one of three pods that have had the name. No two pods share one.
func (w words) uid(pod, ns string) string {
	return "u-" + pod + strings.TrimPrefix(ns, " ns=") + w.pick("", "", "2", "3")
}
