package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/complaint"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/status"
)

const (
	leftOutPeriod = 10 * time.Second
	// leftOutPatience is how long a pod has been left out when it is ended: a pod that another one has just made room
	// for is left out for a moment.
	leftOutPatience = 30 * time.Second
	leftOutTimeout  = 10 * time.Second
	// leftOutAgain is when a pod that was deleted is deleted again, should it still be there. The watch may be behind.
	leftOutAgain = 5 * time.Minute
)

// endLeftOut deletes pods that are to be deleted and that the engine has left out, because another pod has their name: the API
// server waits for the node, and the engine has nothing to end. It returns when ctx ends.
func (a *Agent) endLeftOut(ctx context.Context) error {
	var failing complaint.Complaint
	due := map[types.UID]time.Time{}
	for timing.Sleep(ctx, a.clock, leftOutPeriod) == nil {
		now, was := a.clock.Now(), due
		due = map[types.UID]time.Time{}
		for _, pod := range a.leftOut() {
			at, known := was[pod.UID]
			if !known {
				at = now.Add(leftOutPatience)
			}
			if due[pod.UID] = at; now.Before(at) {
				continue
			}
			err := a.deleteLeftOut(ctx, pod)
			if err == nil {
				due[pod.UID] = now.Add(leftOutAgain)
			}
			failing.Note(a.logger, a.clock.Now(), err, "A pod that never began cannot be deleted", "Pods that never began can be deleted again")
		}
	}
	return nil
}

// leftOut returns the pods that are to be deleted, of which no agent has reported anything, and that the engine does not have,
// but another one of their name. That one has begun, so nothing runs of a pod that had the name before (podworkers.md N6).
func (a *Agent) leftOut() []*v1.Pod {
	delivered := a.delivered.Load()
	if delivered == nil {
		return nil
	}
	found := slices.DeleteFunc(slices.Clone(*delivered), func(pod *v1.Pod) bool { return !mayHang(pod) })
	if len(found) == 0 {
		return nil
	}
	has, begun := map[types.UID]bool{}, map[string]bool{}
	for _, pod := range (*a.engine.Load()).Pods() {
		has[pod.UID] = true
		if pod.Status.Phase != "" && pod.Status.Phase != v1.PodPending {
			begun[podinfo.FullName(pod.Namespace, pod.Name)] = true
		}
	}
	return slices.DeleteFunc(found, func(pod *v1.Pod) bool { return has[pod.UID] || !begun[podinfo.FullName(pod.Namespace, pod.Name)] })
}

// mayHang reports whether a pod waits for its node, which has never told anything of it. One without a grace waits for its
// finalizers only, and a mirror pod is up to its static pod.
func mayHang(pod *v1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return pod.DeletionTimestamp != nil && (grace == nil || *grace > 0) &&
		pod.Status.StartTime == nil && !podinfo.Terminal(pod.Status.Phase) && !podinfo.Mirror(pod)
}

func (a *Agent) deleteLeftOut(ctx context.Context, pod *v1.Pod) error {
	limited, cancel := timing.WithTimeout(ctx, a.clock, leftOutTimeout)
	defer cancel()
	ref := status.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	if err := a.sink.DeletePod(limited, ref); err != nil {
		return fmt.Errorf("delete %s: %w", ref, err)
	}
	a.logger.Info("A deleted pod that never began, as another one has its name, is gone", "pod", ref.String())
	return nil
}
