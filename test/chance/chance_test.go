package chance

import "testing"

func TestSeed(t *testing.T) {
	before := *seed
	defer func() { *seed = before }()
	*seed = 7
	if got := Seed(t); got != 7 {
		t.Errorf("got %d, want that of the flag", got)
	}
	*seed = 0
	if one, other := Seed(t), Seed(t); one == 0 || one == other {
		t.Errorf("without the flag they are %d and %d, want new ones, none of them 0", one, other)
	}
}
