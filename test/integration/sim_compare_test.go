//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

func answered(status map[string]any) string {
	text := fmt.Sprint(status["reason"])
	if details, ok := status["details"].(map[string]any); ok {
		if causes, ok := details["causes"].([]any); ok && status["reason"] == "Invalid" {
			for _, c := range causes {
				text += fmt.Sprint(" ", c.(map[string]any)["field"])
				break
			}
		} else if status["reason"] == "Invalid" {
			text += fmt.Sprint(": ", status["message"]) // pkg/fenced reads it
		}
	}
	return text
}

// normal removes the parts that always differ.
func (p *peer) normal(object any) any {
	text, _ := json.Marshal(object)
	for name, o := range p.objects {
		if uid, ok := metadataOf(o)["uid"].(string); ok {
			text = bytes.ReplaceAll(text, []byte(uid), []byte("uid of "+name))
		}
	}
	var v any
	_ = json.Unmarshal(text, &v)
	return strip(v)
}

func strip(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, field := range []string{
			"uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink", "namespace", "continue",
			"deletionTimestamp", "lastTransitionTime", "lastProbeTime",
		} {
			delete(v, field)
		}
		for key, value := range v {
			v[key] = strip(value)
		}
	case []any:
		for i := range v {
			v[i] = strip(v[i])
		}
	}
	return v
}

// lacks returns the place where a has a field that b lacks, or has a different value.
func lacks(path string, a, b any) string {
	switch a := a.(type) {
	case nil:
		return ""
	case map[string]any:
		other, _ := b.(map[string]any)
		for key, value := range a {
			if empty(value) && other[key] == nil {
				continue
			}
			if why := lacks(path+"."+key, value, other[key]); why != "" {
				return why
			}
		}
		return ""
	case []any:
		other, _ := b.([]any)
		if len(a) != len(other) {
			return fmt.Sprintf("%s: %v, not %v", path, a, b)
		}
		for i := range a {
			if why := lacks(fmt.Sprintf("%s[%d]", path, i), a[i], other[i]); why != "" {
				return why
			}
		}
		return ""
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Sprintf("%s: %v, not %v", path, a, b)
	}
	return ""
}

func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			if !empty(value) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return v == nil || v == "" || v == float64(0) || v == false
}
