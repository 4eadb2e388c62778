package inventory

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// Workers are the pods' workers; podworkers.Workers implements it.
type Workers interface {
	SyncKnownPods(desired []*v1.Pod) map[types.UID]podworkers.PodSync
	Snapshot() []podworkers.Explanation
	IsPodKnown(uid types.UID) bool
	ShouldPodContentBeRemoved(uid types.UID) bool
	UpdatePod(update podworkers.UpdateOptions) podworkers.Outcome
	Forget(uid types.UID) bool
}

// Memory adds what is remembered of a pod; recovery.Recovery implements it.
type Memory interface {
	// Complete returns the updates that replace a pod's first update for the workers.
	Complete(update podworkers.UpdateOptions) []podworkers.UpdateOptions
	// KillOrphan returns the update that stops a pod that only the runtime knows.
	KillOrphan(pod *runtime.Pod) podworkers.UpdateOptions
}

// Pods shows the workers to the housekeeper.
type Pods struct {
	Workers Workers
	Memory  Memory
	// Judged reports whether a pod has the verdict of admission. Readmit has one judged, and started if it is admitted.
	Judged  func(pod *v1.Pod) bool
	Readmit func(uid types.UID)
	Clock   clock.PassiveClock
}

// SyncKnownPods brings the workers into line with the desired pods.
func (k Pods) SyncKnownPods(desired []*v1.Pod) map[types.UID]cleanup.Worker {
	known := k.Workers.SyncKnownPods(desired)
	out := make(map[types.UID]cleanup.Worker, len(known))
	for uid, p := range known {
		out[uid] = cleanup.Worker{State: workerState(p.State), Orphan: p.Orphan, HasConfig: p.HasConfig, Static: p.Static, Restart: p.Restart}
	}
	return out
}

// workerState is the kind of work a pod in this state needs next.
func workerState(s podworkers.State) cleanup.WorkerState {
	switch {
	case s.Terminated():
		return cleanup.WorkerTerminated
	case s.Terminating():
		return cleanup.WorkerTerminating
	default:
		return cleanup.WorkerSync
	}
}

// Known is for dry runs: it changes nothing.
func (k Pods) Known() map[types.UID]cleanup.Worker {
	out := map[types.UID]cleanup.Worker{}
	for _, x := range k.Workers.Snapshot() {
		out[x.UID] = cleanup.Worker{
			State: workerState(x.State), HasConfig: true, Static: x.Static, Restart: x.RestartRequested && x.State.Finished(),
		}
	}
	return out
}

// Knows reports whether there is a worker for the pod.
func (k Pods) Knows(uid types.UID) bool {
	return k.Workers.IsPodKnown(uid)
}

// ContentShouldBeRemoved asks the workers.
func (k Pods) ContentShouldBeRemoved(uid types.UID) bool {
	return k.Workers.ShouldPodContentBeRemoved(uid)
}

// Restart starts a desired pod that the workers do not know, or whose life is over. A life that was not judged yet is
// judged first: the verdict on the earlier one says nothing about it (AD5).
func (k Pods) Restart(pod *v1.Pod) {
	k.Workers.Forget(pod.UID)
	if !k.Judged(pod) {
		k.Readmit(pod.UID)
		return
	}
	k.update(podworkers.Restart, pod)
}

// Kill terminates a desired pod.
func (k Pods) Kill(pod *v1.Pod) { k.update(podworkers.Kill, pod) }

// KillRuntimePod terminates a pod that only the runtime knows.
func (k Pods) KillRuntimePod(pod *runtime.Pod) { k.Workers.UpdatePod(k.Memory.KillOrphan(pod)) }

func (k Pods) update(t podworkers.UpdateType, pod *v1.Pod) {
	for _, options := range k.Memory.Complete(podworkers.UpdateOptions{Type: t, Pod: pod, StartTime: k.Clock.Now()}) {
		k.Workers.UpdatePod(options)
	}
}
