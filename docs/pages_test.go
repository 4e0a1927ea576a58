package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A tutorial or a how-to guide begins with its readers and ends with the next steps.
func TestUserPagesHaveReadersAndNextSteps(t *testing.T) {
	for _, dir := range []string{"tutorials", "how-to"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.md"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d pages in %s, %v", len(files), dir, err)
		}
		for _, file := range files {
			text := readText(t, file)
			if !regexp.MustCompile(`^# .+\n\nThis page is for .+\n`).MatchString(text) {
				t.Errorf("%s does not begin with its readers", file)
			}
			headings := regexp.MustCompile(`(?m)^## .+$`).FindAllString(text, -1)
			if len(headings) == 0 || headings[len(headings)-1] != "## Next steps" || !strings.Contains(text, "\n- [") {
				t.Errorf("%s does not end with next steps", file)
			}
		}
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
