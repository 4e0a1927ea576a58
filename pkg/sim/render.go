package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// Render is what is stored, one object a line, without what differs from run to
// run: UIDs are told by what has them, times and resourceVersions are left out.
func (s *Server) Render() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, c := range s.history {
		if c.old == nil {
			names = append(names, string(c.new.object.GetUID()), "uid of "+c.key.String())
		}
	}
	uids := strings.NewReplacer(names...)
	var lines []string
	for k, v := range s.objects {
		if apart[k.resource] {
			continue
		}
		object := decodeJSON(v.json()).(map[string]any)
		metadata := object["metadata"].(map[string]any)
		for _, field := range []string{"resourceVersion", "generation", "creationTimestamp"} {
			delete(metadata, field)
		}
		if status, ok := object["status"].(map[string]any); ok {
			delete(status, "observedGeneration")
		}
		text := uids.Replace(string(mustJSON(object)))
		lines = append(lines, fmt.Sprintf("%s %s", k, times.ReplaceAllString(text, "T")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Differ has the lines of two texts that are not in both, "" if there are none.
func Differ(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out []string
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}
