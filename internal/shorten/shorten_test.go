package shorten

import "testing"

func TestCharactersStayWhole(t *testing.T) {
	for _, row := range []struct {
		text  string
		limit int
		want  string
	}{
		{"Grüße", 7, "Grüße"},
		{"Grüße", 6, "Gr..."},
		{"Grüße.", 7, "Grü..."},
	} {
		if got := To(row.text, row.limit); got != row.want {
			t.Errorf("%q in %d bytes: %q, want %q", row.text, row.limit, got, row.want)
		}
	}
}
