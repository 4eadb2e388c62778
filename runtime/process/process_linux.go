package process

import (
	"context"

	"github.com/podwright/podwright/runtime"
)

// Runtime runs containers as processes of the operating system. It is safe for
// concurrent use. It implements [runtime.RuntimeService], [runtime.ImageService]
// and [runtime.EventStreamer].
type Runtime struct {
	runtime.RuntimeService
	runtime.ImageService
	runtime.EventStreamer
}

// New opens the runtime at options.Root, creating it if needed, and re-adopts
// what runs there. It fails, with all problems joined, if options are wrong, the
// folder cannot be used or is in use, or the kernel lacks a needed call. The
// caller must Close it.
func New(options Options) (*Runtime, error) { return nil, runtime.ErrUnimplemented }

// Close stops watching and leaves containers running. It waits for calls under
// way until ctx ends; they fail with [runtime.ErrUnavailable] or a context error.
// Closing twice is fine.
func (r *Runtime) Close(ctx context.Context) error { return nil }

// Shim must be called first thing in main. If this process was started to
// supervise a container, Shim does that, returns done = true when the container
// has ended, and main must return at once. Otherwise it does nothing and returns
// the value for [Options.Supervisor].
func Shim() (supervisor Supervisor, done bool) { return Supervisor{}, false }
