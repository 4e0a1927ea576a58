// Package journal records events of a test with their times.
package journal

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Journal records lines, each with the virtual time since the Journal was created.
type Journal struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

// New must be called in the testing/synctest bubble whose time the lines show.
func New() *Journal { return &Journal{start: time.Now()} }

// Note adds a line.
func (j *Journal) Note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%s ", time.Since(j.start))+fmt.Sprintf(format, args...))
}

// Expect fails the test if the lines differ from want.
func (j *Journal) Expect(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if got, want := strings.Join(j.lines, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
