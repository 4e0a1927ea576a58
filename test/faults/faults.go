package faults

import (
	"math/rand/v2"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pod2/pod2/test/apiserver"
	"github.com/pod2/pod2/test/sim"
)

// wrongs are the ways in which a request may fail.
var wrongs = []apiserver.Fault{
	{Error: apiserver.ErrInternal}, {Error: apiserver.ErrUnavailable}, {Error: apiserver.ErrBusy},
	{Error: apiserver.ErrTimeout}, {Error: apiserver.ErrTimeout, Done: true},
	{}, {Done: true}, // the connection breaks
	{Error: apierrors.NewForbidden(schema.GroupResource{}, "", nil)},
}

// Faults lets requests fail. While users act, each request fails with a probability of 5 to
// 50 %, chosen by the seed, in one of the ways above. No promise is broken meanwhile. When
// nothing fails any more, the scenario ends as if nothing had happened.
func (program Program) Faults(t *testing.T) {
	seeds := uint64(8)
	if long {
		seeds = 300
	}
	program.everyScenario(t, func(t *testing.T, sc sim.Scenario, from *sim.Snapshot, want outcome) {
		failed := 0
		for seed := range seeds {
			o := program.play(t, sc, from, nil, func(w *sim.World) {
				dice := rand.New(rand.NewPCG(seed, 0))
				chance := 0.05 + 0.45*dice.Float64()
				var mends []func()
				for _, f := range wrongs {
					f.On = slices.Concat(apiserver.Kinds, apiserver.FaultKinds)
					f.Hits = func(int) bool {
						hit := dice.Float64() < chance/float64(len(wrongs))
						if hit {
							failed++
						}
						return hit
					}
					mends = append(mends, w.Break(f))
				}
				w.StartAndRestart()
				w.Thaw = func() {
					for _, mend := range mends {
						mend()
					}
				}
			})
			if why := o.strays(want); why != "" {
				t.Fatalf("seed %d: %s\n%s", seed, why, o.trace)
			}
		}
		if failed == 0 {
			t.Error("no request failed")
		}
		t.Logf("| %s | %d seeds | %d requests failed |", sc.Name, seeds, failed)
	})
}
