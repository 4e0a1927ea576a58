//go:build e2e && old

package e2e

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// reader follows the pages about upgrades in a checkout, with images of a tag.
type reader struct {
	page     map[string][]block
	dir, tag string
}

// block is a fence of a page: its language, the word after it, and its text.
type block struct{ language, word, text string }

var headingOrFence = regexp.MustCompile("(?ms)^(##+ [^\n]+)$|^```(yaml|console) ?(\\S*)\n(.*?)^```$")

// upgradePages returns the fences below each heading of the pages about upgrades.
func upgradePages(t *testing.T) map[string][]block {
	t.Helper()
	fences := map[string][]block{}
	for _, page := range []string{"docs/how-to/upgrade.md", "docs/contributing/earlier-data-planes.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		heading := ""
		for _, found := range headingOrFence.FindAllStringSubmatch(string(text), -1) {
			if found[1] != "" {
				heading = found[1]
				continue
			}
			fences[heading] = append(fences[heading], block{found[2], found[3], found[4]})
		}
	}
	return fences
}

// fill replaces the words in capitals of the page.
func (r reader) fill(text, node string) string {
	return strings.NewReplacer("REGISTRY", "docker.io/library", "TAG", r.tag, "NODE", node, "image: NEW", "image: pod2-agent:new").Replace(text)
}

var fileOption = regexp.MustCompile(` -f (artifacts/\S+)`)

// present leaves out the files that an old checkout lacks, as the page says about the way back.
func (r reader) present(command string) string {
	return fileOption.ReplaceAllStringFunc(command, func(option string) string {
		_, err := os.Stat(filepath.Join(r.dir, fileOption.FindStringSubmatch(option)[1]))
		if r.dir != root && errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		return option
	})
}

// commands of the console fence with this number below a heading.
func (r reader) commands(t *testing.T, heading string, number int, node string) (commands []string) {
	t.Helper()
	var fences []string
	for _, b := range r.page[heading] {
		if b.language == "console" {
			fences = append(fences, b.text)
		}
	}
	if number >= len(fences) {
		t.Fatalf("the pages about upgrades have %d fences below %q, want number %d", len(fences), heading, number)
	}
	for line := range strings.Lines(fences[number]) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
			commands = append(commands, r.present(r.fill(command, node)))
		}
	}
	return commands
}

// fence runs the commands of one fence.
func (r reader) fence(t *testing.T, heading string, number int) {
	t.Helper()
	r.run(t, r.commands(t, heading, number, "")...)
}

// follow runs the only fence below a heading.
func (r reader) follow(t *testing.T, heading string) {
	t.Helper()
	if n := len(r.page[heading]); n != 1 {
		t.Fatalf("the pages about upgrades have %d fences below %q, want 1", n, heading)
	}
	r.fence(t, heading, 0)
}

// save the manifests below a heading in the checkout.
func (r reader) save(t *testing.T, heading string) {
	t.Helper()
	saved := 0
	for _, b := range r.page[heading] {
		if b.language == "yaml" {
			saved++
			if err := os.WriteFile(filepath.Join(r.dir, b.word), []byte(r.fill(b.text, "")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if saved != 1 {
		t.Fatalf("the pages about upgrades have %d manifests below %q, want 1", saved, heading)
	}
}

// run types commands. The page limits those that wait.
func (r reader) run(t *testing.T, commands ...string) {
	t.Helper()
	for _, command := range commands {
		cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", command)
		cmd.Dir = r.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			pods, _ := kubectl("", "get", "pods", "--all-namespaces", "--output=wide")
			events, _ := kubectl("", "get", "events", "--all-namespaces", "--field-selector=type=Warning", "--sort-by=.lastTimestamp")
			t.Fatalf("$ %s\n%s%v\n%s\n%s", command, out, err, pods, events)
		}
		t.Logf("$ %s\n%s", command, strings.TrimSpace(string(out)))
	}
}

// requireRightsOfOldAgents: until the last of them is replaced, agents of the old version watch
// these kinds, with the new ClusterRole.
func (m *move) requireRightsOfOldAgents(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"networks.samplecrd.k8s.io", "pods", "nodes"} {
		for _, verb := range []string{"list", "watch"} {
			out, err := kubectl("", "auth", "can-i", verb, kind, "--all-namespaces", "--as=system:serviceaccount:pod2-agent:pod2-agent")
			if err != nil {
				t.Errorf("agents with bridges may not %s %s, and still run: %s: %v", verb, kind, out, err)
			}
		}
	}
}
