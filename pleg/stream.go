package pleg

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Constants of the event stream (section 2, EV6).
const (
	streamBuffer       = 1000
	streamFirstBackoff = time.Second
	streamMaxBackoff   = time.Minute
	streamHealthyAfter = time.Minute
	// streamConnectedAfter is how long a stream without events must be up to count as a connection: a
	// runtime whose events are turned off ends the stream at once (RT6).
	streamConnectedAfter = time.Second
)

// streamState is what is known of the event stream, for health and metrics.
type streamState struct {
	mu sync.Mutex
	// since is when the request of the current stream was sent; zero if there is none.
	since time.Time
	// tries counts requests, connected the streams that were up long enough or brought an event;
	// counted says that the current stream is already counted.
	tries, connected, errors int64
	counted                  bool
	used, ignored            int64
}

func (s *streamState) healthy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.since.IsZero()
}

// up records a connection and reports whether there was one before.
func (s *streamState) up(now time.Time) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.since.IsZero() {
		return false
	}
	s.since, s.counted = now, false
	s.tries++
	return s.tries > 1
}

// prove counts the current stream as a connection, once.
func (s *streamState) prove() {
	if !s.since.IsZero() && !s.counted {
		s.counted = true
		s.connected++
	}
}

// figures returns what the metrics show of the stream.
func (s *streamState) figures(now time.Time) (up bool, connected, errors, used, ignored int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.since) >= streamConnectedAfter {
		s.prove()
	}
	return !s.since.IsZero(), s.connected, s.errors, s.used, s.ignored
}

// down records the end of an attempt and returns how long the stream was up.
func (s *streamState) down(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors++
	if s.since.IsZero() {
		return 0
	}
	up := now.Sub(s.since)
	if up >= streamConnectedAfter {
		s.prove()
	}
	s.since = time.Time{}
	return up
}

func (s *streamState) count(used bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prove()
	if used {
		s.used++
	} else {
		s.ignored++
	}
}

// watch keeps the event stream up until ctx ends: there is one watcher, which never gives up (EV6,
// EV7). The stream is an accelerator; without it everything still works, only later (EV4, PI13).
func (g *Generator) watch(ctx context.Context) {
	var backoff streamBackoff
	for {
		err := g.follow(ctx)
		up := g.stream.down(g.options.Clock.Now())
		g.signal() // the quiet period is over
		if ctx.Err() != nil {
			return
		}
		delay := backoff.next(up, errors.Is(cri.Class(err), runtime.ErrUnimplemented), g.options.Rand)
		g.options.Logger.V(1).Info("Event stream ended", "err", err, "up", up, "retry", delay)
		if delay == 0 {
			continue
		}
		if timing.Sleep(ctx, g.options.Clock, delay) != nil {
			return
		}
	}
}

// follow holds one connection and returns why it ended; a stream that ends without an error has
// failed too.
func (g *Generator) follow(ctx context.Context) error {
	events := make(chan *runtimeapi.ContainerEventResponse, streamBuffer)
	ended := make(chan struct{})
	l := limits{stop: g.options.WriteOffAfter}
	var result error
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(ended)
		err, end := bounded(ctx, g.options.Clock, l, g.lostStreams, "", nil, func(ctx context.Context) (err error) {
			defer recovered(&err)
			return g.options.Streamer.GetContainerEvents(ctx, events, func(runtimeapi.RuntimeService_GetContainerEventsClient) { g.streamUp() })
		})
		if end == inTime {
			result = err
		}
	})
	defer reading.Wait()
	for {
		select {
		case e := <-events:
			g.hint(ctx, e)
		case <-ended:
			for {
				select {
				case e := <-events:
					g.hint(ctx, e)
				default:
					return result
				}
			}
		}
	}
}

// streamUp records that the stream is connected. Before a reconnection events may have been lost,
// so then everything is looked at once (EV8).
func (g *Generator) streamUp() {
	if !g.stream.up(g.options.Clock.Now()) {
		return
	}
	g.mu.Lock()
	g.early = true
	g.mu.Unlock()
	g.signal()
}

// hint uses an event for the only thing it is good for: which pod to look at. Nothing in it is
// taken as state (EV2, EV3).
func (g *Generator) hint(ctx context.Context, e *runtimeapi.ContainerEventResponse) {
	uid := g.eventPod(e)
	if e.GetContainerEventType() != runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT || uid == "" {
		g.stream.count(false)
		return
	}
	g.stream.count(true)
	g.metrics.streamed(ctx, g.options.Clock.Now(), e.GetCreatedAt())
	if !g.knowsExit(uid, e.GetContainerId()) {
		g.request(uid, false)
	}
}

// knowsExit reports whether the end of an object is already known: it was published, or the pod's
// own calls have ended or removed the object and read the pod afterwards.
func (g *Generator) knowsExit(uid types.UID, id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.pods[uid]
	return r != nil && r.tracked && (r.reports[id] == runtime.Exited || slices.Contains(r.gone, id) ||
		slices.ContainsFunc(r.objects, func(o object) bool { return o.id == id && o.state == exited }))
}

// eventPod returns the UID of an event's pod, or "" if the event does not say or the pod belongs to
// another owner.
func (g *Generator) eventPod(e *runtimeapi.ContainerEventResponse) types.UID {
	if labels := e.GetPodSandboxStatus().GetLabels(); len(labels) > 0 && !g.view.Owns(labels) {
		return ""
	}
	if uid := e.GetPodSandboxStatus().GetMetadata().GetUid(); uid != "" {
		return types.UID(uid)
	}
	for _, c := range e.GetContainersStatuses() {
		if c.GetId() == e.GetContainerId() && g.view.Owns(c.GetLabels()) {
			return types.UID(c.GetLabels()[runtime.LabelPodUID])
		}
	}
	return ""
}

// streamBackoff spaces the attempts to connect (EV6): the first at once, then after 1 s, doubling
// with jitter up to a minute; only a stream that stayed up for a minute resets it.
type streamBackoff struct{ failures int }

func (b *streamBackoff) next(up time.Duration, unimplemented bool, random func() float64) time.Duration {
	if up >= streamHealthyAfter {
		b.failures = 0
	}
	b.failures++
	if unimplemented {
		return streamMaxBackoff
	}
	delay := backoff.Delay(streamFirstBackoff, streamMaxBackoff, b.failures-1)
	// At most a tenth less, never more, so that the cap holds.
	return delay - time.Duration(random()*0.1*float64(delay))
}
