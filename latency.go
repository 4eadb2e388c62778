package podwright

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
)

// latency measures the way from the exit of a container to the engine's next call
// for its pod, one histogram per edge:
//
//	exit ──seen──► reading ──refreshed──► loop ──worker──► SyncPod ──call──► runtime
//
// No edge contains a poll, unless the runtime has no event stream: then the first
// one holds the wait for the next relist. What is measured is exits that a sync
// follows; a pod that changes again on its way is measured from the newest change.
type latency struct {
	clock clock.PassiveClock
	// made is when the engine was: nobody was there to see what ended before.
	made time.Time
	// view is what is known of a pod, without waiting.
	view func(uid types.UID) (*runtime.PodStatus, error)

	seen, refreshed, worker, call metric.Float64Histogram

	mu sync.Mutex
	// pending are the pods whose exit was handed to the loop and that no sync has
	// taken up yet.
	pending map[types.UID]exit
}

// exit is how far the news of a container's exit has come.
type exit struct {
	// happened by the runtime's clock, read when the reading that showed it began,
	// delivered when the loop took it.
	happened, read, delivered time.Time
}

// pendingTimeout is when a pod that was handed on is taken for one that nobody
// will sync, such as a pod that has finished already.
const pendingTimeout = 5 * time.Minute

// maxExitAge is the age above which an exit is not counted as seen: the runtime's word
// for its time cannot be right.
const maxExitAge = 10 * time.Minute

func newLatency(meter metric.Meter, c clock.PassiveClock, view func(types.UID) (*runtime.PodStatus, error)) (*latency, error) {
	l := &latency{clock: c, made: c.Now(), view: view, pending: map[types.UID]exit{}}
	set := instrument.New(meter)
	durations := func(name, description string) metric.Float64Histogram {
		return set.Durations(name, description, .0005, .001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 1.5, 2.5, 5, 10, 30, 60)
	}
	l.seen = durations("podwright_exit_seen_seconds",
		"Time from a container's exit, by the runtime's clock, to the beginning of the reading that showed it.")
	l.refreshed = durations("podwright_exit_refreshed_seconds",
		"Time from the beginning of that reading to the pod's turn in the sync loop.")
	l.worker = durations("podwright_exit_worker_seconds", "Time from there to the beginning of the pod's next sync.")
	l.call = durations("podwright_exit_call_seconds",
		"Time from there to the first call that changes something in the runtime, of syncs that make one at once.")
	return l, set.Err()
}

// delivered notes that the loop takes a pod of which containers died.
func (l *latency) delivered(e pleg.PodEvents) {
	if e.Kinds&pleg.Died == 0 {
		return
	}
	view, err := l.view(e.UID)
	if err != nil || view == nil {
		return
	}
	news := exit{read: view.ObservedAt, delivered: l.clock.Now()}
	for _, c := range view.Containers {
		if c.State == runtime.Exited && c.FinishedAt.After(news.happened) && (e.AllDied || slices.Contains(e.Died, c.ID.ID)) {
			news.happened = c.FinishedAt
		}
	}
	if news.happened.IsZero() {
		return // a sandbox
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, other := range l.pending {
		if news.delivered.Sub(other.delivered) > pendingTimeout {
			delete(l.pending, uid)
		}
	}
	l.pending[e.UID] = news
}

// entered notes that a sync of the pod begins. The context it returns is the one
// to make the sync's calls with.
func (l *latency) entered(ctx context.Context, uid types.UID) context.Context {
	l.mu.Lock()
	news, ok := l.pending[uid]
	delete(l.pending, uid)
	l.mu.Unlock()
	if !ok {
		return ctx
	}
	now := l.clock.Now()
	if age := news.read.Sub(news.happened); age >= 0 && age <= maxExitAge && !news.happened.Before(l.made) {
		l.seen.Record(ctx, age.Seconds())
	}
	l.refreshed.Record(ctx, max(0, news.delivered.Sub(news.read).Seconds()))
	l.worker.Record(ctx, max(0, now.Sub(news.delivered).Seconds()))
	return context.WithValue(ctx, syncKey{}, &syncMark{began: now})
}

// dropped notes that no sync of the pod will follow: it is being stopped.
func (l *latency) dropped(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, uid)
}

// calls notes that a call is made that changes something.
func (l *latency) calls(ctx context.Context) {
	if mark, ok := ctx.Value(syncKey{}).(*syncMark); ok && !mark.called.Swap(true) {
		l.call.Record(ctx, l.clock.Since(mark.began).Seconds())
	}
}

// syncKey is the context key of a syncMark.
type syncKey struct{}

// syncMark is a sync that an exit led to.
type syncMark struct {
	began  time.Time
	called atomic.Bool
}

// timedRuntime tells latency of the calls a sync begins with.
type timedRuntime struct {
	runtime.RuntimeService
	latency *latency
}

func (t timedRuntime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	t.latency.calls(ctx)
	return t.RuntimeService.RunPodSandbox(ctx, config, handler)
}

func (t timedRuntime) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	t.latency.calls(ctx)
	return t.RuntimeService.CreateContainer(ctx, podSandboxID, config, sandboxConfig)
}

func (t timedRuntime) StopContainer(ctx context.Context, containerID string, timeout int64) error {
	t.latency.calls(ctx)
	return t.RuntimeService.StopContainer(ctx, containerID, timeout)
}

func (t timedRuntime) StopPodSandbox(ctx context.Context, podSandboxID string) error {
	t.latency.calls(ctx)
	return t.RuntimeService.StopPodSandbox(ctx, podSandboxID)
}
