package process

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// eventBuffer is how many events a reader may lag behind.
const eventBuffer = 1024

// subscriber is one stream of events.
type subscriber struct {
	events chan *runtimeapi.ContainerEventResponse
	lost   chan struct{} // closed when the reader was too slow
	behind bool          // guarded by Runtime.mu
}

// GetContainerEvents sends an event for every creation, start, end and removal of a
// sandbox or container that is made through this Runtime or noticed by it, with the
// status of the whole sandbox at that moment, until ctx ends or the runtime is
// closed. A reader more than 1024 events behind loses the stream with
// [runtime.ErrExhausted] and must list instead. The callback is called with nil.
func (r *Runtime) GetContainerEvents(ctx context.Context, containerEventsCh chan *runtimeapi.ContainerEventResponse, connectionEstablishedCallback func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	s := &subscriber{
		events: make(chan *runtimeapi.ContainerEventResponse, eventBuffer),
		lost:   make(chan struct{}),
	}
	r.mu.Lock()
	r.subscribers[s] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.subscribers, s)
		r.mu.Unlock()
	}()
	if connectionEstablishedCallback != nil {
		connectionEstablishedCallback(nil)
	}
	for {
		var event *runtimeapi.ContainerEventResponse
		select {
		case event = <-s.events:
		case <-s.lost:
			return fmt.Errorf("the reader is more than %d events behind: %w", eventBuffer, runtime.ErrExhausted)
		case <-ctx.Done():
			return ctxError(ctx)
		case <-r.closing:
			return errClosed()
		}
		select {
		case containerEventsCh <- event:
		case <-s.lost:
			return fmt.Errorf("the reader is more than %d events behind: %w", eventBuffer, runtime.ErrExhausted)
		case <-ctx.Done():
			return ctxError(ctx)
		case <-r.closing:
			return errClosed()
		}
	}
}

// publish tells every subscriber about a sandbox or container.
func (r *Runtime) publish(sandboxID, id string, kind runtimeapi.ContainerEventType) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.subscribers) == 0 {
		return
	}
	for s := range r.subscribers {
		// Each reader gets an event of its own: it may change it.
		event := &runtimeapi.ContainerEventResponse{ContainerId: id, ContainerEventType: kind, CreatedAt: now.UnixNano()}
		if sandbox := r.sandboxes[sandboxID]; sandbox != nil {
			event.PodSandboxStatus = sandbox.status()
		}
		for _, c := range r.containers {
			if c.visible && c.record.SandboxID == sandboxID {
				event.ContainersStatuses = append(event.ContainersStatuses, c.status())
			}
		}
		select {
		case s.events <- event:
		default:
			if !s.behind {
				s.behind = true
				close(s.lost)
			}
		}
	}
}
