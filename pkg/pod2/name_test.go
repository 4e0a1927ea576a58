package pod2

import (
	"strings"
	"testing"
)

// A name of 57 characters leaves room for ordinals of five digits.
func TestNamesThatAreTooLong(t *testing.T) {
	s := state(t, "replicas=3 start=99999")
	s.Pod2.Name = strings.Repeat("w", 57)
	s.Revisions = nil
	got := ""
	plan := Diff(s)
	for _, c := range plan.Create {
		got += strings.TrimLeft(c.Name, "w") + " "
	}
	if got != "-99999 " {
		t.Errorf("created %s", got)
	}
	name := s.Pod2.Name
	want := "False NameTooLong: replicas cannot be created, because their names are longer than the 63 characters of a hostname: " + name + "-100000; " + name +
		"-100001. Use fewer replicas, or a Pod2 with a shorter name"
	if got := ready(s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := apply(&s, plan); err != nil {
		t.Fatal(err)
	}
	if again := Diff(s); len(again.Create) > 0 {
		t.Errorf("created again: %s", again)
	}
	if why := undone(s); why != "" && Diff(s).Empty() {
		t.Errorf("the plan is empty, but the work is not done: %s", why)
	}
}
