package eviction

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

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

// usages returns what pods use of a signal's resource. The calls together have limited time: the longer
// one takes, the more begin together, so that the last ones begin within half of it. What a call has found
// by then counts, also together with an error; a pod without an answer counts as using nothing, and is not
// asked about again in the same pass.
func (m *Manager) usages(ctx context.Context, pods []*v1.Pod, signal Signal, wait time.Duration) ([]Usage, []error) {
	used, errs := make([]Usage, len(pods)), make([]error, len(pods))
	until := m.options.Clock.Now().Add(wait)
	batch := timing.Batch{Clock: m.options.Clock, Patience: min(timing.Patience, wait/time.Duration(2*len(pods)+1))}
	var under sync.WaitGroup
	for i, pod := range pods {
		left := until.Sub(m.options.Clock.Now())
		if left <= 0 || m.unanswered[pod.UID] {
			errs[i] = errUnread
			continue
		}
		done := make(chan struct{})
		under.Go(func() {
			defer close(done)
			used[i], errs[i] = m.usage(ctx, pod, signal, left)
		})
		batch.Add(ctx, done)
	}
	under.Wait()
	for i, pod := range pods {
		if errs[i] == nil {
			continue
		}
		if !m.options.Clock.Now().Before(until) {
			m.unanswered[pod.UID] = true
		}
		errs[i] = fmt.Errorf("usage of pod %s/%s: %w", pod.Namespace, pod.Name, errs[i])
	}
	return used, errs
}

// usage asks what one pod uses.
func (m *Manager) usage(ctx context.Context, pod *v1.Pod, signal Signal, wait time.Duration) (Usage, error) {
	type answer struct {
		usage Usage
		err   error // may come together with a usage
	}
	call := foreign.Call{Kind: problem.Function, Name: "Eviction.Stats.Pod", UID: pod.UID, Pod: pod.Namespace + "/" + pod.Name, Object: string(signal)}
	got, err := foreign.Ask(ctx, m.own.calls, call, foreign.Limits{Wait: wait + usageLate}, func(ctx context.Context) (a answer, _ error) {
		limited, cancel := timing.WithTimeout(ctx, m.options.Clock, wait)
		defer cancel()
		a.usage, a.err = m.options.Stats.Pod(limited, pod, signal)
		return a, nil
	})
	if err != nil {
		return Usage{}, err
	}
	return got.usage, got.err
}
