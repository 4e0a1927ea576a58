package pod2

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
)

// firstDifference returns the path of the first field, in order, that differs; "" if none
// does.
func firstDifference(a, b []byte) string {
	var x, y any
	// This package encoded both.
	_, _ = json.Unmarshal(a, &x), json.Unmarshal(b, &y)
	return differs("", x, y)
}

func differs(path string, x, y any) string {
	if a, ok := x.(map[string]any); ok {
		if b, ok := y.(map[string]any); ok {
			keys := slices.Collect(maps.Keys(a))
			for key := range b {
				if _, both := a[key]; !both {
					keys = append(keys, key)
				}
			}
			slices.Sort(keys)
			for _, key := range keys {
				if where := differs(below(path, key), a[key], b[key]); where != "" {
					return where
				}
			}
			return ""
		}
	}
	if a, ok := x.([]any); ok {
		if b, ok := y.([]any); ok && len(a) == len(b) {
			for i := range a {
				if where := differs(fmt.Sprintf("%s[%d]", path, i), a[i], b[i]); where != "" {
					return where
				}
			}
			return ""
		}
	}
	if equality.Semantic.DeepEqual(x, y) {
		return ""
	}
	return path
}
