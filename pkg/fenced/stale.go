package fenced

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrStale is wrapped by errors that mean: the view was old, nothing was done, look
// again. Such an error is as normal as a conflict.
var ErrStale = errors.New("the view is out of date")

// Stale marks errors that mean "the cluster differs from your view". These are a
// conflict, an object that is gone or already exists, and a patch with another object's
// UID. Never retry them with the old decision.
func Stale(err error) error {
	if err == nil {
		return nil
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || OtherUID(err) {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return err
}

// OtherUID says whether a patch was refused because the object has another UID. The API
// server then answers 422 Invalid with the cause metadata.uid.
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

// inapplicable says whether the API server could not apply a JSON patch. It then answers 422
// Invalid with a fixed message. Objects that it, a policy or a webhook refuses have another
// one.
func inapplicable(err error) bool {
	status := apierrors.APIStatus(nil)
	return apierrors.IsInvalid(err) && errors.As(err, &status) && status.Status().Message == cannotApply.Status().Message
}

var cannotApply = apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "", 0, false)
