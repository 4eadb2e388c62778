package cri_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// classes are all classes with a gRPC code that means the same.
func classes() map[codes.Code]error {
	return map[codes.Code]error{
		codes.NotFound:           runtime.ErrNotFound,
		codes.AlreadyExists:      runtime.ErrAlreadyExists,
		codes.Unavailable:        runtime.ErrUnavailable,
		codes.DeadlineExceeded:   runtime.ErrDeadline,
		codes.Canceled:           runtime.ErrCanceled,
		codes.Unimplemented:      runtime.ErrUnimplemented,
		codes.InvalidArgument:    runtime.ErrInvalid,
		codes.FailedPrecondition: runtime.ErrFailedPrecondition,
		codes.ResourceExhausted:  runtime.ErrExhausted,
	}
}

// spec/runtime.md 23.9: a call may have acted if the runtime did not answer it, unless there was no connection for it.
func TestCallsThatMayHaveActed(t *testing.T) {
	dialing := status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial unix /x: connect: connection refused"`)
	cases := map[string]struct {
		err error
		may bool
	}{
		"no connection":                {dialing, false},
		"no connection, of the client": {&cri.Error{Op: "ExecSync", Code: codes.Unavailable, Err: dialing}, false},
		"not sent":                     {runtime.ErrNotSent, false},
		"no connection, cut at once":   {status.Error(codes.Unavailable, `connection error: desc = "error reading server preface: EOF"`), false},
		"no connection, not taken":     {status.Error(codes.Unavailable, `connection error: desc = "transport: failed to write client preface: EPIPE"`), false},
		"connection lost":              {status.Error(codes.Unavailable, "error reading from server: EOF"), true},
		"plain":                        {errors.New("x"), false},
		"exit code":                    {&runtime.ExitError{Code: 1}, false},
	}
	for code, class := range classes() {
		may := code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
		cases[code.String()] = struct {
			err error
			may bool
		}{class, may}
	}
	for name, tc := range cases {
		if got := cri.MayHaveActed(fmt.Errorf("container a: %w", tc.err)); got != tc.may {
			t.Errorf("%s: %v, want %v", name, got, tc.may)
		}
	}
}

// An error has its class in whatever form it comes: as a sentinel of this
// package, as the status of some CRI client, from a context; wrapped or not.
func TestErrorKeepsItsClassInEveryForm(t *testing.T) {
	cases := map[string]struct {
		err  error
		want error
	}{
		"nil":              {nil, nil},
		"plain":            {errors.New("x"), nil},
		"no class":         {status.Error(codes.Internal, "x"), nil},
		"out of range":     {status.Error(codes.OutOfRange, "x"), runtime.ErrInvalid},
		"context deadline": {context.DeadlineExceeded, runtime.ErrDeadline},
		"context canceled": {context.Canceled, runtime.ErrCanceled},
		"exit code":        {&runtime.ExitError{Code: 1}, nil},
		"no log":           {runtime.ErrNoLog, runtime.ErrNoLog},
		"joined":           {errors.Join(errors.New("x"), runtime.ErrNotFound), runtime.ErrNotFound},
	}
	for code, class := range classes() {
		cases["sentinel "+code.String()] = struct{ err, want error }{class, class}
		cases["status "+code.String()] = struct{ err, want error }{status.Error(code, "x"), class}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cri.Class(tc.err); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if tc.err == nil {
				return
			}
			wrapped := fmt.Errorf("pod a: %w", fmt.Errorf("container b: %w", tc.err))
			if got := cri.Class(wrapped); got != tc.want {
				t.Errorf("wrapped twice: got %v, want %v", got, tc.want)
			}
			if got, want := cri.IsNotFound(wrapped), tc.want == runtime.ErrNotFound; got != want {
				t.Errorf("IsNotFound = %v", got)
			}
		})
	}
}

// A runtime served over gRPC keeps its error classes: to a code and back.
func TestClassesSurviveGRPC(t *testing.T) {
	for code, class := range classes() {
		if got := cri.Class(status.Error(code, "")); got != class {
			t.Errorf("classOf(%v) = %v", code, got)
		}
		if got := cri.CodeOf(fmt.Errorf("x: %w", class)); got != code {
			t.Errorf("CodeOf(%v) = %v, want %v", class, got, code)
		}
	}
	if got := cri.CodeOf(nil); got != codes.OK {
		t.Errorf("CodeOf(nil) = %v", got)
	}
	if got := cri.CodeOf(errors.New("x")); got != codes.Unknown {
		t.Errorf("CodeOf(unclassified) = %v", got)
	}
	if got := cri.Class(status.Error(codes.OK, "")); got != nil {
		t.Errorf("classOf(OK) = %v", got)
	}
}
