package syncloop

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Answered says that a question which the [Admission] has left open has its answer. The loop judges this pod at once, and
// then the pods behind it; it asks about no other pod again, as it does after [Loop.GateChanged]. It never blocks.
func (l *Loop) Answered(uid types.UID) {
	l.verdicts.answer(uid)
	select {
	case l.answers <- struct{}{}:
	default:
	}
}

// hear judges the pods about which an answer has come. A verdict changes what others have to wait for: a new round begins.
// Without one the round goes on, because an admission that repeats its question in each round would never end them.
func (l *Loop) hear(ctx context.Context) {
	defer l.stamp(ctx, "held")()
	l.fence.Lock()
	defer l.fence.Unlock()
	decided, begin := false, l.options.Clock.Now()
	for _, uid := range l.verdicts.among(l.verdicts.takeAnswered()) {
		switch {
		case l.options.Clock.Since(begin) > longIteration:
			l.Answered(uid) // in a moment
		case l.verdicts.heads(uid) && l.judgePod(ctx, uid) == nil:
			decided = true
		}
	}
	switch r := &l.round; {
	case decided:
		l.retryNow()
	case len(r.behind) > 0:
		r.left, r.behind = l.verdicts.among(r.left, r.behind), nil
		l.judge(ctx)
		if len(r.left) > 0 {
			l.schedule.retryAt = l.options.Clock.Now()
		}
	}
}

// answer records that an answer has come about a pod.
func (v *verdicts) answer(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Contains(v.answered, uid) {
		v.answered = append(v.answered, uid)
	}
}

// takeAnswered returns the pods about which an answer has come since the last time.
func (v *verdicts) takeAnswered() []types.UID {
	v.mu.Lock()
	defer v.mu.Unlock()
	uids := v.answered
	v.answered = nil
	return uids
}

// among returns those of some pods that wait, each once, in the order of their arrival.
func (v *verdicts) among(some ...[]types.UID) []types.UID {
	named := map[types.UID]bool{}
	for _, uid := range slices.Concat(some...) {
		named[uid] = true
	}
	return slices.DeleteFunc(v.queue(), func(uid types.UID) bool { return !named[uid] })
}

// heads reports whether a pod waits, and no earlier one of its line does.
func (v *verdicts) heads(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	o := v.open[uid]
	if o == nil || o.line == "" {
		return o != nil
	}
	for _, other := range v.open {
		if other.line == o.line && other.order < o.order {
			return false
		}
	}
	return true
}
