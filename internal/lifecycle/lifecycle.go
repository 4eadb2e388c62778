package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Component is a part of an engine that runs on a goroutine of its own.
type Component struct {
	Name string
	// Run serves until ctx ends.
	Run func(ctx context.Context) error
	// Stop is the stage in which the component stops.
	Stop Stage
	// End is what it means if Run returns before that.
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

	stages // how many there are
)

// Meaning is what the end of a component means that was not told to stop.
type Meaning int

const (
	// Fault: all components stop, and [Run] returns an error.
	Fault Meaning = iota
	// Done: all components stop; [Run] returns the component's error, if it has one.
	Done
	// Fine: the component has done its work. Its error, if it has one, is a fault.
	Fine
)

// Run starts the components in their order and, when ctx ends, a request comes, or a
// component ends that should not, stops them stage by stage, each stage in the reverse
// order of the start. After each stage it calls stopped, with the request if that was the
// reason. Its error joins those of the components. stopping is called when a component is
// told to stop, and what it returns when the component has.
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

// started is a component that was started.
type started struct {
	Component
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of its end by itself, set before done is closed
}

// start runs a component. Its end by itself goes to ended, which must have room for it,
// unless it has done its work.
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

// shutDown ends the component and waits for it. It returns the error it ended with by
// itself, if there is one.
func (s *started) shutDown() error {
	s.cancel()
	<-s.done
	return s.err
}
