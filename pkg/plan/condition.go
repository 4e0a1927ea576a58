package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// True returns a condition with status True.
func True(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False returns a condition with status False.
func False(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// SetCondition sets the condition of that type, for that generation of the object. Only a
// change of its status changes the time of its last transition.
func SetCondition(conditions *[]metav1.Condition, kind string, generation int64, now time.Time, c metav1.Condition) {
	c.Type, c.ObservedGeneration, c.LastTransitionTime = kind, generation, metav1.NewTime(now)
	meta.SetStatusCondition(conditions, c)
}

// Said reports whether conditions have one of that type with that reason and message. No
// event reports it again.
func Said(conditions []metav1.Condition, c *metav1.Condition) bool {
	was := meta.FindStatusCondition(conditions, c.Type)
	return was != nil && was.Reason == c.Reason && was.Message == c.Message
}

// Changed returns the status to write, nil if it is already written.
func Changed[T any](status *T, was T) *T {
	if equality.Semantic.DeepEqual(*status, was) {
		return nil
	}
	return status
}

// WithoutMessages returns conditions without their messages, to compare them while
// numbers may wait: messages contain numbers.
func WithoutMessages(conditions []metav1.Condition) []metav1.Condition {
	conditions = slices.Clone(conditions)
	for i := range conditions {
		conditions[i].Message = ""
	}
	return conditions
}

// ConditionsText writes a space before each condition.
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
