// Package docs tests that the pages name only files, tests and metrics that exist.
package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every row about Pod2s in test-coverage.md names tests, and those exist: in the package
// that the row names, else in test/integration or at the root.
func TestNamedTestsExist(t *testing.T) {
	table := section(t, readText(t, "contributing/test-coverage.md"), "Pod2s")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 3 || cells[0] == "capability" {
			continue
		}
		rows++
		for _, part := range strings.Split(cells[2], ", and ") {
			dirs := []string{"test/integration", "."}
			for _, named := range regexp.MustCompile(` in ([a-z0-9/-]+)$`).FindAllStringSubmatch(part, 1) {
				dirs = named[1:]
			}
			tests := regexp.MustCompile(`Test\w+`).FindAllString(part, -1)
			if len(tests) == 0 {
				t.Errorf("%s: %q names no test", cells[0], part)
			}
			for _, test := range tests {
				if !slices.ContainsFunc(dirs, func(dir string) bool { return declared(t, filepath.Join("..", dir), test) }) {
					t.Errorf("%s: test %s does not exist in %q", cells[0], test, dirs)
				}
			}
		}
	}
	if rows < 30 {
		t.Errorf("found only %d rows", rows)
	}
}

func declared(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(readText(t, file), "\nfunc "+test+"(t ") {
			return true
		}
	}
	return false
}
