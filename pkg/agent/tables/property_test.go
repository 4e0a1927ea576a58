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
	for range 120 {
		line := randomEvent(dice)
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

func randomEvent(dice *rand.Rand) string {
	pick := func(of ...string) string { return chance.Pick(dice, of...) }
	networkName := func() string { return pick("blue", "blue", "green", "red") }
	ns := func() string { return pick("", "", "", " ns=other") }
	index := 1 + dice.IntN(7)
	switch dice.IntN(20) {
	case 0:
		return "node- " + pick("n1", "n2", "n3", "n4")
	case 1, 2, 3:
		line := "node " + pick("n1", "n2", "n3", "n4")
		for range dice.IntN(3) {
			line += " " + pick("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fd0a::1", "fd0a::2")
		}
		return line
	case 4:
		return "network- " + networkName() + ns()
	case 5, 6, 7:
		return fmt.Sprintf("network %s %s %s%s%s%s", networkName(), pick("1001", "1001", "1002", "1003"), pick("192.168.0.0/24", "192.168.0.0/24", "192.168.0.0/29", "192.168.0.3/32", "fd00::/64"),
			pick("", "", " mtu=1400"), pick("", "", "", " gateway=192.168.0.2"), ns())
	case 8, 9:
		return "pod- " + pick("a", "b", "c", "d", "e") + pick("", "", "", " uid=u-a") + ns()
	case 10, 11, 12, 13, 14:
		return randomPod(dice, pick, ns())
	case 15, 16, 17:
		return fmt.Sprintf("port %d %s %s%s", index, randomUID(pick, pick("a", "b", "c", "d", "e"), ns()), networkName(), ns())
	case 18:
		return fmt.Sprintf("router %d %s", index, pick("1001", "1002", "1003"))
	}
	return fmt.Sprintf("port- %d", index)
}

func randomPod(dice *rand.Rand, pick func(...string) string, ns string) string {
	podName := pick("a", "b", "c", "d", "e")
	line := fmt.Sprintf("pod %s %s uid=%s created=%d", podName, pick("n1", "n1", "n2", "n3", "n4"), randomUID(pick, podName, ns), dice.IntN(3))
	for _, network := range []string{"blue", "green", "red"} {
		if chance.One(dice, 2) {
			line += fmt.Sprintf(" %s=%s", network, pick("192.168.0.1", "192.168.0.2", "192.168.0.3", "192.168.0.4", "192.168.0.9", "10.1.0.2", "fd00::3", "fd00::1:0:3"))
		}
	}
	return line + pick("", "", "", " mac=0a:58:c0:a8:00:03", " mac=02:00:5e:00:03:e9") + ns
}

// randomUID is one of three pods that have had the name. No two pods share one.
func randomUID(pick func(...string) string, podName, ns string) string {
	return "u-" + podName + strings.TrimPrefix(ns, " ns=") + pick("", "", "2", "3")
}
