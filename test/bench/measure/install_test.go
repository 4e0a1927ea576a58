package measure

import "testing"

// Comments before an object are no objects.
func TestWithoutSomeKinds(t *testing.T) {
	const manifests = "# a comment\n---\nkind: A\n---\nkind: B\nspec: {}\n---\nkind: C\n"
	if got, want := string(without([]byte(manifests), []string{"B"})), "---\nkind: A\n\n---\nkind: C\n\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
