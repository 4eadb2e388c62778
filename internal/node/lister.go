package node

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
)

// listRetryMin and listRetryMax bound the pauses between attempts to ask a runtime that does not answer.
const (
	listRetryMin = 100 * time.Millisecond
	listRetryMax = 5 * time.Second
)

// PodLister lists the pods in the runtime; [cri.View] and [Lister] do.
type PodLister interface {
	ListPods(ctx context.Context) ([]*runtime.Pod, error)
}

// HiddenPods knows what runs although lists lack it; [pleg.Generator] does.
type HiddenPods interface {
	AddHidden(listed []*runtime.Pod) []*runtime.Pod
}

// Lister lists the pods in the runtime and adds what runs and the list lacks: that of a runtime which has just been
// restarted is partial (spec/pleg.md R7). What to add is known once the agent's start is over.
type Lister struct {
	Runtime PodLister
	Hidden  HiddenPods
}

// ListPods is a call of the runtime. Its error is that of the runtime.
func (l Lister) ListPods(ctx context.Context) ([]*runtime.Pod, error) {
	listed, err := l.Runtime.ListPods(ctx)
	if err != nil {
		return nil, err
	}
	return l.Hidden.AddHidden(listed), nil
}

// list asks what the runtime has until the runtime answers or ctx ends, even if the runtime does not
// hear that: a runtime that is down may still run pods that were never seen.
func list(ctx context.Context, from PodLister, c clock.Clock) ([]*runtime.Pod, error) {
	for pause := listRetryMin; ; pause = backoff.Next(listRetryMin, listRetryMax, pause) {
		listed, err := answered(ctx, c, "ListPods", from.ListPods)
		if err == nil || ctx.Err() != nil {
			return listed, err
		}
		if timing.Sleep(ctx, c, pause) != nil {
			return nil, err
		}
	}
}
