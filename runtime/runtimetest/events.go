package runtimetest

import (
	"context"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

func eventCases() []namedCase {
	return []namedCase{
		{"a container's life is told in order", eventLife},
		{"the stream ends with its context", eventEnd},
	}
}

// events opens the event stream and returns it once it is up.
func (e *env) events(ctx context.Context) (events chan *runtimeapi.ContainerEventResponse, ended <-chan error) {
	e.Helper()
	streamer, ok := e.Runtime.(cri.EventStreamer)
	if !ok || e.Limits.NoEvents {
		e.Skip("the runtime has no event stream")
	}
	events = make(chan *runtimeapi.ContainerEventResponse, 1000)
	up := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- streamer.GetContainerEvents(ctx, events, func(runtimeapi.RuntimeService_GetContainerEventsClient) { close(up) })
	}()
	select {
	case <-up:
	case err := <-done:
		e.skipUnimplemented(err)
		e.Fatalf("the stream ended before it began: %v", err)
	case <-e.ctx.Done():
		e.Fatal("the stream did not come up")
	}
	return events, done
}

// awaitStream returns once the stream tells of a container that this case created. Over gRPC a
// stream is open before the runtime has taken its request, and what happens in between is not
// delivered.
func (e *env) awaitStream(s *sandbox, events <-chan *runtimeapi.ContainerEventResponse, ended <-chan error) {
	e.Helper()
	created := map[string]bool{}
	e.eventually("the stream tells of a container that is created", func() bool {
		id := e.create(s, Program{})
		created[id] = true
		e.must(e.Runtime.RemoveContainer(e.ctx, id))
		for {
			select {
			case event := <-events:
				if created[event.GetContainerId()] {
					return true
				}
			case err := <-ended:
				e.skipUnimplemented(err)
				e.Fatalf("the stream ended: %v", err)
			default:
				return false
			}
		}
	})
}

// skipUnimplemented skips the case if a stream ended because the runtime has
// none. A CRI stream may be refused only after it has been opened.
func (e *env) skipUnimplemented(err error) {
	e.Helper()
	if cri.Class(err) == runtime.ErrUnimplemented {
		e.Skip("the runtime has no event stream")
	}
}

// eventLife: created, started, stopped, deleted, each with the container's ID
// and a time in nanoseconds (spec/pleg.md 10.1).
func eventLife(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	events, ended := e.events(ctx)
	s := e.sandbox()
	e.awaitStream(s, events, ended)
	id := e.finish(s, Program{Exit: 3}).GetId()
	created := e.status(id).GetCreatedAt()
	e.must(e.Runtime.RemoveContainer(e.ctx, id))
	want := []runtimeapi.ContainerEventType{
		runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT,
	}
	var got []runtimeapi.ContainerEventType
	for len(got) < len(want) {
		select {
		case event := <-events:
			if event.GetContainerId() != id {
				continue
			}
			got = append(got, event.GetContainerEventType())
			if at := time.Unix(0, event.GetCreatedAt()); at.Before(time.Unix(0, created).Add(-time.Minute)) {
				e.Errorf("event time %v is far from the container's creation at %v: are the units right?", at, time.Unix(0, created))
			}
		case err := <-ended:
			e.Fatalf("the stream ended: %v", err)
		case <-e.ctx.Done():
			e.Fatalf("events %v, want %v", got, want)
		}
	}
	if !slices.Equal(got, want) {
		e.Errorf("events %v, want %v", got, want)
	}
	cancel()
	<-ended
}

// eventEnd ends a stream that has delivered an event: before that, it may still be refused.
func eventEnd(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	events, ended := e.events(ctx)
	e.awaitStream(e.sandbox(), events, ended)
	cancel()
	if err := <-ended; err == nil {
		e.Error("a stream whose context ended returned no error")
	}
	select {
	case _, open := <-events:
		if !open {
			e.Error("the stream closed the caller's channel")
		}
	default:
	}
}
