package network

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/chance"
)

// The condition of a waiting pod says where the addresses are and how to fix the shortage.
func TestShortage(t *testing.T) {
	checkPlans(t, []planTest{
		{"all kinds, each with its first", `
			network blue 10.0.0.0/28 request=10.0.0.8/30
			owner Pod2/web 2 blue
			10.0.0.2 Resting a 20s
			10.0.0.3 Resting b 30s
			10.0.0.4 Reserved web-3 Pod2/web 50s
			10.0.0.5 Reserved web-2 Pod2/web 40s
			10.0.0.6 Reserved web-1 Pod2/web 90s
			10.0.0.7 Reserved web-0 Pod2/web 90s
			10.0.0.12 Bound x/u1
			10.0.0.13 Bound y/u2
			10.0.0.14 Bound z/u3
			pod x/u1 has=blue:10.0.0.12/28
			pod y/u2 has=blue:10.0.0.13/28
			pod z/u3 has=blue:10.0.0.14/28
			pod late/u4 gated asks=blue`, `
			late (u4) waits: NetworkExhausted: Network "blue" has no free address. 2 addresses are resting, the first until 2026-01-02T15:04:35Z. 2 addresses are reserved for scaled-down replicas; the first can be reassigned from 2026-01-02T15:04:15Z on. 2 addresses are reserved for replicas that do not run now. 4 addresses are only for pods that ask for them (spec.onRequest). Wait, grow its spec.cidr, or delete pods that hold one
			again in 10s`},
		{"more of them than can be counted", `
			network blue fd00::/64 request=fd00::/64
			pod late/u1 gated asks=blue`,
			`late (u1) waits: NetworkExhausted: Network "blue" has no free address. All other addresses are only for pods that ask for them (spec.onRequest). Grow its spec.cidr`},
		{"addresses of an earlier Network", `
			network blue 10.0.0.0/28
			block 10.0.0.0/24 uid=n-earlier
			10.0.0.2 Bound a/u1
			pod a/u1 has=blue:10.0.0.2/28
			pod late/u2 gated asks=blue`,
			`late (u2) waits: NetworkExhausted: Network "blue" has no free address. 13 addresses are in an AddressBlock of an earlier Network with this name until its pods terminate. Wait, or grow its spec.cidr`},
		{"none, but an empty AddressBlock is about to be deleted", `
			network blue 10.0.0.0/28
			block 10.0.0.0/24 sealed nofinalizer
			pod late/u2 gated asks=blue`,
			`delete block blue-10.0.0.0: empty and sealed`},
		{"none, but an AddressBlock gets its owner reference back", `
			network blue 10.0.0.0/28
			block 10.0.0.0/24 orphaned
			10.0.0.5 Bound x/u1
			pod x/u1 has=blue:10.0.0.5/28
			pod late/u2 gated asks=blue`,
			`update block blue-10.0.0.0: add owner reference`},
		{"that AddressBlock is full", `
			network blue 10.0.0.0/30
			block 10.0.0.0/24 orphaned
			10.0.0.2 Bound x/u1
			pod x/u1 has=blue:10.0.0.2/30
			pod late/u2 gated asks=blue`, `
			update block blue-10.0.0.0: add owner reference
			late (u2) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one`},
		{"an AddressBlock about to be deleted has only addresses on request", `
			network blue 10.0.0.0/23 exclude=10.0.0.0/24 request=10.0.1.0/24
			block 10.0.1.0/24 sealed nofinalizer
			pod late/u2 gated asks=blue`, `
			delete block blue-10.0.1.0: empty and sealed
			late (u2) waits: NetworkExhausted: Network "blue" has no free address. 255 addresses are only for pods that ask for them (spec.onRequest). Grow its spec.cidr`},
		{"a /31 cannot grow", `
			network blue 10.0.0.0/31
			10.0.0.1 Bound x/u1
			pod x/u1 has=blue:10.0.0.1/31
			pod late/u2 gated asks=blue`,
			`late (u2) waits: NetworkExhausted: Network "blue" has no free address; delete pods that hold one, or create another Network (a /31 cannot grow)`},
		{"nor can a /127", `
			network blue fd00::/127
			fd00::1 Resting a 20s
			pod late/u2 gated asks=blue`, `
			late (u2) waits: NetworkExhausted: Network "blue" has no free address. 1 address is resting until 2026-01-02T15:04:45Z. Wait, or create another Network (a /127 cannot grow)
			again in 40s`},
		{"a /126 can", `
			network blue fd00::/126 exclude=fd00::3
			fd00::2 Bound x/u1
			pod x/u1 has=blue:fd00::2/126
			pod late/u2 gated asks=blue`,
			`late (u2) waits: NetworkExhausted: Network "blue" has no free address; grow its spec.cidr, or delete pods that hold one`},
	})
}

