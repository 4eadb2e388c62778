package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Component is a part of an engine that runs on its own goroutine.
type Component struct {
	Name string
	// Run serves until ctx ends.
	Run func(ctx context.Context) error
	// Stop is the stage in which the component stops.
	Stop Stage
	// End says what it means if Run returns before it is told to stop.
	End Meaning
}

// Stage says when a component stops.
type Stage int

// The stages, in the order in which they stop.
const (
	// Input brings new work.
	Input Stage = iota
	// Work changes pods and their remains.
	Work
	// Records are what the work reads from and reports to.
	Records

	stages // the number of stages
)

// Meaning says what it means if a component ends without having been told to stop.
type Meaning int

const (
	// Fault: all components stop, and [Run] returns an error.
	Fault Meaning = iota
	// Done: all components stop; [Run] returns the component's error, if it has one.
	Done
	// Fine: the component has done its work. Its error, if it has one, is a fault.
	Fine
)

// Run starts the components in their order. When ctx ends, a request comes, or a component ends
// that should not, it stops them stage by stage, each stage in the reverse order of the start.
// After each stage it calls stopped, with the request if that was the reason. Its error joins those
// of the components. It calls stopping when it tells a component to stop, and the function that
// stopping returned once the component has ended.
func Run[Request any](
	ctx context.Context, list []Component, requests <-chan *Request, stopping func(name string) (done func()), stopped func(Stage, *Request),
) error {
	ended := make(chan *started, len(list))
	all := make([]*started, len(list))
	for i, c := range list {
		all[i] = start(context.WithoutCancel(ctx), c, ended)
	}
	var problems []error
	var request *Request
	select {
	case <-ctx.Done():
	case c := <-ended:
		if c.End == Fault && c.err == nil {
			problems = append(problems, fmt.Errorf("%s ended unexpectedly", c.Name))
		}
	case request = <-requests:
	}
	for s := range stages {
		for _, c := range slices.Backward(all) {
			if c.Stop == s {
				done := stopping(c.Name)
				problems = append(problems, c.shutDown())
				done()
			}
		}
		stopped(s, request)
	}
	return errors.Join(problems...)
}

// Skip runs components with a context that has ended, in place of [Run]: those who wait for the end of
// one learn that it will never run. A component must refuse to run a second time.
func Skip(ctx context.Context, runs ...func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	for _, run := range runs {
		_ = run(ctx) // that it has ended, or that it has run
	}
}

// started is a running component.
type started struct {
	Component
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of its own end, set before done is closed
}

// start runs a component. If the component ends on its own, it goes to ended, which must have room
// for it, unless it has done its work.
func start(ctx context.Context, c Component, ended chan<- *started) *started {
	ctx, cancel := context.WithCancel(ctx)
	s := &started{Component: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		err := c.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.err = fmt.Errorf("%s: %w", c.Name, err)
		}
		if err != nil || c.End != Fine {
			ended <- s
		}
	}()
	return s
}

// shutDown ends the component and waits for it. It returns the component's error if it ended on its
// own.
func (s *started) shutDown() error {
	s.cancel()
	<-s.done
	return s.err
}
