package timing

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

type answersKey struct{}

// Answers returns a copy of parent for a chain of calls, and a channel that tells that at least one of them was answered
// since it was read last. Whoever limits parent is told as well.
func Answers(parent context.Context) (ctx context.Context, answers <-chan struct{}) {
	told := make(chan struct{}, 1)
	return context.WithValue(parent, answersKey{}, func() {
		Answered(parent)
		select {
		case told <- struct{}{}:
		default:
		}
	}), told
}

// Answered says that one call of a chain was answered: what limits a single call begins again.
func Answered(ctx context.Context) {
	if tell, ok := ctx.Value(answersKey{}).(func()); ok {
		tell()
	}
}

// Renew makes a timer that has fired begin again if an answer came before that, and reports whether one did.
func Renew(answers <-chan struct{}, timer clock.Timer, d time.Duration) bool {
	select {
	case <-answers:
		Restart(timer, d)
		return true
	default:
		return false
	}
}

// WithCallTimeout is [WithTimeout] for a chain of calls: the time begins again with each that was [Answered]. The context
// reports only the deadline of its parent. An answer in time counts even if the clock shows a later time by now.
func WithCallTimeout(parent context.Context, c Clock, d time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	parent, answers := Answers(parent)
	return limit(parent, c, d, answers)
}
