package network

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pod2/pod2/test/chance"
)

// arbitrary writes a random State in the syntax of parse. It need not be a State that the
// controller could reach. Names, UIDs and addresses are few, so they collide.
func arbitrary(dice *rand.Rand) string {
	var b strings.Builder
	names := []string{"blue", "green", "red"}
	dice.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i, name := range names {
		fmt.Fprintf(&b, "network %s %s\n", name, arbitraryNetwork(dice))
		arbitraryLedger(dice, &b, "10.0.0.", 1+6/(i+1))
		if chance.One(dice, 3) {
			arbitraryLedger(dice, &b, "10.0.1.", 3)
		}
	}
	if chance.One(dice, 4) {
		fmt.Fprintf(&b, "cluster %s Node n1\n", chance.Pick(dice, "10.0.0.0/30", "10.0.0.4/30", "10.0.0.3/32", "10.0.1.0/24", "10.0.9.0/24"))
	}
	if chance.One(dice, 8) {
		b.WriteString("cluster 10.0.0.4/31 Node n2\nallowed 10.0.0.0/29\n")
	}
	for _, owner := range []string{"Pod2/web", "StatefulSet/web"} {
		if !chance.One(dice, 3) {
			fmt.Fprintf(&b, "owner %s %d %s start=%d\n", owner, dice.IntN(3), chance.Pick(dice, "blue", "blue,green", "green,blue,red"), dice.IntN(2))
		}
	}
	for _, name := range podNames {
		if !chance.One(dice, 4) {
			fmt.Fprintf(&b, "pod %s\n", arbitraryPod(dice, name))
		}
	}
	return b.String()
}

var podNames = []string{"a", "b", "web-0", "web-1", "web-2"}

func arbitraryNetwork(dice *rand.Rand) string {
	if chance.One(dice, 10) {
		return "-"
	}
	text := chance.Pick(dice, "10.0.0.0/29", "10.0.0.0/30", "10.0.0.2/31", "10.0.0.3/32", "10.0.0.0/23")
	for _, word := range []string{"terminating", "nofinalizer", "exclude=10.0.0.2", "exclude=10.0.0.3-10.0.0.9", "exclude=10.0.0.4-10.0.0.2", "delay=0", "delay=3600", "was=10.0.0.2", "new", "restored", "restored age=30s",
		"gateway=10.0.0.0", "gateway=10.0.0.3", "request=10.0.0.2", "request=10.0.0.3-10.0.0.9", "cidrs=", "was= cidrs=", "cidrs=10.0.0.0/30", "cidrs=10.0.0.0/30,10.0.0.0/29", "cni"} {
		if chance.One(dice, 8) {
			text += " " + word
		}
	}
	return text
}

func arbitraryLedger(dice *rand.Rand, b *strings.Builder, first string, entries int) {
	if chance.One(dice, 5) {
		return
	}
	fmt.Fprintf(b, "block %s0/24", first)
	sealed := chance.One(dice, 8)
	for _, word := range []string{"uid=n-earlier", "terminating", "nofinalizer", "orphaned uid=n-earlier", "orphaned age=30m", "inherited=10s"} {
		if chance.One(dice, 6) {
			b.WriteString(" " + word)
		}
	}
	if sealed { // the schema requires a sealed AddressBlock to be empty
		b.WriteString(" sealed\n")
		return
	}
	b.WriteString("\n")
	for range dice.IntN(entries + 1) {
		address := fmt.Sprintf("%s%d", first, dice.IntN(8))
		if chance.One(dice, 30) {
			address = chance.Pick(dice, "10.0.9.1", "nonsense", "::ffff:10.0.0.2", "")
		}
		name, state := chance.Pick(dice, podNames...), chance.Pick(dice, "Bound", "Bound", "Reserved", "Resting")
		if state == "Bound" {
			name += "/" + name + chance.Pick(dice, "-u1", "-u1", "-u2")
		}
		if address != "" {
			fmt.Fprintf(b, "%s %s %s %s %ds in=%s0/24 %s\n", address, state, name, arbitraryOwner(dice, name), dice.IntN(90)-5, first, chance.Pick(dice, "", "", "", "release", "release=1h"))
		}
	}
}

func arbitraryOwner(dice *rand.Rand, name string) string {
	if strings.HasPrefix(name, "web-") && !chance.One(dice, 4) {
		return chance.Pick(dice, "Pod2/web", "Pod2/web", "StatefulSet/web", "ReplicaSet/web")
	}
	return "/"
}

func arbitraryPod(dice *rand.Rand, name string) string {
	text := name + "/" + name + chance.Pick(dice, "-u1", "-u1", "-u2") + fmt.Sprintf(" age=%ds", dice.IntN(3))
	if owner := arbitraryOwner(dice, name); owner != "/" {
		text += " of=" + owner
	}
	if !chance.One(dice, 8) {
		text += " asks=" + chance.Pick(dice, "blue", "blue,green", "blue,green,red", "green,red", "blue=10.0.0.2", "blue=10.0.0.3,green", "blue,green=10.0.0.2", "blue=10.0.7.7", "!")
	}
	if chance.One(dice, 3) {
		text += fmt.Sprintf(" has=blue:10.0.%d.%d/29", dice.IntN(2), dice.IntN(8))
	}
	if chance.One(dice, 12) {
		text += " has=green:10.0.0.2/29"
	}
	if !strings.Contains(text, " has=") || chance.One(dice, 6) {
		text += " gated"
	}
	if chance.One(dice, 12) {
		text += " hostnetwork"
	}
	if chance.One(dice, 8) {
		text += " terminating"
	}
	if chance.One(dice, 6) {
		text += " phase=" + chance.Pick(dice, "Failed", "Succeeded", "Running", "Unknown")
	}
	if chance.One(dice, 4) {
		text += " condition=" + chance.Pick(dice, "False/NetworkExhausted", "False/AddressConflict", "True/Published")
	}
	return text
}

func later(s State, by time.Duration) State {
	s.Now = s.Now.Add(by)
	return s
}
