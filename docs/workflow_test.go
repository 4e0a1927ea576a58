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

// make verify compares the eBPF objects on Debian 12 only, so the workflow has a job there.
func TestWorkflowComparesTheObjects(t *testing.T) {
	for _, job := range regexp.MustCompile(`(?m)^  \w+:$`).Split(readText(t, "../.github/workflows/ci.yaml"), -1) {
		if strings.Contains(job, "    container: debian:12\n") && strings.Contains(job, "      run: hack/update-bpf.sh --check\n") {
			return
		}
	}
	t.Error("no job of ci.yaml runs hack/update-bpf.sh --check on Debian 12")
}

func targets(t *testing.T, file, pattern string) (found []string) {
	t.Helper()
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(readText(t, file), -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return found
}
