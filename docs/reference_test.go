package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// constants returns the values of the string constants in a directory whose names match,
// by the names.
func constants(t *testing.T, dir, names string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has %d Go files, %v", dir, len(files), err)
	}
	all, matches := map[string]string{}, regexp.MustCompile(names)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				value := spec.(*ast.ValueSpec)
				for i, name := range value.Names {
					if !matches.MatchString(name.Name) || i >= len(value.Values) {
						continue
					}
					literal, ok := value.Values[i].(*ast.BasicLit)
					if !ok || literal.Kind != token.STRING {
						continue
					}
					text, err := strconv.Unquote(literal.Value)
					if err != nil {
						t.Fatal(err)
					}
					all[name.Name] = text
				}
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no constants %s", dir, names)
	}
	return all
}

// section returns the text below a heading, up to the next heading of the same level.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(text, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("no section %s", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

var firstCell = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// keysOf returns the first cells of all tables in a text.
func keysOf(text string) map[string]bool {
	keys := map[string]bool{}
	for _, row := range firstCell.FindAllStringSubmatch(text, -1) {
		keys[row[1]] = true
	}
	return keys
}

// reasonsOf names, for each kind, the packages with the reasons of its conditions and
// events. The reasons of pkg/network are of Networks, pods, or both.
var reasonsOf = map[string][]string{
	"CronTab": {"pkg/crontab"},
	"Network": {"pkg/network", "pkg/network/multus", "pkg/network/addressslice"},
	"Pod":     {"pkg/network"},
	"Pod2":    {"pkg/pod2", "pkg/pod2/dns"},
	"Sidecar": {"pkg/sidecar"},
}

func TestReasonsAreListed(t *testing.T) {
	text := readText(t, "reference/conditions-and-events.md")
	unlisted := map[string]bool{} // package and reason
	for kind, packages := range reasonsOf {
		listed, known := keysOf(section(t, text, kind)), map[string]bool{}
		for _, dir := range packages {
			for name, reason := range constants(t, dir, `^(Reason|Event)[A-Z]`) {
				known[reason] = true
				key := dir + " has " + name + " = " + strconv.Quote(reason)
				if was, seen := unlisted[key]; !seen || was {
					unlisted[key] = !listed[reason]
				}
			}
		}
		for reason := range listed {
			if !known[reason] {
				t.Errorf("section %s lists reason %s, which %s does not have", kind, reason, strings.Join(packages, " or "))
			}
		}
	}
	for where, missing := range unlisted {
		if missing {
			t.Errorf("%s, and conditions-and-events.md does not list it", where)
		}
	}
}

func TestConditionsAreListed(t *testing.T) {
	var listed, has []string
	for _, heading := range regexp.MustCompile(`(?m)^### Condition (\S+)`).FindAllStringSubmatch(readText(t, "reference/conditions-and-events.md"), -1) {
		listed = append(listed, heading[1])
	}
	for _, dir := range []string{"pkg/apis/samplecrd/v1", "pkg/apis/stable/v1"} {
		for _, condition := range constants(t, dir, `^Condition[A-Z]`) {
			has = append(has, condition)
		}
	}
	compare(t, "conditions-and-events.md", listed, has)
}

func TestKeysAreListed(t *testing.T) {
	var listed, has []string
	for key := range keysOf(readText(t, "reference/annotations-and-labels.md")) {
		listed = append(listed, key)
	}
	for _, dir := range []string{"pkg/apis/samplecrd/v1", "pkg/apis/stable/v1"} {
		for _, key := range constants(t, dir, `(Annotation|Label|Gate|Finalizer)$`) {
			has = append(has, key)
		}
	}
	for _, key := range constants(t, "pkg/pod2", `^ChangeCauseAnnotation$`) {
		has = append(has, key)
	}
	compare(t, "annotations-and-labels.md", listed, has)
}

// compare reports the names that only the page has, and those that only the code has.
func compare(t *testing.T, name string, listed, has []string) {
	t.Helper()
	for _, key := range has {
		if !slices.Contains(listed, key) {
			t.Errorf("%s does not list %s", name, key)
		}
	}
	for _, key := range listed {
		if !slices.Contains(has, key) {
			t.Errorf("%s lists %s, which the code does not have", name, key)
		}
	}
}
