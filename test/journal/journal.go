// Package journal lets a test say what happened, and when.
package journal

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Journal writes down what happens, each line with the virtual time since it was made.
type Journal struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

// New is made in the bubble of testing/synctest whose time it tells.
func New() *Journal { return &Journal{start: time.Now()} }

// Note adds a line.
func (j *Journal) Note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%s ", time.Since(j.start))+fmt.Sprintf(format, args...))
}

// Expect fails the test if the lines are others.
func (j *Journal) Expect(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if got, want := strings.Join(j.lines, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
