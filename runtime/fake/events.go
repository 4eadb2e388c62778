package fake

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Event is a container event on its way to one stream.
type Event struct {
	// Number counts the events of this stream, from 1.
	Number int
	// PodUID and Container name the object of the event; Container is empty for an
	// event of the sandbox.
	PodUID    types.UID
	Container string
	// Response is the event itself, a copy for this stream. It may be changed,
	// to simulate incomplete or wrong events.
	Response *runtimeapi.ContainerEventResponse
}

// Delivery is how an event is delivered. The zero value delivers it once,
// immediately and in order.
type Delivery struct {
	// Drop loses the event.
	Drop bool
	// Copies is how many more times it is delivered.
	Copies int
	// Delay is how long it is held back on the clock. Events that are
	// delivered meanwhile overtake it.
	Delay time.Duration
	// Behind is how many later events of the stream overtake it, however long those
	// take to come.
	Behind int
}

// OnEvent sets how events are delivered from now on. decide is called without
// locks held, from the goroutine of each stream. Nil means all arrive.
func (f *Runtime) OnEvent(decide func(Event) Delivery) {
	f.locked(func() { f.onEvent = decide })
}

// stream is the queue of one GetContainerEvents call. It is guarded by the
// runtime's lock.
type stream struct {
	queue   []Event
	changed chan struct{} // closed and replaced when the queue grows
	ended   bool          // by a restart of the runtime
}

// emit queues an event of a container, or of its sandbox if c is nil. The lock
// must be held.
func (f *Runtime) emit(s *sandbox, c *container, kind runtimeapi.ContainerEventType) {
	if len(f.streams) == 0 {
		return
	}
	event := Event{PodUID: s.uid()}
	id := s.id
	if c != nil {
		event.Container, id = c.name(), c.id
	}
	response := &runtimeapi.ContainerEventResponse{
		ContainerId:        id,
		ContainerEventType: kind,
		CreatedAt:          f.now.UnixNano(),
		PodSandboxStatus:   f.sandboxStatus(s),
	}
	for _, other := range s.containers {
		response.ContainersStatuses = append(response.ContainersStatuses, other.status())
	}
	for i, st := range f.streams {
		if i > 0 { // each stream gets its own copy
			response = clone(response)
		}
		event.Response = response
		st.queue = append(st.queue, event)
		close(st.changed)
		st.changed = make(chan struct{})
	}
}

// GetContainerEvents delivers events to containerEventsCh until ctx ends or the
// runtime goes down. The callback gets a nil client. Earlier events are not
// delivered.
func (f *Runtime) GetContainerEvents(ctx context.Context, containerEventsCh chan *runtimeapi.ContainerEventResponse, connectionEstablishedCallback func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	call := Call{Method: GetContainerEvents, Request: &runtimeapi.GetEventsRequest{}}
	_, err := do(ctx, f, call, step[*stream]{
		effect: func() (*stream, error) {
			st := &stream{changed: make(chan struct{})}
			f.streams = append(f.streams, st)
			return st, nil
		},
		after: func(ctx context.Context, st *stream) (*stream, error) {
			defer f.locked(func() {
				f.streams = slices.DeleteFunc(f.streams, func(other *stream) bool { return other == st })
			})
			if connectionEstablishedCallback != nil {
				connectionEstablishedCallback(nil)
			}
			return nil, f.deliver(ctx, st, containerEventsCh)
		},
	})
	return err
}

// held is an event that is not delivered yet.
type held struct {
	response *runtimeapi.ContainerEventResponse
	due      time.Time
	behind   int
}

// deliver runs one stream. It owns its held events; no lock guards them.
func (f *Runtime) deliver(ctx context.Context, st *stream, ch chan<- *runtimeapi.ContainerEventResponse) error {
	var waiting []held
	number := 0
	for {
		var events []Event
		var decide func(Event) Delivery
		var now time.Time
		ended := false
		err := f.await(ctx, func() (bool, time.Time, <-chan struct{}) {
			events, st.queue = st.queue, nil
			decide, now, ended = f.onEvent, f.now, st.ended
			ready := slices.ContainsFunc(waiting, func(h held) bool { return h.ripe(now) })
			return ended || ready || len(events) > 0, f.nextMoment(waiting), st.changed
		})
		if err == nil && ended {
			err = errDown
		}
		if err != nil {
			return err
		}
		for _, event := range events {
			number++
			event.Number = number
			var d Delivery
			if decide != nil {
				d = decide(event)
			}
			if d.Drop {
				continue
			}
			fresh := make([]held, d.Copies+1)
			for i := range fresh {
				fresh[i] = held{response: event.Response, due: now.Add(d.Delay), behind: d.Behind}
				if i > 0 {
					fresh[i].response = clone(event.Response)
				}
			}
			if fresh, err = send(ctx, ch, fresh, now); err != nil {
				return err
			}
			if len(fresh) == 0 {
				for i := range waiting {
					waiting[i].behind--
				}
			}
			// After the fresh event, so that it overtakes them.
			if waiting, err = send(ctx, ch, waiting, now); err != nil {
				return err
			}
			waiting = append(waiting, fresh...)
		}
		if waiting, err = send(ctx, ch, waiting, now); err != nil {
			return err
		}
	}
}

// ripe reports whether the event is due.
func (h held) ripe(now time.Time) bool { return h.behind <= 0 && !h.due.After(now) }

// nextMoment is when a stream has to look again: when something happens that may
// cause an event, or a held event is due. The lock must be held.
func (f *Runtime) nextMoment(waiting []held) time.Time {
	var next time.Time
	if len(f.due) > 0 {
		next = f.due[0].at
	}
	for _, h := range waiting {
		if h.behind <= 0 && (next.IsZero() || h.due.Before(next)) {
			next = h.due
		}
	}
	return next
}

// send delivers the ripe events, first due first, and returns the others.
func send(ctx context.Context, ch chan<- *runtimeapi.ContainerEventResponse, waiting []held, now time.Time) ([]held, error) {
	stopped := daemonOf(ctx)
	ripe := make([]held, 0, len(waiting))
	var rest []held
	for _, h := range waiting {
		if h.ripe(now) {
			ripe = append(ripe, h)
		} else {
			rest = append(rest, h)
		}
	}
	slices.SortStableFunc(ripe, func(a, b held) int { return a.due.Compare(b.due) })
	for _, h := range ripe {
		select {
		case ch <- h.response:
		case <-stopped:
			return nil, errDown
		case <-ctx.Done():
			return nil, contextError(ctx)
		}
	}
	return rest, nil
}
