package pod2

// tally counts pods: the owned ones, and how many of these are live, ready, available and updated.
type tally struct{ owned, live, ready, available, updated int32 }

func (t *tally) add(r replica) {
	if r.own {
		t.owned++
	}
	if !r.live() {
		return
	}
	t.live++
	if r.ready {
		t.ready++
	}
	if r.available {
		t.available++
	}
	if r.outdated == "" {
		t.updated++
	}
}

// tally of all pods. Each steady replica counts in all numbers.
func (v *view) tally() tally {
	n := int32(v.steady.count)
	t := tally{n, n, n, n, n}
	for r := range v.allUnsteady() {
		t.add(r)
	}
	return t
}
