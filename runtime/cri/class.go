package cri

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/runtime"
)

// Class returns the Err… sentinel of package runtime that describes err, or nil if
// none does (and for a nil error). It understands those sentinels, gRPC status errors as
// any CRI client returns them, and context errors, wrapped any number of times.
func Class(err error) error {
	if err == nil {
		return nil
	}
	for _, class := range []error{
		runtime.ErrNotFound, runtime.ErrAlreadyExists, runtime.ErrUnavailable, runtime.ErrDeadline, runtime.ErrCanceled,
		runtime.ErrUnimplemented, runtime.ErrNoLog, runtime.ErrInvalid, runtime.ErrFailedPrecondition, runtime.ErrExhausted,
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
		return runtime.ErrDeadline
	case errors.Is(err, context.Canceled):
		return runtime.ErrCanceled
	}
	return nil
}

// classOf returns the error class of a gRPC code, or nil if it has none.
func classOf(code codes.Code) error {
	switch code {
	case codes.NotFound:
		return runtime.ErrNotFound
	case codes.AlreadyExists:
		return runtime.ErrAlreadyExists
	case codes.Unavailable:
		return runtime.ErrUnavailable
	case codes.DeadlineExceeded:
		return runtime.ErrDeadline
	case codes.Canceled:
		return runtime.ErrCanceled
	case codes.Unimplemented:
		return runtime.ErrUnimplemented
	case codes.InvalidArgument, codes.OutOfRange:
		return runtime.ErrInvalid
	case codes.FailedPrecondition:
		return runtime.ErrFailedPrecondition
	case codes.ResourceExhausted:
		return runtime.ErrExhausted
	}
	return nil
}

// CodeOf returns the gRPC code of an error class, codes.Unknown for any other error and
// codes.OK for nil. It is for runtimes that are served over gRPC, and is the inverse of
// [Class] except for [runtime.ErrNoLog].
func CodeOf(err error) codes.Code {
	switch Class(err) {
	case runtime.ErrNotFound:
		return codes.NotFound
	case runtime.ErrAlreadyExists:
		return codes.AlreadyExists
	case runtime.ErrUnavailable:
		return codes.Unavailable
	case runtime.ErrDeadline:
		return codes.DeadlineExceeded
	case runtime.ErrCanceled:
		return codes.Canceled
	case runtime.ErrUnimplemented, runtime.ErrNoLog:
		return codes.Unimplemented
	case runtime.ErrInvalid:
		return codes.InvalidArgument
	case runtime.ErrFailedPrecondition:
		return codes.FailedPrecondition
	case runtime.ErrExhausted:
		return codes.ResourceExhausted
	}
	if err == nil {
		return codes.OK
	}
	return codes.Unknown
}

// MayHaveActed reports whether a call that failed with err may have taken effect, or may still do so: its time
// was over, it was cancelled, or the connection was lost during it. It is false for an answer of the runtime,
// and for a call that had no connection.
func MayHaveActed(err error) bool {
	switch Class(err) {
	case runtime.ErrDeadline, runtime.ErrCanceled:
		return true
	case runtime.ErrUnavailable:
		return !errors.Is(err, runtime.ErrNotSent) && !notSent(err)
	}
	return false
}

// IsNotFound reports whether err says that the object does not exist.
func IsNotFound(err error) bool { return Class(err) == runtime.ErrNotFound }
