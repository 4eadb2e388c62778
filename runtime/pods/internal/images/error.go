package images

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/credentials"
)

// Reasons of an [Error] (spec/runtime.md 22.1).
const (
	ErrImagePull              = "ErrImagePull"
	ImagePullBackOff          = "ImagePullBackOff"
	ErrImageNeverPull         = "ErrImageNeverPull"
	ImageInspectError         = "ImageInspectError"
	InvalidImageName          = "InvalidImageName"
	RegistryUnavailable       = "RegistryUnavailable"
	SignatureValidationFailed = "SignatureValidationFailed"
)

// Error is why an image is missing.
type Error struct {
	Reason  string
	Message string
	// RetryAt is the end of the back-off, if one holds the pull.
	RetryAt time.Time
	// BackOff is the back-off that begins with this failure, 0 if none does.
	BackOff time.Duration
	Err     error
}

// Error is the message with its reason.
func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Unwrap returns the runtime's error, if there was one.
func (e *Error) Unwrap() error { return e.Err }

// refusals joins the errors of all credentials that were tried, without their content
// (spec/runtime.md 9.6).
func refusals(errs []error, tried []credentials.Credential) error {
	var err error
	switch len(errs) {
	case 0:
		return nil
	case 1:
		err = errs[0]
	default:
		texts := make([]string, len(errs))
		for i, e := range errs {
			texts[i] = message(e)
		}
		reason := class(errs[0])
		for _, e := range errs {
			if class(e) != reason {
				reason = ErrImagePull
			}
		}
		err = &several{text: "[" + strings.Join(texts, ", ") + "]", reason: reason, last: errs[len(errs)-1]}
	}
	text := err.Error()
	if redacted := credentials.Redact(text, tried); redacted != text {
		return &several{text: credentials.Redact(message(err), tried), reason: class(err), last: cri.Class(err)}
	}
	return err
}

// several stands for more than one error, or for one whose text is not the one to
// show.
type several struct {
	text, reason string
	last         error
}

func (e *several) Error() string { return e.text }

func (e *several) Unwrap() error { return e.last }

// ours makes an error of the engine itself, whose text is shown unchanged.
func ours(err error) error {
	return &several{text: err.Error(), reason: ErrImagePull, last: err}
}

// class returns the reason for a failed pull (spec/runtime.md 9.7).
func class(err error) string {
	var s *several
	if errors.As(err, &s) {
		return s.reason
	}
	text := message(err)
	for _, reason := range []string{RegistryUnavailable, SignatureValidationFailed} {
		if strings.HasPrefix(text, reason) {
			return reason
		}
	}
	return ErrImagePull
}

// message is the runtime's own text, without the prefixes of the transport.
func message(err error) string {
	var s *several
	if errors.As(err, &s) {
		return s.text
	}
	var transported interface{ GRPCStatus() *status.Status }
	if errors.As(err, &transported) && transported.GRPCStatus() != nil {
		return transported.GRPCStatus().Message()
	}
	innermost := err
	for e := err; e != nil; e = errors.Unwrap(e) {
		innermost = e
	}
	if class := cri.Class(err); class != nil && errors.Is(innermost, class) {
		// Only a class is left at the bottom: the text is above it.
		return err.Error()
	}
	return innermost.Error()
}

// inspectError is an [Error] of ImageStatus.
func inspectError(image string, err error) *Error {
	return &Error{Reason: ImageInspectError, Message: fmt.Sprintf("Failed to inspect image %q: %v", image, err), Err: err}
}
