package answers

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NotFound reports whether the API server said that an object does not exist. Package apierrors also
// says so of a 404 page, which tells nothing about the object.
func NotFound(err error) bool { return apierrors.IsNotFound(err) && !Page(err) }

// Conflict reports whether the API server said that a change does not fit the object.
func Conflict(err error) bool { return apierrors.IsConflict(err) && !Page(err) }

// AlreadyExists reports whether the API server said that there is an object of that name.
func AlreadyExists(err error) bool { return apierrors.IsAlreadyExists(err) && !Page(err) }

// Invalid reports whether the API server said that an object cannot be so.
func Invalid(err error) bool { return apierrors.IsInvalid(err) && !Page(err) }

// Page reports whether an answer was no object of the API; only its HTTP status is known.
func Page(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
