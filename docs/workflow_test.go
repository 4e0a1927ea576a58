package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The workflow on GitHub and .ci/run check a change with the same make targets.
func TestWorkflowRunsTheTargetsOfCI(t *testing.T) {
	want := targets(t, "../.ci/run", `(?m)^(?:step|beside) (make .+)$`)
	got := targets(t, "../.github/workflows/ci.yaml", `(?m)^ +- (make .+)$`)
	if len(want) < 5 || !slices.Equal(got, want) {
		t.Errorf("ci.yaml runs %s\n.ci/run runs %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

func targets(t *testing.T, file, pattern string) (found []string) {
	t.Helper()
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(readText(t, file), -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return found
}
