package syncloop

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
)

// Pauses before a failed source is run again.
const (
	sourceRetryMin = time.Second
	sourceRetryMax = 20 * time.Second
)

// member is a source with what it is asked for only once: it may need a lock for the answer that it, or another one, holds while
// it delivers.
type member struct {
	source     Source
	name       string
	precedence Precedence
}

// sources are the sources of a loop and the goroutines that run them.
type sources struct {
	mu  sync.Mutex
	all []member
	// run starts the goroutines of a source; nil while the loop does not run.
	run  func(member)
	over bool // the loop has ended
	open int  // sources whose goroutine runs

	// news is readable after a source has ended or has been added.
	news chan struct{}
}

func newSources(all []member) *sources {
	return &sources{all: all, news: make(chan struct{}, 1)}
}

// newMember checks a source that is added to others; taken reports whether one of those has a name.
func newMember(s Source, taken func(name string) bool) (member, error) {
	if s == nil {
		return member{}, errors.New("it is nil")
	}
	m := member{source: s, name: s.Name(), precedence: PrecedenceInProcess}
	if strings.TrimSpace(m.name) == "" {
		return member{}, errors.New("it has no name")
	}
	if taken(m.name) {
		return member{}, fmt.Errorf("two sources are called %q", m.name)
	}
	if p, ok := s.(Preceded); ok {
		m.precedence = p.Precedence()
	}
	return m, nil
}

// list returns the sources; the caller must not change it.
func (x *sources) list() []member {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clip(x.all)
}

// start runs the sources, and from now on those that are added.
func (x *sources) start(run func(member)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.run = run
	for _, s := range x.all {
		x.open++
		run(s)
	}
}

// stop makes sure that no further source is run.
func (x *sources) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.run, x.over = nil, true
}

// ended records that the goroutine of a source has ended.
func (x *sources) ended() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open--
	x.tell()
}

// allEnded reports whether no source will deliver again.
func (x *sources) allEnded() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.all) > 0 && x.open == 0
}

func (x *sources) tell() {
	select {
	case x.news <- struct{}{}:
	default:
	}
}

// AddSource adds a source, before or while the loop runs. The loop is not ready until the
// source has delivered: nothing is removed (R4). It waits for deliveries under way; ctx bounds
// that wait, not the source. Sources cannot be removed; one that ends keeps its pods.
//
// The error says what is wrong with the source, or that the loop has ended.
func (l *Loop) AddSource(ctx context.Context, s Source) error {
	x := l.sources
	added, err := newMember(s, func(name string) bool { return l.mux.lookup(name) != nil }) // before it has the turn
	if err != nil {
		return fmt.Errorf("syncloop: source cannot be added: %w", err)
	}
	return l.mux.add(ctx, added, func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.over {
			return fmt.Errorf("syncloop: source %q cannot be added: %w", added.name, errRunning)
		}
		x.all = append(x.all, added)
		if x.run != nil {
			x.open++
			x.run(added)
		}
		x.tell()
		return nil
	})
}

// awaitSource declares a source seen if it stays silent for too long (R5).
func (l *Loop) awaitSource(ctx context.Context, name string) {
	if timing.Sleep(ctx, l.options.Clock, l.options.SourceDeadline) != nil {
		return
	}
	declared, err := l.mux.declare(ctx, name)
	if declared && err == nil {
		l.options.Logger.Error(errSilentSource, "Source counts as heard, as configured: what it may want is not desired",
			"source", name, "deadline", l.options.SourceDeadline)
	}
}

var errSilentSource = errors.New("the source has said nothing since it was started")

// runSource keeps one source running until it is closed or ctx ends.
func (l *Loop) runSource(ctx context.Context, source member) {
	name, delay := source.name, time.Duration(0)
	started := l.options.Clock.Now()
	l.mux.update(name, func(s *SourceStatus) { s.Started = started })
	for {
		var delivered atomic.Bool
		err := l.runOnce(ctx, source, func(run, own context.Context, pods []*v1.Pod) error {
			// Only the end of this run ends the source, not the source's own context.
			both, cancel := context.WithCancelCause(own)
			defer cancel(nil)
			defer context.AfterFunc(run, func() { cancel(context.Cause(run)) })()
			if run.Err() != nil {
				return context.Cause(run)
			}
			err := l.mux.deliver(both, name, pods)
			if err == nil {
				delivered.Store(true)
			}
			return err
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			l.sourceClosed(ctx, name)
			return
		}
		if delivered.Load() {
			delay = 0
		}
		failed := l.options.Clock.Now()
		l.mux.update(name, func(s *SourceStatus) {
			if s.RunError == nil {
				s.FailingSince = failed
			}
			s.RunError = err
		})
		delay = backoff.Next(sourceRetryMin, sourceRetryMax, delay)
		l.metrics.sourceFails.Add(ctx, 1, instrument.Labels("source", name))
		l.options.Logger.Error(err, "Source failed, its pods stay as they are", "source", name, "retryAfter", delay)
		if timing.Sleep(ctx, l.options.Clock, delay) != nil {
			return
		}
	}
}

// sourceClosed records that a source will not deliver again. A source that never delivered
// must not keep the loop from becoming ready, and its silence ends no pod (IN9).
func (l *Loop) sourceClosed(ctx context.Context, name string) {
	l.mux.update(name, func(s *SourceStatus) { s.Closed = true })
	unheard, err := l.mux.close(ctx, name)
	switch {
	case err != nil: // the loop ends
	case unheard:
		l.options.Logger.Error(errClosedUnheard, "Source closed without a word, unknown pods are left alone", "source", name)
	default:
		l.options.Logger.Info("Source closed, its pods stay as they are", "source", name)
	}
}

// errClosedUnheard is why a source that ended before its first delivery is undecided.
var errClosedUnheard = errors.New("the source was closed before it named its pods")

// runOnce runs a source until it ends or ctx does. If the source then still runs, the loop no
// longer waits for it, and it cannot deliver any more (IN6).
func (l *Loop) runOnce(ctx context.Context, source member, deliver func(run, own context.Context, pods []*v1.Pod) error) error {
	call := foreign.Call{Kind: problem.Source, Name: "Run of the source " + source.name}
	_, err := foreign.Ask(ctx, l.calls, call, foreign.Limits{}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.contain(ctx, func() error {
			return source.source.Run(ctx, func(own context.Context, pods []*v1.Pod) error { return deliver(ctx, own, pods) })
		})
	})
	return err
}

// contain runs a source; a panic is its error.
func (l *Loop) contain(ctx context.Context, run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.metrics.panicked(ctx, "source")
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run()
}

// leave waits for the sources to return, for some seconds.
func (l *Loop) leave() {
	l.calls.Leave(l.options.Logger)
}
