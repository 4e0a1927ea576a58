package pod2

import "slices"

// steadyReplicas are facts by place. Copies share the pages that do not differ, so a change of one
// replica among thousands is cheap.
type steadyReplicas struct {
	pages []*page
	count int
	// own are the pages that only this copy has. Until it is shared, they may change.
	own map[int]bool
}

type page struct {
	facts [128]*fact
	count int
}

// edit returns a copy to change.
func (s steadyReplicas) edit() steadyReplicas {
	return steadyReplicas{slices.Clone(s.pages), s.count, map[int]bool{}}
}

// at returns nil if the replica in a place is not steady.
func (s steadyReplicas) at(place int) *fact {
	if i := place / len(page{}.facts); i < len(s.pages) && s.pages[i] != nil {
		return s.pages[i].facts[place%len(page{}.facts)]
	}
	return nil
}

// set makes a replica steady, or not with nil.
func (s *steadyReplicas) set(place int, f *fact) {
	was := s.at(place)
	if was == f {
		return
	}
	i := place / len(page{}.facts)
	for len(s.pages) <= i {
		s.pages = append(s.pages, nil)
	}
	if !s.own[i] {
		copied := page{}
		if s.pages[i] != nil {
			copied = *s.pages[i]
		}
		s.pages[i], s.own[i] = &copied, true
	}
	of := s.pages[i]
	of.facts[place%len(of.facts)] = f
	if was != nil {
		of.count--
		s.count--
	}
	if f != nil {
		of.count++
		s.count++
	}
}

// others returns the places before an end that are not steady.
func (s steadyReplicas) others(end int) []int {
	places := make([]int, 0, end-s.count)
	for place := 0; place < end; place++ {
		if i := place / len(page{}.facts); place%len(page{}.facts) == 0 && i < len(s.pages) && s.pages[i] != nil && s.pages[i].count == len(page{}.facts) {
			place += len(page{}.facts) - 1
		} else if s.at(place) == nil {
			places = append(places, place)
		}
	}
	return places
}
