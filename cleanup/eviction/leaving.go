package eviction

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
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
)

// leaver is a pod that is being stopped.
type leaver struct {
	pod *v1.Pod
	// since is when it was first seen stopping, or was told to hurry; gone is when it was found to have
	// stopped, zero before.
	since, gone time.Time
	// evicted: this manager stopped it.
	evicted bool
	// used is its usage at the last look; shrank is when that last went down.
	used   map[Signal]uint64
	shrank time.Time
}

// noteLeaving updates which pods are being stopped.
func (m *Manager) noteLeaving() {
	back := map[types.UID]bool{}
	for _, pod := range m.options.Pods() {
		back[pod.UID] = true
	}
	for uid := range m.victims {
		if back[uid] || m.options.Killer.Finished(uid) {
			delete(m.victims, uid)
		}
	}
	if m.options.Leaving == nil {
		return
	}
	now, stopping := m.options.Clock.Now(), map[types.UID]bool{}
	for _, pod := range m.options.Leaving() {
		l := m.leaving[pod.UID]
		if l == nil {
			_, evicted := m.victims[pod.UID]
			l = &leaver{pod: pod, since: now, evicted: evicted, used: map[Signal]uint64{}}
			m.leaving[pod.UID] = l
		}
		stopping[pod.UID], l.gone = true, time.Time{}
	}
	for uid, l := range m.leaving {
		if !stopping[uid] && l.gone.IsZero() {
			l.gone = now
		}
		if back[uid] || !l.gone.IsZero() && now.Sub(l.gone) >= leftBehind {
			delete(m.leaving, uid)
		}
	}
}

// counts reports whether what the pod uses can be expected to be free soon.
func (l *leaver) counts(b breach, now time.Time) bool {
	if !l.gone.IsZero() && !b.kind.disk {
		return false // its processes are gone
	}
	wait := hardLeaving
	if !b.Hard() {
		wait = l.grace() + cleanupWait
	} else if !l.evicted && l.since.Sub(b.progress) >= hardLeaving {
		return false // those before it did not help: something takes what they free
	}
	return now.Sub(l.since) < wait || !l.shrank.IsZero() && now.Sub(l.shrank) < cleanupWait
}

func (l *leaver) grace() time.Duration {
	if own := l.pod.DeletionGracePeriodSeconds; own != nil {
		return timing.Seconds(*own)
	}
	return podinfo.Grace(l.pod)
}

// freeing returns how much will soon be free, for each of these limits.
func (m *Manager) freeing(ctx context.Context, due []breach) map[Threshold]uint64 {
	all := slices.Collect(maps.Values(m.leaving))
	var questions []question
	asked := map[Signal]bool{} // a signal may have two limits
	for _, b := range due {
		for _, l := range all {
			if !asked[b.Signal] {
				questions = append(questions, question{l.pod, b.Signal})
			}
		}
		asked[b.Signal] = true
	}
	usages, errs := m.usages(ctx, questions, leavingWait)
	now := m.options.Clock.Now()
	for i, q := range questions {
		l, used := m.leaving[q.pod.UID], min(m.options.Policy.kind(q.signal).used(usages[i]), 1<<60)
		if before, known := l.used[q.signal]; known && used < before && errs[i] == nil {
			l.shrank = now
		}
		l.used[q.signal] = used
	}
	amounts := map[Threshold]uint64{}
	for _, b := range due {
		amounts[b.Threshold] = 0
		for _, l := range all {
			if l.counts(b, now) {
				amounts[b.Threshold] += l.used[b.Signal]
			}
		}
	}
	return amounts
}

// hastenWait is how long a pass waits for a pod that it tells to hurry, hastenLimit for all of them.
const (
	hastenWait  = 2 * time.Second
	hastenLimit = 10 * time.Second
)

// hasten gives pods that a soft limit evicts the grace of a hard one. It returns one of them, or nil.
// One that could not be told is told again in the next pass.
func (m *Manager) hasten(ctx context.Context, which func(victim) bool) (first *v1.Pod) {
	begin := m.options.Clock.Now()
	for _, uid := range slices.Sorted(maps.Keys(m.victims)) {
		v := m.victims[uid]
		if !v.soft || !which(v) {
			continue
		}
		if m.options.Clock.Since(begin) >= hastenLimit || ctx.Err() != nil {
			break // the next pass goes on
		}
		m.options.Logger.Info("A pod that is being evicted has to stop at once, because a hard limit is due",
			"namespace", v.pod.Namespace, "name", v.pod.Name, "uid", uid, "signal", v.signal)
		grace := int64(hardGrace)
		m.killed = m.options.Clock.Now()
		if err := m.kill(ctx, v, &grace, hastenWait); err != nil {
			m.options.Logger.Error(err, "A pod cannot be told to stop at once", "namespace", v.pod.Namespace, "name", v.pod.Name, "uid", uid)
			continue
		}
		v.soft = false
		m.victims[uid] = v
		if l := m.leaving[uid]; l != nil {
			l.since = m.options.Clock.Now()
		}
		if first == nil {
			first = v.pod
		}
	}
	return first
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
	var measured, out []breach
	for _, b := range due {
		if !b.kind.own && !b.Observed.Low {
			measured = append(measured, b)
		}
	}
	amounts := m.freeing(ctx, measured) // a hard limit counts less than a soft one of the same signal
	for _, b := range due {
		amount, asked := amounts[b.Threshold]
		if asked && !m.covers(b, amount) || !asked && !m.mayBeFreeing(b) {
			out = append(out, b)
		}
	}
	if len(amounts) == 0 || len(out) == 0 {
		return out
	}
	// What was freed while usages were read is missing in the first reading of the node.
	readings, _ := m.readNode(ctx)
	return slices.DeleteFunc(out, func(b breach) bool {
		amount, asked := amounts[b.Threshold]
		o, read := readings[b.Signal]
		b.Observed = o
		return asked && read && !o.Low && m.covers(b, amount)
	})
}

// covers reports whether a limit is no longer due once an amount is freed.
func (m *Manager) covers(b breach, freeing uint64) bool {
	needed := b.Value.Of(b.Observed.Capacity) + b.MinReclaim.Of(b.Observed.Capacity)
	if b.Observed.Available+freeing < needed {
		return false
	}
	m.options.Logger.Info("No pod is evicted, because those that are being stopped free enough", "signal", b.Signal,
		"available", b.Observed.Available, "freeing", freeing, "needed", needed)
	return true
}
