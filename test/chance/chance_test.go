package chance

import "testing"

func TestSeed(t *testing.T) {
	before := *seed
	defer func() { *seed = before }()
	*seed = 7
	if got := Seed(t); got != 7 {
		t.Errorf("got %d, want the value of the flag", got)
	}
	*seed = 0
	if one, other := Seed(t), Seed(t); one == 0 || one == other {
		t.Errorf("without the flag the seeds are %d and %d, want two different seeds other than 0", one, other)
	}
}
