package runtime

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error classes of runtime calls. Test with errors.Is on errors from the
// runtimes in this module, or with [Class] on errors from any CRI client.
var (
	// ErrNotFound: the sandbox, container or image does not exist.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: the name or ID is taken ("name is reserved").
	ErrAlreadyExists = errors.New("already exists")
	// ErrUnavailable: the runtime does not answer, because it is down or restarting.
	ErrUnavailable = errors.New("runtime unavailable")
	// ErrDeadline: the call took longer than its limit. Whether it took
	// effect is unknown.
	ErrDeadline = errors.New("deadline exceeded")
	// ErrCanceled: the caller gave up. Whether the call took effect is unknown.
	ErrCanceled = errors.New("canceled")
	// ErrUnimplemented: the runtime does not have this call.
	ErrUnimplemented = errors.New("not implemented by the runtime")
	// ErrNoLog: the runtime writes no log for the container. Over gRPC it is ErrUnimplemented,
	// as a runtime without logs answers.
	ErrNoLog = errors.New("the runtime writes no log")
	// ErrInvalid: the request itself is wrong; repeating it is useless.
	ErrInvalid = errors.New("invalid request")
	// ErrFailedPrecondition: the object is in the wrong state for the call.
	ErrFailedPrecondition = errors.New("failed precondition")
	// ErrExhausted: a limit was hit (message size, quota, disk).
	ErrExhausted = errors.New("resource exhausted")
)

// Class returns the Err… sentinel of this package that describes err, or nil if
// none does (and for a nil error). It understands this package's sentinels, gRPC
// status errors as any CRI client returns them, and context errors, wrapped any
// number of times.
func Class(err error) error {
	if err == nil {
		return nil
	}
	for _, class := range []error{
		ErrNotFound, ErrAlreadyExists, ErrUnavailable, ErrDeadline, ErrCanceled,
		ErrUnimplemented, ErrNoLog, ErrInvalid, ErrFailedPrecondition, ErrExhausted,
	} {
		if errors.Is(err, class) {
			return class
		}
	}
	if s, ok := status.FromError(err); ok {
		if class := classOf(s.Code()); class != nil {
			return class
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return ErrDeadline
	case errors.Is(err, context.Canceled):
		return ErrCanceled
	}
	return nil
}

// classOf returns the error class of a gRPC code, or nil if it has none.
func classOf(code codes.Code) error {
	switch code {
	case codes.NotFound:
		return ErrNotFound
	case codes.AlreadyExists:
		return ErrAlreadyExists
	case codes.Unavailable:
		return ErrUnavailable
	case codes.DeadlineExceeded:
		return ErrDeadline
	case codes.Canceled:
		return ErrCanceled
	case codes.Unimplemented:
		return ErrUnimplemented
	case codes.InvalidArgument, codes.OutOfRange:
		return ErrInvalid
	case codes.FailedPrecondition:
		return ErrFailedPrecondition
	case codes.ResourceExhausted:
		return ErrExhausted
	}
	return nil
}

// CodeOf returns the gRPC code of an error class, codes.Unknown for any other
// error and codes.OK for nil. It is the inverse of [Class], but for [ErrNoLog], for
// runtimes that are served over gRPC.
func CodeOf(err error) codes.Code {
	switch Class(err) {
	case ErrNotFound:
		return codes.NotFound
	case ErrAlreadyExists:
		return codes.AlreadyExists
	case ErrUnavailable:
		return codes.Unavailable
	case ErrDeadline:
		return codes.DeadlineExceeded
	case ErrCanceled:
		return codes.Canceled
	case ErrUnimplemented, ErrNoLog:
		return codes.Unimplemented
	case ErrInvalid:
		return codes.InvalidArgument
	case ErrFailedPrecondition:
		return codes.FailedPrecondition
	case ErrExhausted:
		return codes.ResourceExhausted
	}
	if err == nil {
		return codes.OK
	}
	return codes.Unknown
}

// IsNotFound reports whether err says that the object does not exist.
func IsNotFound(err error) bool { return Class(err) == ErrNotFound }

// ExitError is the error of [ContainerManager.ExecSync] when the command ran
// and exited with a code other than 0. Its method set is that of
// k8s.io/utils/exec.ExitError, so callers of other CRI clients can test for
// interface{ ExitStatus() int } alike.
type ExitError struct {
	// Code is the exit code, never 0.
	Code int
}

// Error names the exit code.
func (e *ExitError) Error() string { return fmt.Sprintf("command exited with code %d", e.Code) }

// String is Error.
func (e *ExitError) String() string { return e.Error() }

// Exited is always true: the command ran to its end.
func (e *ExitError) Exited() bool { return true }

// ExitStatus returns the exit code.
func (e *ExitError) ExitStatus() int { return e.Code }
