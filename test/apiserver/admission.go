package apiserver

import (
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rule is a part of admission. It changes created objects, or refuses a request that
// nothing else refuses. It changes objects of the test's users too, but never refuses their
// requests.
type Rule struct {
	// On are the kinds of requests, as in Kinds: "POST pods". If empty, every write counts.
	On []string
	// In is the namespace of the objects, "" for any.
	In string
	// Mutate changes a created or updated object.
	Mutate func(Object)
	// Refuse returns the reason for a refusal, nil if the request is allowed.
	Refuse func(*Server, Attempt) error
}

// Attempt is a request under admission. Old is nil for a create, New is nil for a delete.
type Attempt struct {
	Resource  schema.GroupResource
	Namespace string
	Name      string
	Old, New  Object
}

func (a Attempt) forbidden(format string, args ...any) *apierrors.StatusError {
	return apierrors.NewForbidden(a.Resource, a.Name, fmt.Errorf(format, args...))
}

// Policy refuses like a ValidatingAdmissionPolicy whose validation gives no reason.
func Policy(message string, refuses func(Attempt) bool) func(*Server, Attempt) error {
	return func(_ *Server, a Attempt) error {
		if refuses != nil && !refuses(a) {
			return nil
		}
		err := a.forbidden("ValidatingAdmissionPolicy 'rules' with binding 'rules' denied request: %s", message)
		err.ErrStatus.Reason, err.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
		return err
	}
}

// Denial refuses like a webhook that gives a message and no code.
func Denial(message string) func(*Server, Attempt) error {
	return func(*Server, Attempt) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusBadRequest,
			Message: fmt.Sprintf("admission webhook %q denied the request: %s", "rules.example.com", message),
		}}
	}
}

// Quota is a ResourceQuota of pods or persistentvolumeclaims in a namespace. Terminated
// pods do not count.
func Quota(namespace, resource string, hard int) Rule {
	return Rule{On: []string{"POST " + resource}, In: namespace, Refuse: func(s *Server, a Attempt) error {
		used := 0
		for _, v := range s.All(ResourceNamed(resource), namespace) {
			if pod, ok := v.Object.(*corev1.Pod); !ok || pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				used++
			}
		}
		if used < hard {
			return nil
		}
		return a.forbidden("exceeded quota: few, requested: %[1]s=1, used: %[1]s=%[2]d, limited: %[1]s=%[3]d", resource, used, hard)
	}}
}

// Admit adds a rule; withdraw removes it.
func (s *Server) Admit(r Rule) (withdraw func()) {
	s.Lock()
	defer s.Unlock()
	s.Note("rule begins: %v", r.On)
	s.rules = append(s.rules, &r)
	return func() {
		s.Lock()
		defer s.Unlock()
		s.Note("rule ends: %v", r.On)
		s.rules = slices.DeleteFunc(s.rules, func(other *Rule) bool { return other == &r })
	}
}

func (s *Server) rulesOn(kind, namespace string) (rules []*Rule) {
	for _, r := range s.rules {
		if (len(r.On) == 0 || slices.Contains(r.On, kind)) && (r.In == "" || r.In == namespace) {
			rules = append(rules, r)
		}
	}
	return rules
}

// mutate lets the rules change an object before it is stored.
func (s *Server) mutate(kind string, obj Object) {
	for _, rule := range s.rulesOn(kind, obj.GetNamespace()) {
		if rule.Mutate != nil {
			rule.Mutate(obj)
		}
	}
}

// refuse returns the error of the first rule that refuses a request.
func (s *Server) refuse(by, kind string, r *Resource, old, next Object) error {
	some := next
	if next == nil {
		some = old
	}
	for _, rule := range s.rulesOn(kind, some.GetNamespace()) {
		if rule.Refuse == nil || by == User {
			continue
		}
		a := Attempt{Resource: r.GroupResource(), Namespace: some.GetNamespace(), Name: some.GetName(), Old: old, New: next}
		if err := rule.Refuse(s, a); err != nil {
			return err
		}
	}
	return nil
}
