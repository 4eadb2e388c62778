package podworkers

import (
	"errors"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers/internal/machine"
	"github.com/podwright/podwright/runtime"
)

// Options configures [New]. The zero value is ready to use: no views, default
// times, the real clock, silent.
type Options struct {
	// Views shows the runtime. Nil: calls get a nil view and never wait for
	// one. If it also implements [StatusPeeker] or [RunningLister], the workers use them.
	Views StatusSource
	// SourcesReady reports whether every source but the API has delivered, so
	// that an unknown pod that runs under the name of a static pod may be killed
	// (N6). It must not block. Nil: true after the first SyncKnownPods.
	SourcesReady func() bool
	// KillOrphan adds what is remembered about a pod that has no worker and runs under the
	// name of a static pod (N6) to its kill, so that it ends with its own grace (IN7). It
	// must not block. Nil: such a pod is known only from the runtime.
	KillOrphan func(pod *runtime.Pod) UpdateOptions
	// Spared reports whether a running pod without a worker must not be killed for pod, which waits
	// for its name (N6): a source may want it. It must not block. Nil: none is spared.
	Spared func(running types.UID, pod *v1.Pod) bool
	// Doing describes the slow steps that the syncer's call for a pod is in, for
	// [Workers.Explain]. It must not block. Nil: Explain only names the call.
	Doing func(uid types.UID) []string
	// Journal, if not nil, makes latched facts durable before they count.
	Journal Journal

	// SyncFrequency is the pause between two setup calls of a healthy pod,
	// plus up to half of it. 0 means 60 s.
	SyncFrequency time.Duration
	// SetupBackOff is the pause after a failed setup call. Zero: 1 s doubling to 300 s.
	SetupBackOff BackOff
	// TerminatingBackOff is the pause after a failed terminating or terminated
	// call. Zero: 1 s doubling to 10 s.
	TerminatingBackOff BackOff
	// SetupDeadline, TerminatingDeadline and TerminatedDeadline cancel a call
	// that takes longer, with [CauseDeadline]. 0 means none.
	SetupDeadline, TerminatingDeadline, TerminatedDeadline time.Duration
	// StuckAfter is how long a cancelled call may continue before it is
	// reported. 0 means 30 s. A second call never starts beside it.
	StuckAfter time.Duration
	// DrainTimeout limits how long Run, once its context has ended, lets
	// terminating and terminated calls continue before it cancels them. 0 means 30 s.
	DrainTimeout time.Duration

	// TerminateGrace shortens the grace periods of pods terminated by Stop with
	// [Terminate], rounded up to seconds. 0 leaves them as they are.
	TerminateGrace time.Duration

	// Clock measures time. Nil means the real clock.
	Clock clock.Clock
	// Rand returns a number in [0, 1) for jitter; it is called with a lock
	// held. Nil means a private, randomly seeded source.
	Rand func() float64
	// Logger. The zero value is silent.
	Logger logr.Logger
	// Events takes Warning events about pods. Nil drops them.
	Events podinfo.EventRecorder
	// Meter makes the metrics of spec/podworkers.md 14. Nil means none.
	Meter metric.Meter
}

// longest bounds every duration, so that a time far away, such as math.MaxInt64 for never, still is
// one after jitter is added to it.
const longest = 50 * 365 * 24 * time.Hour

// setDefaults replaces zero values; negative durations count as zero.
func (o *Options) setDefaults() {
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&o.SyncFrequency, time.Minute},
		{&o.SetupBackOff.Initial, time.Second},
		{&o.SetupBackOff.Max, 300 * time.Second},
		{&o.TerminatingBackOff.Initial, time.Second},
		{&o.TerminatingBackOff.Max, 10 * time.Second},
		{&o.StuckAfter, 30 * time.Second},
		{&o.DrainTimeout, 30 * time.Second},
		{&o.SetupDeadline, 0},
		{&o.TerminatingDeadline, 0},
		{&o.TerminatedDeadline, 0},
	} {
		if *d.value <= 0 {
			*d.value = d.def
		}
		*d.value = min(*d.value, longest)
	}
	o.TerminateGrace = min(o.TerminateGrace, longest)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Rand == nil {
		o.Rand = timing.Jitter()
	}
}

// machine is the part of the options the pure machine works with.
func (o *Options) machine(observe bool) machine.Config {
	return machine.Config{
		SyncFrequency:       o.SyncFrequency,
		SetupBackOff:        o.SetupBackOff,
		TerminatingBackOff:  o.TerminatingBackOff,
		SetupDeadline:       o.SetupDeadline,
		TerminatingDeadline: o.TerminatingDeadline,
		TerminatedDeadline:  o.TerminatedDeadline,
		StuckAfter:          o.StuckAfter,
		Views:               o.Views != nil,
		Observe:             observe,
		Journal:             o.Journal != nil,
		Metrics:             o.Meter != nil,
		NewCall:             newCall,
	}
}

// errRunning: Run was called a second time.
var errRunning = errors.New("pod workers already run")

// Errors a caller or syncer can act on.
var (
	// ErrStopped: the workers are stopping or have stopped.
	ErrStopped = errors.New("pod workers stopped")
	// ErrKillTimeout: KillPod has waited as long as the grace period allows.
	ErrKillTimeout = errors.New("pod did not stop in time")
	// ErrNetworkNotReady, wrapped in a syncer's error, makes the next attempt
	// come after a second, regardless of the back-off.
	ErrNetworkNotReady = errors.New("network is not ready")
)
