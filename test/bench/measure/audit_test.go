package measure

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

const (
	created = `{"verb":"create","user":{"username":"a"},"objectRef":{"resource":"pods","namespace":"b"}}` + "\n"
	updated = `{"verb":"update","user":{"username":"a"},"objectRef":{"resource":"pods","subresource":"status"}}` + "\n"
)

// Each Read has the whole lines since the last one.
func TestAuditReadsEachLineOnce(t *testing.T) {
	audit := &Audit{path: filepath.Join(t.TempDir(), "log")}
	half := len(updated) / 2
	for _, test := range []struct {
		appended string
		want     Writes
	}{
		{created + created + updated[:half], Writes{{"a", "create", "pods"}: 2}},
		{updated[half:], Writes{{"a", "update", "pods/status"}: 1}},
		{"", Writes{}},
	} {
		file := Must(os.OpenFile(audit.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
		Must(file.WriteString(test.appended))
		Check(file.Close())
		if got := audit.Read(); !maps.Equal(got, test.want) {
			t.Errorf("after %q: %v, want %v", test.appended, got, test.want)
		}
	}
}

func TestSumOfWrites(t *testing.T) {
	writes := Writes{{"a", "create", "pods"}: 2, {"b", "create", "pods"}: 3, {"a", "delete", "pods"}: 4}
	if got := writes.Sum(func(w Write) bool { return w.User == "a" }); got != 6 {
		t.Errorf("%d writes of a, want 6", got)
	}
}
