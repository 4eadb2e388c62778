package latency

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
)

// Exits follows the exits of containers. Create one with New; all methods are safe for concurrent
// use.
type Exits struct {
	clock clock.PassiveClock
	// made is when the engine was created: it could not see earlier exits.
	made time.Time
	// view returns what is known of a pod, without waiting.
	view func(uid types.UID) (*runtime.PodStatus, error)

	seen, refreshed, worker, call metric.Float64Histogram

	mu sync.Mutex
	// pending holds the pods whose exit has reached the loop but not yet a sync.
	pending map[types.UID]exit
}

// exit says how far the news of a container's exit has got.
type exit struct {
	// happened is by the runtime's clock; read is when the reading that showed the exit began;
	// delivered is when the loop took it.
	happened, read, delivered time.Time
}

// pendingTimeout is when no sync is expected any more, for example because the pod has already
// finished.
const pendingTimeout = 5 * time.Minute

// maxExitAge is the age above which an exit is not counted as seen, because the runtime's time for
// it cannot be right.
const maxExitAge = 10 * time.Minute

// New creates the histograms of a meter. view shows a pod from the cache.
func New(meter metric.Meter, c clock.PassiveClock, view func(types.UID) (*runtime.PodStatus, error)) (*Exits, error) {
	x := &Exits{clock: c, made: c.Now(), view: view, pending: map[types.UID]exit{}}
	set := instrument.New(meter)
	buckets := instrument.Buckets(.0005, .001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 1.5, 2.5, 5, 10, 30, 60)
	x.seen = set.Durations("podwright_exit_seen_seconds",
		"Time from a container's exit, by the runtime's clock, to the beginning of the reading that showed it.", buckets)
	x.refreshed = set.Durations("podwright_exit_refreshed_seconds",
		"Time from the beginning of the reading that showed an exit to the pod's turn in the sync loop.", buckets)
	x.worker = set.Durations("podwright_exit_worker_seconds", "Time from a pod's turn in the sync loop after an exit to the beginning of its next sync.", buckets)
	x.call = set.Durations("podwright_exit_call_seconds",
		"Time from the beginning of a sync after an exit to its first call that changes something in the runtime, of syncs that make one at once.", buckets)
	return x, set.Err()
}

// Delivered records that the loop takes a pod with containers that died.
func (x *Exits) Delivered(e pleg.PodEvents) {
	if e.Kinds&pleg.Died == 0 {
		return
	}
	view, err := x.view(e.UID)
	if err != nil || view == nil {
		return
	}
	news := exit{read: view.ObservedAt, delivered: x.clock.Now()}
	for _, c := range view.Containers {
		if c.State == runtime.Exited && c.FinishedAt.After(news.happened) && (e.AllDied || slices.Contains(e.Died, c.ID.ID)) {
			news.happened = c.FinishedAt
		}
	}
	if news.happened.IsZero() {
		return // it is a sandbox
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for uid, other := range x.pending {
		if news.delivered.Sub(other.delivered) > pendingTimeout {
			delete(x.pending, uid)
		}
	}
	x.pending[e.UID] = news
}

// Entered records that a sync of the pod begins. The sync must make its calls with the returned
// context.
func (x *Exits) Entered(ctx context.Context, uid types.UID) context.Context {
	x.mu.Lock()
	news, ok := x.pending[uid]
	delete(x.pending, uid)
	x.mu.Unlock()
	if !ok {
		return ctx
	}
	now := x.clock.Now()
	if age := news.read.Sub(news.happened); age >= 0 && age <= maxExitAge && !news.happened.Before(x.made) {
		x.seen.Record(ctx, age.Seconds())
	}
	x.refreshed.Record(ctx, max(0, news.delivered.Sub(news.read).Seconds()))
	x.worker.Record(ctx, max(0, now.Sub(news.delivered).Seconds()))
	return context.WithValue(ctx, syncKey{}, &syncMark{began: now})
}

// Dropped records that no sync of the pod will follow, because it is being stopped.
func (x *Exits) Dropped(uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.pending, uid)
}

// calls records a call that changes something.
func (x *Exits) calls(ctx context.Context) {
	if mark, ok := ctx.Value(syncKey{}).(*syncMark); ok && !mark.called.Swap(true) {
		x.call.Record(ctx, x.clock.Since(mark.began).Seconds())
	}
}

// syncKey is the context key of a syncMark.
type syncKey struct{}

// syncMark marks a sync that follows an exit.
type syncMark struct {
	began  time.Time
	called atomic.Bool
}
