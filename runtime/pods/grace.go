package pods

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods/internal/actions"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// This file decides how long a container may take to stop (spec/runtime.md 16.1,
// 16.2, 16.6, 16.7):
//
//	override, pod, probe, annotations ──► terminationGrace ──► seconds in all
//	less the preStop hook, less the wait for its turn ──► stopTimeout ──► StopContainer

const (
	// minimumGrace is the least that StopContainer gets, in seconds, and the grace of
	// a container for which nothing says more.
	minimumGrace = 2
	// orphanGrace is the grace of a pod that only the runtime knows, in seconds.
	orphanGrace = 1
)

// graceSources are what may say how long a container has to stop.
type graceSources struct {
	// override is what the caller of the kill asks for.
	override *int64
	// pod is nil if only the runtime knows the pod.
	pod *v1.Pod
	// probe is the grace of the probe that failed.
	probe *int64
	// recorded is what the container's annotations say, for a container without a
	// definition.
	recorded meta.Restored
}

// terminationGrace returns the seconds that a container has to stop, its preStop hook
// included, from the first source that sets them (spec/runtime.md 16.1).
func terminationGrace(from graceSources) int64 {
	deletion, regular := from.recorded.DeletionGrace, from.recorded.TerminationGrace
	if from.pod != nil {
		deletion = from.pod.DeletionGracePeriodSeconds
		if own := from.pod.Spec.TerminationGracePeriodSeconds; own != nil {
			regular = own
		}
	}
	for _, seconds := range []*int64{from.override, deletion, from.probe, regular} {
		if seconds != nil {
			return max(*seconds, 0)
		}
	}
	return minimumGrace
}

// probeGrace is the grace of the probe that failed, nil if it has none of its own.
func probeGrace(k actions.Kill) *int64 {
	switch {
	case k.Reason == actions.StartupProbe && k.Spec.StartupProbe != nil:
		return k.Spec.StartupProbe.TerminationGracePeriodSeconds
	case k.Reason == actions.LivenessProbe && k.Spec.LivenessProbe != nil:
		return k.Spec.LivenessProbe.TerminationGracePeriodSeconds
	}
	return nil
}

// stopTimeout returns the timeout for StopContainer, given the seconds that are left
// of the grace. atLeast is what is left of the minimum. A sidecar that was started
// again while its pod ends is killed at once (spec/runtime.md 16.2, 16.9).
func stopTimeout(left, atLeast int64, restarted bool) int64 {
	if restarted {
		return 0
	}
	return max(left, atLeast)
}

// minimumLeft returns what is left of the minimum for a container that was first
// told to stop this long ago: whole seconds, at least one. A kill whose grace gets
// shorter is thus not raised to the minimum again (spec/runtime.md 16.6).
func minimumLeft(ago time.Duration) int64 {
	left := minimumGrace*time.Second - ago
	return max(int64((left+time.Second-1)/time.Second), 1)
}