// The message about a shortage does not change as time passes. If many pods wait, only the
// first ones get numbers.
func TestShortageIsWrittenOnce(t *testing.T) {
	text := "network blue 10.0.0.0/29\n10.0.0.2 Resting x 5s\n10.0.0.3 Resting y 2s\nowner Pod2/web 0 blue\n10.0.0.4 Reserved web-0 Pod2/web 1s\n10.0.0.5 Reserved web-1 Pod2/web 1s\n10.0.0.6 Resting z 1s\n"
	for i := range podEvents + 2 {
		text += fmt.Sprintf("pod p%02d/u%d gated asks=blue\n", i, i)
	}
	s := parse(t, text)
	plan := Diff(s)
	inNumbers := 0
	for _, w := range plan.Waits {
		if strings.Contains(w.Condition.Message, "3 addresses are resting, the first until 2026-01-02T15:05:00Z") {
			inNumbers++
		} else if want := `Network "blue" has no free address; its condition AddressesAvailable says why and how to fix it`; w.Condition.Message != want {
			t.Errorf("got  %s\nwant %s", w.Condition.Message, want)
		}
	}
	if inNumbers != podEvents || len(plan.Waits) != podEvents+2 {
		t.Errorf("%d of %d pods have numbers in their message", inNumbers, len(plan.Waits))
	}
	const want = "no address is free for: p00, p01, p02, p03, p04 and 7 more. 3 addresses are resting, the first until 2026-01-02T15:05:00Z. 2 addresses are reserved for scaled-down replicas; the first can be reassigned from 2026-01-02T15:05:04Z on. Wait, or grow spec.cidr"
	if got := meta.FindStatusCondition(plan.Status.Conditions, v1.ConditionAddressesAvailable).Message; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	w := worldOf(s)
	if err := w.apply(s, plan, 1000); err != nil {
		t.Fatal(err)
	}
	for passed := range 55 {
		s := w.state("blue", now.Add(time.Duration(passed)*time.Second))
		again := Diff(s)
		if !again.Empty() {
			t.Fatalf("written again after %d s:\n%s", passed, again)
		}
	}
}

// The available addresses in the status are as many as new pods that ask for any address
// get.
func TestAvailableIsWhatNewPodsGet(t *testing.T) {
	left, none := 0, 0
	chance.ForSeeds(t, states, func(t *testing.T, dice *rand.Rand) {
		text := fmt.Sprintf("network blue %s\nowner Pod2/web %d blue\n", arbitraryNetwork(dice), dice.IntN(4))
		for i := range 8 {
			switch age := dice.IntN(150); dice.IntN(4) {
			case 0:
				text += fmt.Sprintf("10.0.0.%d Bound x%d/u%d\npod x%d/u%d has=blue:10.0.0.%d/29\n", i, i, i, i, i, i)
			case 1:
				text += fmt.Sprintf("10.0.0.%d Resting x%d %ds\n", i, i, age)
			case 2:
				text += fmt.Sprintf("10.0.0.%d Reserved web-%d Pod2/web %ds\n", i, i, age)
			}
		}
		if strings.HasPrefix(text, "network blue -") {
			return
		}
		w := worldOf(parse(t, text))
		for range 4 {
			s := w.state("blue", w.now)
			_ = w.apply(s, Diff(s), 1000)
		}
		s := w.state("blue", w.now)
		v, _ := newView(s)
		if s.Network == nil || v.held != nil || s.Network.Status.Available > 20 {
			return
		}
		left += int(v.tally().left)
		available := int(s.Network.Status.Available)
		if available == 0 {
			none++
		}
		for i := range available + 2 {
			s.Pods = append(s.Pods, parsePod(t, strings.Fields(fmt.Sprintf("new-%d/new-%d gated asks=blue", i, i))))
		}
		got := 0
		for _, block := range Diff(s).Blocks {
			got += strings.Count(block.String(), "to new-")
		}
		if got != available {
			t.Errorf("%d addresses are available, but %d pods get one:\n%s\n%s", available, got, text, Diff(s))
		}
	})
	if left < 30 || none < 100 {
		t.Errorf("%d addresses of scaled-down replicas, %d Networks without any available: too few to prove anything", left, none)
	}
}
