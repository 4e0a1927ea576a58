package view

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Record is one thing that the page knows. Equal values are equal as JSON.
type Record struct {
	Key   string
	Value any
}

// Condition of an object, or of a pod.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Since   int64  `json:"since,omitempty"`
}

func conditions(list []metav1.Condition) []Condition {
	var out []Condition
	for _, c := range list {
		out = append(out, Condition{c.Type, string(c.Status), c.Reason, c.Message, seconds(c.LastTransitionTime)})
	}
	return out
}

// seconds since 1970; 0 if the time is not set.
func seconds(t metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func one(resource string, object metav1.Object, value any) []Record {
	return []Record{{resource + "/" + object.GetNamespace() + "/" + object.GetName(), value}}
}
