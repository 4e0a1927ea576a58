package pod2

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pod2/pod2/test/chance"
)

// Pages hold the same as a plain list, and a copy that changes leaves the others as they are.
func TestPagesAreLikeAList(t *testing.T) {
	chance.ForSeeds(t, 200, func(t *testing.T, dice *rand.Rand) {
		type pair struct {
			pages steadyReplicas
			list  []*fact
		}
		size := 1 + dice.IntN(500)
		copies := []pair{{steadyReplicas{}, make([]*fact, size)}}
		for range 10 {
			last := copies[len(copies)-1]
			next := pair{last.pages.edit(), slices.Clone(last.list)}
			f, from, end := chance.Pick(dice, nil, &fact{}, &fact{}), dice.IntN(size), dice.IntN(size)
			if chance.One(dice, 3) { // whole pages
				from, end = 0, end/len(page{}.facts)*len(page{}.facts)
			}
			for place := from; place < end; place++ {
				next.pages.set(place, f)
				next.list[place] = f
			}
			copies = append(copies, next)
		}
		for i, c := range copies {
			var others []int
			for place, f := range c.list {
				if c.pages.at(place) != f {
					t.Errorf("copy %d of %d: place %d is wrong", i, size, place)
				}
				if f == nil {
					others = append(others, place)
				}
			}
			if c.pages.count != size-len(others) || !slices.Equal(c.pages.others(size), others) {
				t.Errorf("copy %d of %d: %s", i, size, fmt.Sprint(c.pages.count, c.pages.others(size)))
			}
		}
	})
}
