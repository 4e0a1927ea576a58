package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// unqualified lists the words by which a delete command in the text names one of Pod2's
// kinds without its group.
func unqualified(text string, kinds map[string]string) (found []string) {
	for _, command := range deletion.FindAllStringSubmatch(text, -1) {
		for _, word := range strings.Fields(strings.NewReplacer("\"", " ", "'", " ", "`", " ").Replace(command[1])) {
			for _, name := range strings.Split(word, ",") {
				name, _, _ = strings.Cut(name, "/")
				if qualified := kinds[strings.ToLower(name)]; qualified != "" {
					found = append(found, name+": write "+qualified)
				}
			}
		}
	}
	return found
}

// deletion matches a command. A command ends at a comment, another command or the end of
// the quotation. Scripts call kubectl k, show and survive.
var deletion = regexp.MustCompile("\\b(?:kubectl|k|show|survive)\\b[^\\n|;&`]*\\bdelete\\b([^\\n|;&`#]*)")

// kindNames maps all kubectl names of Pod2's kinds to the name that no other group can
// have.
func kindNames(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../crd/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in crd, %v", len(files), err)
	}
	kinds := map[string]string{}
	for _, file := range files {
		var crd struct {
			Spec struct {
				Group string
				Names struct {
					Plural, Singular string
					ShortNames       []string
				}
			}
		}
		if err := yaml.Unmarshal([]byte(readText(t, file)), &crd); err != nil {
			t.Fatal(err)
		}
		names := crd.Spec.Names
		for _, name := range append([]string{names.Plural, names.Singular}, names.ShortNames...) {
			kinds[name] = names.Plural + "." + crd.Spec.Group
		}
	}
	return kinds
}

// Another group may have a kind with the same name: OpenShift's cluster-scoped
// networks.config.openshift.io is the network of the cluster.
func TestDeletionsNameTheGroup(t *testing.T) {
	kinds := kindNames(t)
	read := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"../.git", "../bin", "../.localcluster"}, path):
			return filepath.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go") || !written(path):
			return nil
		}
		content, err := os.ReadFile(path)
		read++
		for _, found := range unqualified(string(content), kinds) {
			t.Errorf("%s: a command deletes %s", path, found)
		}
		return err
	})
	if err != nil || read < 100 {
		t.Errorf("read %d files, %v", read, err)
	}
}

// written says whether a file contains commands for readers, or runs some.
func written(path string) bool {
	return path == "../Makefile" || strings.HasPrefix(path, "../.ci/") ||
		slices.Contains([]string{".md", ".yaml", ".sh", ".go"}, filepath.Ext(path))
}

func TestUnqualifiedDeletionsAreFound(t *testing.T) {
	kinds := kindNames(t)
	for text, want := range map[string]string{
		"kubectl delete networks --all --all-namespaces":                     "networks: write networks.samplecrd.k8s.io",
		"$ kubectl -n shop delete --wait=false pod2s,crontabs --all":         "pod2s: write pod2s.samplecrd.k8s.io, crontabs: write crontabs.stable.example.com",
		"run `kubectl delete pod2 web --cascade=orphan` and wait":            "pod2: write pod2s.samplecrd.k8s.io",
		"  survive delete net/blue":                                          "net: write networks.samplecrd.k8s.io",
		`"... use kubectl delete ab blue-10.0.0.0"`:                          "ab: write addressblocks.samplecrd.k8s.io",
		"kubectl delete networks.samplecrd.k8s.io,pods --all # networks":     "",
		"kubectl delete pod web-1 && kubectl get networks":                   "",
		"`kubectl delete pod web-1` has the Network delete its networks ...": "",
	} {
		if got := strings.Join(unqualified(text, kinds), ", "); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}
