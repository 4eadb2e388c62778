package syncloop

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Options configures a [Loop]. The zero value is a loop without sources.
type Options struct {
	// Sources the loop runs and merges. Names must be unique.
	Sources []Source
	// Events are pods whose runtime state changed. Nil means none.
	Events Events
	// Housekeeper is called every HousekeepingPeriod and when triggered. Nil
	// means no housekeeping.
	Housekeeper Housekeeper
	// Gate returns why no pod should be set up now, nil when all is well. It
	// is called often, from the loop's goroutine, and must not block. Nil means
	// always open (B2).
	Gate func() error
	// HousekeepingPeriod is the time between passes that nothing triggered.
	// Default 2 s.
	HousekeepingPeriod time.Duration
	// StuckAfter is how long one iteration or one housekeeping pass may take
	// before [Loop.Healthy] complains. Default 5 min (L6).
	StuckAfter time.Duration

	// Recorder receives events about pods. Nil drops them.
	Recorder EventRecorder
	// Clock is the loop's time. Nil means the real clock.
	Clock clock.WithTicker
	// Logger is silent by default.
	Logger logr.Logger
	// Meter receives metrics. Nil drops them.
	Meter metric.Meter
}

// Loop merges sources, keeps the desired pods and dispatches work. Make one with
// [New]; all methods are safe for concurrent use.
type Loop struct{ store *Store }

// New returns a loop that hands work to dispatcher, or every problem of the
// options at once.
func New(dispatcher Dispatcher, options Options) (*Loop, error) { return &Loop{}, nil }

// Run runs the sources and the loop until ctx ends, or until every source is
// closed and what they delivered is handled (B1). It returns when all goroutines
// it started have ended: nil when the sources closed, ctx's cause otherwise.
// A second call returns [ErrRunning]. Pods are left as they are.
func (l *Loop) Run(ctx context.Context) error { return nil }

// Store returns the desired pods.
func (l *Loop) Store() *Store { return l.store }

// Ready reports whether every source has been seen and consumed (R1, R2).
func (l *Loop) Ready() bool { return false }

// ReadyC is closed when the loop is first ready.
func (l *Loop) ReadyC() <-chan struct{} { return nil }

// Sources returns the state of each source, in the order of the options.
func (l *Loop) Sources() []SourceStatus { return nil }

// Healthy returns an error while one iteration or one housekeeping pass has been
// going on for longer than Options.StuckAfter (L6).
func (l *Loop) Healthy() error { return nil }

// Held returns the pods whose work waits, for the gate to open or because the
// dispatcher panicked, sorted by UID.
func (l *Loop) Held() []types.UID { return nil }

// TriggerHousekeeping asks for a housekeeping pass soon, at most one per 200 ms.
// It never blocks (B6).
func (l *Loop) TriggerHousekeeping() {}
