package answers

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/timing"
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

// Forbidden reports whether the API server said that the client may not do this.
func Forbidden(err error) bool { return apierrors.IsForbidden(err) && !Page(err) }

// Refused reports whether the API server said that the client, or its request, is at fault, so that the
// same request soon has the same answer.
func Refused(err error) bool {
	return (apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && !Page(err)
}

// Wait is how long an answer asks the client to wait before its next request, at most this long; 0 if it
// asks for nothing.
func Wait(err error, most time.Duration) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return max(0, min(timing.Seconds(int64(seconds)), most))
}

// Page reports whether an answer was no object of the API; only its HTTP status is known.
func Page(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
