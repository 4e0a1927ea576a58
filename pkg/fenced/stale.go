package fenced

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrStale is wrapped by errors that say: the view was old, nothing was done on
// it, look again. It is as normal as a conflict.
var ErrStale = errors.New("the view is older than the world")

// Stale marks the answers that mean "the world is not as your view has it": a
// conflict, an object gone or already there, and a patch whose UID is that of
// another incarnation. None is retried with the old decision.
func Stale(err error) error {
	if err == nil {
		return nil
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || OtherUID(err) {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return err
}

// OtherUID says whether a patch was refused since the object is another incarnation: the
// API server answers with 422 Invalid and the cause metadata.uid.
func OtherUID(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldValueInvalid && cause.Field == "metadata.uid" {
			return true
		}
	}
	return false
}
