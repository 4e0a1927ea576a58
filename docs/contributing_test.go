package docs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The diff of the example is part of this code, so git can revert it.
func TestTheDiffOfTheExampleFits(t *testing.T) {
	_, diff, found := strings.Cut(readText(t, "contributing/add-a-kind.md"), "```diff\n")
	diff, _, closed := strings.Cut(diff, "```")
	if !found || !closed {
		t.Fatal("add-a-kind.md has no diff")
	}
	git := exec.Command("git", "apply", "--reverse", "--check", "--unidiff-zero", "-")
	git.Dir, git.Stdin = "..", strings.NewReader(diff)
	if out, err := git.CombinedOutput(); err != nil {
		t.Errorf("%v: change the page with the code:\n%s", err, out)
	}
}

// ofTheExample matches the names of the kind CronTab and of the parts that only it uses.
var ofTheExample = regexp.MustCompile(`\bKindCronTab\b|\bcronTabKind\b|pod2/pkg/crontab"|\bwriteCron(Tabs|Jobs)\b|\bSlimJob\b|\b(cronTabs|cronJobs|jobs)Resource\b|\bofCronTabs\b`)

// The product names the kind only in the files that the page lists.
func TestAKindIsNamedWhereThePageSays(t *testing.T) {
	var got []string
	for _, root := range []string{"main.go", "controller.go", "internal", "pkg", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if rest := strings.TrimPrefix(path, "../"); ofTheExample.Match(text) && !strings.HasPrefix(rest, "pkg/crontab/") {
				got = append(got, rest)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for _, match := range regexp.MustCompile(`\]\(\.\./\.\./((?:main|pkg/reconcile/(?:crontab|kinds|resources|clients|slim))\.go)\)`).FindAllStringSubmatch(readText(t, "contributing/add-a-kind.md"), -1) {
		want = append(want, match[1])
	}
	slices.Sort(got)
	slices.Sort(want)
	if got, want := strings.Join(got, " "), strings.Join(slices.Compact(want), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// All files of the path exist. A reader returns to few of them, and only where the page says so.
func TestThePathReturnsSeldom(t *testing.T) {
	seen, last, backs := map[string]bool{}, "", 0
	for line := range strings.Lines(readText(t, "contributing/path-of-a-pod2.md")) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || !regexp.MustCompile(`^\| \d+$`).MatchString(cells[0]) {
			continue
		}
		if name, back := strings.CutPrefix(cells[1], "back to "); back {
			backs++
			path := ""
			for left := range seen {
				if filepath.Base(left) == name {
					path = left
				}
			}
			if path == "" || path == last {
				t.Errorf("the path returns to %s, which it did not open before", name)
			}
			last = path
			continue
		}
		link := regexp.MustCompile(`\((.+)\)`).FindStringSubmatch(cells[1])
		if link == nil {
			t.Fatalf("no file in %q", line)
		}
		if _, err := os.Stat(filepath.Join("contributing", link[1])); err != nil {
			t.Error(err)
		}
		last = link[1]
		if seen[last] {
			t.Errorf("the path has visited %s before", last)
		}
		seen[last] = true
	}
	if backs == 0 || backs > 10 {
		t.Errorf("the path returns %d times, want 1 to 10 times", backs)
	}
}
