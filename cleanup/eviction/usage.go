package eviction

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
)

const (
	// usageWait is how long a pass waits for what all pods that may be evicted use, leavingWait how
	// long for what all pods that are being stopped use.
	usageWait   = 7 * time.Second
	leavingWait = 3 * time.Second
	// usageLate is how much later a call may return that has ended with its context: it may have
	// measured a part.
	usageLate = 500 * time.Millisecond
)

// errUnread is why a pod counts as using nothing.
var errUnread = errors.New("not read in time")

// subject is what one pod uses of one signal's resource.
type subject struct {
	uid    types.UID
	signal Signal
}

// question asks what a pod uses of a signal's resource.
type question struct {
	pod    *v1.Pod
	signal Signal
}

func (q question) subject() subject { return subject{q.pod.UID, q.signal} }

// usages answers questions. The calls together have limited time: the longer one takes, the more begin
// together, so that the last ones begin within half of it. What a call has found by then counts, also
// together with an error; a question without an answer counts as nothing used, and is not asked again in
// the same pass.
func (m *Manager) usages(ctx context.Context, questions []question, wait time.Duration) ([]Usage, []error) {
	used, errs := make([]Usage, len(questions)), make([]error, len(questions))
	until := m.options.Clock.Now().Add(wait)
	batch := timing.Batch{Clock: m.options.Clock, Patience: min(timing.Patience, wait/time.Duration(2*len(questions)+1))}
	var under sync.WaitGroup
	for i, q := range questions {
		left := until.Sub(m.options.Clock.Now())
		if left <= 0 || m.unanswered[q.subject()] {
			errs[i] = errUnread
			continue
		}
		done := make(chan struct{})
		under.Go(func() {
			defer close(done)
			used[i], errs[i] = m.usage(ctx, q, left)
		})
		batch.Add(ctx, done)
	}
	under.Wait()
	for i, q := range questions {
		if errs[i] == nil {
			continue
		}
		if !m.options.Clock.Now().Before(until) {
			m.unanswered[q.subject()] = true
		}
		errs[i] = fmt.Errorf("usage of pod %s/%s: %w", q.pod.Namespace, q.pod.Name, errs[i])
	}
	return used, errs
}

// usage answers one question.
func (m *Manager) usage(ctx context.Context, q question, wait time.Duration) (Usage, error) {
	call := foreign.Call{
		Kind: problem.Function, Name: "Eviction.Stats.Pod", UID: q.pod.UID, Pod: problem.Of(q.pod.Namespace, q.pod.Name, q.pod.UID), Object: string(q.signal),
		Patience: problem.FunctionLimit,
	}
	return foreign.Ask(ctx, m.own.calls, call, foreign.Limits{Wait: wait, Late: usageLate, Bounded: true}, func(ctx context.Context) (Usage, error) {
		return m.options.Stats.Pod(ctx, q.pod, q.signal)
	})
}
