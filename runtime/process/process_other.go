//go:build !linux

package process

import (
	"context"
	"fmt"
	goruntime "runtime"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Runtime runs containers as processes of the operating system. It exists on
// Linux only; here no value of it can be made.
type Runtime struct {
	cri.RuntimeService
	cri.ImageService
	cri.EventStreamer
}

// New always fails here with [runtime.ErrUnimplemented]: the runtime needs Linux.
func New(Options) (*Runtime, error) {
	return nil, fmt.Errorf("the process runtime needs Linux, this is %s: %w", goruntime.GOOS, runtime.ErrUnimplemented)
}

// Close does nothing.
func (*Runtime) Close(context.Context) error { return nil }

// Shim does nothing here: there is no Runtime to supervise for.
func Shim() (supervisor Supervisor, done bool) { return Supervisor{}, false }
