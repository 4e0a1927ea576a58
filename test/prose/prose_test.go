package prose

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// tracked are the files of the project, by their paths from its root.
func tracked(t *testing.T) []string {
	git := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	git.Dir = "../.."
	out, err := git.Output()
	if err != nil {
		t.Fatalf("list the files of the project: %v", err)
	}
	return strings.Fields(string(out))
}

func read(t *testing.T, file string) []byte {
	source, err := os.ReadFile(path.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// check measures texts, and looks at each sentence. Run one page or one package with
// `go test -C test/prose -run 'TestProse/^pkg/pod2$'`.
func check(t *testing.T, name string, texts ...[]Sentence) {
	t.Run(name, func(t *testing.T) {
		for _, text := range texts {
			if why := measure(name, text); why != "" {
				t.Error(why)
			}
			for _, s := range text {
				for _, fault := range faults(s) {
					t.Error(fault)
				}
			}
		}
	})
}

// A page, the comments of a package and the strings of a package are read at one go.
func TestProse(t *testing.T) {
	comments, texts := map[string][]Sentence{}, map[string][]Sentence{}
	var packages []string
	for _, file := range tracked(t) {
		if generated(file) {
			continue
		}
		switch {
		case strings.HasSuffix(file, ".md"):
			check(t, file, Markdown(file, read(t, file)))
		case strings.HasSuffix(file, ".go"):
			c, s, err := Go(file, read(t, file))
			if err != nil {
				t.Fatal(err)
			}
			name := path.Dir(file)
			if _, seen := comments[name]; !seen {
				packages = append(packages, name)
			}
			comments[name], texts[name] = append(comments[name], c...), append(texts[name], s...)
		case strings.HasSuffix(file, ".yaml"), strings.HasSuffix(file, ".yml"):
			check(t, file, Hash(file, read(t, file)), Messages(file, read(t, file)))
		case strings.HasSuffix(file, ".sh"), strings.HasSuffix(file, ".toml"), slices.Contains([]string{"Makefile", "run"}, path.Base(file)):
			check(t, file, Hash(file, read(t, file)))
		}
	}
	for _, name := range packages {
		check(t, name, comments[name], texts[name])
	}
}

func generated(file string) bool {
	return strings.HasPrefix(file, "pkg/client/") || strings.HasPrefix(path.Base(file), "zz_generated") || strings.HasPrefix(file, "test/prose/") ||
		strings.HasSuffix(file, ".patch")
}
