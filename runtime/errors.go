package runtime

import (
	"errors"
	"fmt"
)

// Error classes of runtime calls. Test with errors.Is on errors from the
// runtimes in this module, or with Class of package runtime/cri on errors from any CRI
// client.
var (
	// ErrNotFound: the sandbox, container or image does not exist.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: the name or ID is taken ("name is reserved").
	ErrAlreadyExists = errors.New("already exists")
	// ErrUnavailable: the runtime does not answer, because it is down or restarting. Whether the call
	// took effect is unknown, unless the error is ErrNotSent too.
	ErrUnavailable = errors.New("runtime unavailable")
	// ErrNotSent: there was no connection to the runtime, so the call did nothing. It is an ErrUnavailable.
	ErrNotSent = fmt.Errorf("%w: it cannot be reached", ErrUnavailable)
	// ErrDeadline: the call took longer than its limit. Whether it took
	// effect is unknown.
	ErrDeadline = errors.New("deadline exceeded")
	// ErrCanceled: the caller gave up. Whether the call took effect is unknown.
	ErrCanceled = errors.New("canceled")
	// ErrUnimplemented: the runtime does not have this call.
	ErrUnimplemented = errors.New("not implemented by the runtime")
	// ErrNoLog: the runtime writes no log for the container. Over gRPC it becomes
	// ErrUnimplemented, the answer of a runtime without logs.
	ErrNoLog = errors.New("the runtime writes no log")
	// ErrInvalid: the request itself is wrong; repeating it is useless.
	ErrInvalid = errors.New("invalid request")
	// ErrFailedPrecondition: the object is in the wrong state for the call.
	ErrFailedPrecondition = errors.New("failed precondition")
	// ErrExhausted: a limit was hit (message size, quota, disk).
	ErrExhausted = errors.New("resource exhausted")
)

// ExitError is the error of ExecSync (package runtime/cri) when the command ran and
// exited with a code other than 0. Its method set is that of
// k8s.io/utils/exec.ExitError, so one test for interface{ ExitStatus() int } works
// with every CRI client.
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
