package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A page begins with its readers and ends with the next steps, unless it is generated.
func TestPagesHaveReadersAndNextSteps(t *testing.T) {
	pages := 0
	for _, pattern := range []string{"*.md", "*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text := readText(t, file)
			if strings.Contains(text, "\n<!-- Written by ") {
				continue
			}
			pages++
			if !regexp.MustCompile(`^# .+\n\n(This page is for|For) .+\n`).MatchString(text) {
				t.Errorf("%s does not begin with its readers", file)
			}
			headings := regexp.MustCompile(`(?m)^## .+$`).FindAllString(text, -1)
			if len(headings) == 0 || headings[len(headings)-1] != "## Next steps" || !strings.Contains(text, "\n- [") {
				t.Errorf("%s does not end with next steps", file)
			}
		}
	}
	if pages < 50 {
		t.Errorf("found only %d pages", pages)
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
