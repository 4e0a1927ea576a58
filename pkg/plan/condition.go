package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// True is a condition with that status.
func True(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False is a condition with that status.
func False(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// SetCondition sets the condition of that type, of the object in that generation. The
// time of its last transition changes with its status alone.
func SetCondition(conditions *[]metav1.Condition, kind string, generation int64, now time.Time, c metav1.Condition) {
	c.Type, c.ObservedGeneration, c.LastTransitionTime = kind, generation, metav1.NewTime(now)
	meta.SetStatusCondition(conditions, c)
}

// Said says whether conditions have one of that type with that reason and message: no
// event tells of it again.
func Said(conditions []metav1.Condition, c *metav1.Condition) bool {
	was := meta.FindStatusCondition(conditions, c.Type)
	return was != nil && was.Reason == c.Reason && was.Message == c.Message
}

// Changed is the status to be written, nil if it is so already.
func Changed[T any](status *T, was T) *T {
	if equality.Semantic.DeepEqual(*status, was) {
		return nil
	}
	return status
}

// WithoutMessages are conditions as they are compared when numbers may wait: messages
// have some.
func WithoutMessages(conditions []metav1.Condition) []metav1.Condition {
	conditions = slices.Clone(conditions)
	for i := range conditions {
		conditions[i].Message = ""
	}
	return conditions
}

// ConditionsText has a space before each condition.
func ConditionsText(conditions []metav1.Condition) string {
	text := ""
	for _, c := range conditions {
		text += fmt.Sprintf(" %s=%s/%s", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			text += fmt.Sprintf("(%s)", c.Message)
		}
	}
	return text
}
