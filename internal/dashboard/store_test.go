package dashboard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pod2/pod2/internal/dashboard/view"
)

func records(pairs ...string) (list []view.Record) {
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		list = append(list, view.Record{Key: key, Value: value})
	}
	return list
}

// told are the changes as text.
func told(c Changes) string {
	var b strings.Builder
	if c.Whole {
		b.WriteString("whole")
	}
	for _, key := range slices.Sorted(maps.Keys(c.Values)) {
		fmt.Fprintf(&b, " %s=%s", key, c.Values[key])
	}
	return strings.TrimSpace(b.String())
}

func TestSince(t *testing.T) {
	s := NewStore()
	s.Replace(nil, records("a=1", "b=1"))
	first, _ := s.Since(0)
	keys := s.Replace([]string{"a"}, records("c=1"))
	s.Replace(keys, records("c=2"))
	second, _ := s.Since(first.Number)
	s.Replace(nil, records("b=1"))
	third, _ := s.Since(second.Number)
	for _, row := range []struct{ got, want string }{
		{told(first), `whole a="1" b="1"`},
		{told(second), `a=null c="2"`}, // the value 1 of c is skipped
		{told(third), ""},
	} {
		if row.got != row.want {
			t.Errorf("got %s, want %s", row.got, row.want)
		}
	}
}

// A page that comes back after too many removals must not keep records that are gone.
func TestTooManyRemovals(t *testing.T) {
	s := NewStore()
	s.Replace(nil, records("a=1", "b=1"))
	first, _ := s.Since(0)
	for i := range 2*goneKept + 1 {
		s.Replace(s.Replace(nil, records(fmt.Sprintf("x%d=1", i))), nil)
	}
	if c, _ := s.Since(first.Number); told(c) != `whole a="1" b="1"` {
		t.Errorf("got %s with %d values", told(c)[:40], len(c.Values))
	}
	if len(s.gone) > 2*goneKept {
		t.Errorf("%d removals are kept", len(s.gone))
	}
}

func TestChangeWakesPages(t *testing.T) {
	s := NewStore()
	_, changed := s.Since(0)
	s.Replace(nil, records("a=1"))
	select {
	case <-changed:
	default:
		t.Error("a page waits although a record is new")
	}
	_, changed = s.Since(0)
	s.Replace([]string{"a"}, records("a=1"))
	select {
	case <-changed:
		t.Error("a page wakes although nothing changed")
	default:
	}
}
