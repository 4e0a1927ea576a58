// Package apis holds the types. `kubectl explain` shows their doc comments.
package apis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// `kubectl explain` breaks a line of more than 76 characters, and puts the rest on a line
// of its own.
func TestDocCommentsFitExplain(t *testing.T) {
	files, err := filepath.Glob("*/*/*_types.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %s (%v)", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		number := 0
		for line := range strings.Lines(string(content)) {
			number++
			text, comment := strings.CutPrefix(strings.TrimSpace(line), "// ")
			if comment && !strings.HasPrefix(text, "+") && len(text) > 76 {
				t.Errorf("%s:%d is longer than 76 characters: %s", file, number, text)
			}
		}
	}
}
