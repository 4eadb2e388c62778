package eviction

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
)

// What stopping pods use will soon be free. No other pod is evicted for it, as long as it can be
// expected to become free (IN4).
const (
	// hardLeaving is how long a stopping pod counts for a hard limit, whatever its grace.
	hardLeaving = time.Minute
	// leftBehind is how long a pod's disk usage still counts after it has stopped: its folder is
	// removed a moment later.
	leftBehind = 10 * time.Second
	// defaultGrace is the grace of a pod that specifies none.
	defaultGrace = 30 * time.Second
)

// leaver is a pod that is being stopped.
type leaver struct {
	pod *v1.Pod
	// since is when it was first seen stopping, seen when last.
	since, seen time.Time
	// used is its usage at the last look; shrank is when that last went down.
	used   map[Signal]uint64
	shrank time.Time
}

// noteLeaving updates which pods are being stopped.
func (m *Manager) noteLeaving() {
	if m.options.Leaving == nil {
		return
	}
	now := m.options.Clock.Now()
	for _, pod := range m.options.Leaving() {
		l := m.leaving[pod.UID]
		if l == nil {
			l = &leaver{pod: pod, since: now, used: map[Signal]uint64{}}
			m.leaving[pod.UID] = l
		}
		l.seen = now
	}
	stay := map[types.UID]bool{}
	for _, pod := range m.options.Pods() {
		stay[pod.UID] = true // it is back
	}
	for uid, l := range m.leaving {
		if stay[uid] || now.Sub(l.seen) > leftBehind {
			delete(m.leaving, uid)
		}
	}
}

// counts reports whether what the pod uses can be expected to be free soon.
func (l *leaver) counts(b breach, now time.Time) bool {
	if !l.seen.Equal(now) && !b.kind.disk {
		return false // its processes are gone
	}
	wait := hardLeaving
	if !b.Hard() {
		wait = l.grace() + cleanupWait
	}
	return now.Sub(l.since) < wait || !l.shrank.IsZero() && now.Sub(l.shrank) < cleanupWait
}

func (l *leaver) grace() time.Duration {
	for _, seconds := range []*int64{l.pod.DeletionGracePeriodSeconds, l.pod.Spec.TerminationGracePeriodSeconds} {
		if seconds != nil {
			return timing.Seconds(*seconds)
		}
	}
	return defaultGrace
}

// freeing returns how much will soon be free.
func (m *Manager) freeing(ctx context.Context, b breach) (amount uint64) {
	now := m.options.Clock.Now()
	for _, l := range m.leaving {
		usage, err := m.options.Stats.Pod(ctx, l.pod, b.Signal)
		if err != nil {
			continue // count it as using nothing
		}
		used := min(b.kind.used(usage), 1<<60)
		if before, known := l.used[b.Signal]; known && used < before {
			l.shrank = now
		}
		l.used[b.Signal] = used
		if l.counts(b, now) {
			amount += used
		}
	}
	return amount
}

// mayBeFreeing reports whether to wait for a stopping pod although it is not known what it will
// free. New ones may keep coming, so the wait ends [hardLeaving] after the limit became due: an
// agent that was killed while it evicted a pod does not evict another at once.
func (m *Manager) mayBeFreeing(b breach) bool {
	now := m.options.Clock.Now()
	if now.Sub(b.due) >= hardLeaving {
		return false
	}
	for _, l := range m.leaving {
		if l.counts(b, now) {
			m.options.Logger.Info("No pod is evicted yet, because some are being stopped", "signal", b.Signal)
			return true
		}
	}
	return false
}

// uncovered returns the limits that are due even if everything that will soon be free counts as
// available.
func (m *Manager) uncovered(ctx context.Context, due []breach) []breach {
	if len(m.leaving) == 0 {
		return due
	}
	var out []breach
	for _, b := range due {
		if b.kind.own || b.Observed.Low {
			if !m.mayBeFreeing(b) {
				out = append(out, b)
			}
			continue
		}
		needed := b.Value.Of(b.Observed.Capacity) + b.MinReclaim.Of(b.Observed.Capacity)
		if freeing := m.freeing(ctx, b); b.Observed.Available+freeing < needed {
			out = append(out, b)
		} else {
			m.options.Logger.Info("No pod is evicted, because those that are being stopped free enough", "signal", b.Signal,
				"available", b.Observed.Available, "freeing", freeing, "needed", needed)
		}
	}
	return out
}
