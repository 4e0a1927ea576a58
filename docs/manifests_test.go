package docs

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// manifests.md promises all fields of a spec, so a new field must be added there.
func TestManifestsHaveAllFields(t *testing.T) {
	text := readText(t, "reference/manifests.md")
	for _, spec := range []any{v1.NetworkSpec{}, v1.Pod2Spec{}, v1.SidecarSpec{}} {
		for _, field := range specFields(reflect.TypeOf(spec)) {
			if !regexp.MustCompile(`(?m)^[^#\n]*\b` + field + `:( |$)`).MatchString(text) {
				t.Errorf("manifests.md has no line with the field %s of %T", field, spec)
			}
		}
	}
}

// specFields returns the names of all fields of a type, down to types of other packages.
func specFields(of reflect.Type) (names []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[v1.Pod2]().PkgPath() {
		return nil
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(append(names, name), specFields(field.Type)...)
	}
	return names
}

// Each place that installs Pod2 applies the files that every installation needs.
func TestInstallationsHaveTheSameFiles(t *testing.T) {
	needed, err := filepath.Glob("../artifacts/[23]*.yaml")
	if err != nil || len(needed) < 5 {
		t.Fatalf("found %q, %v", needed, err)
	}
	for _, file := range []string{"README.md", "docs/how-to/install.md", "docs/how-to/upgrade.md", "hack/demo.sh", "hack/terminal.sh"} {
		command := regexp.MustCompile(`(?m)^.* apply .*-f artifacts/20-.*$`).FindString(readText(t, filepath.Join("..", file)))
		for _, path := range needed {
			if want := "-f artifacts/" + filepath.Base(path); !strings.Contains(command+" ", want+" ") {
				t.Errorf("%s does not apply %s: %q", file, want, command)
			}
		}
	}
}
