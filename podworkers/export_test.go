package podworkers

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers/internal/machine"
)

// Of returns the options with a place for the outcome. The workers fill it in before they close the
// channel.
func (k KillOptions) Of(outcome *machine.KillOutcome) KillOptions {
	k.outcome = outcome
	return k
}

// KilledPod is KillPod, and returns how the termination ended, too.
func (w *Workers) KilledPod(ctx context.Context, pod *v1.Pod, kill KillOptions) (machine.KillOutcome, error) {
	return w.killPod(ctx, pod, kill)
}

// ErrRunning is the error that a second Run returns.
var ErrRunning = errRunning
