package cri

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/runtime"
)

// Error is a failed call. It matches, by errors.Is, the Err… sentinel of package
// runtime that belongs to its code.
type Error struct {
	// Op is the CRI call, "RunPodSandbox".
	Op string
	// Endpoint is the runtime's address as given to [Dial].
	Endpoint string
	// Code is the gRPC code: the runtime's, unless the runtime is known to use
	// a vague one for this failure (a reserved name is codes.AlreadyExists).
	Code codes.Code
	// Err is the cause, never nil.
	Err error
}

// Error names call, class and cause, and the endpoint if nothing answers there.
func (e *Error) Error() string {
	class := e.class()
	switch {
	case class == nil:
		return fmt.Sprintf("%s: %s", e.Op, e.message())
	case e.Code == codes.Unavailable:
		return fmt.Sprintf("%s: %v at %s: %s", e.Op, class, e.Endpoint, e.message())
	default:
		return fmt.Sprintf("%s: %v: %s", e.Op, class, e.message())
	}
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// class is the class of the code, nil if it has none.
func (e *Error) class() error { return Class(status.Error(e.Code, "")) }

// Is reports whether target is the class of the error.
func (e *Error) Is(target error) bool {
	class := e.class()
	return class != nil && (class == target || target == runtime.ErrNotSent && notSent(e.Err))
}

// GRPCStatus returns the code with the runtime's own message, so that
// status.Convert works on an Error as on the error of any CRI client.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.message()) }

// message is the cause without gRPC's prefixes.
func (e *Error) message() string {
	s, ok := status.FromError(e.Err)
	if !ok {
		return e.Err.Error()
	}
	// A failed connection comes in two more layers of quotes.
	if _, cause, found := strings.Cut(s.Message(), dialing); found && e.Code == codes.Unavailable {
		return strings.TrimSuffix(cause, `"`)
	}
	return s.Message()
}

// dialing is how gRPC begins the cause of a call that failed for lack of a connection.
const dialing = "transport: Error while dialing: "

// notSent reports whether gRPC had no connection for the call. It says so only in its text.
func notSent(err error) bool {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.Unavailable {
		return false
	}
	return strings.Contains(s.Message(), dialing) ||
		strings.Contains(s.Message(), "error reading server preface: ") || // it was cut while it was made
		strings.Contains(s.Message(), "transport: failed to write client preface: ")
}
