package podwright

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop"
)

// DeadContainers says how many containers that have ended are kept, with their
// logs. Of a pod that is gone none is.
type DeadContainers struct {
	// PerName is how many are kept per pod and container name. 0 means 1; fewer is
	// not possible, as the newest one tells how the container ended. Negative: no
	// limit.
	PerName int
	// Total bounds how many there are on the node; above it the oldest go, even if
	// they are the only ones of their name. How those ended stays known, but for pods
	// in which the end of some container may restart all: there a container that was to
	// run once, and whose last record went, may run again. 0 or negative: no limit.
	Total int
	// MinAge keeps those that ended less than this long ago. Must not be negative.
	MinAge time.Duration
}

func (d *DeadContainers) complete() error {
	if d.MinAge < 0 {
		return fmt.Errorf("DeadContainers.MinAge is negative: %v", d.MinAge)
	}
	return nil
}

// finishedAt returns when a container ended, as far as the cache knows.
func (c collector) finishedAt(uid types.UID, id runtime.ContainerID) time.Time {
	status, err := c.pleg.Get(uid)
	if err != nil {
		return time.Time{}
	}
	for _, s := range status.Containers {
		if s.ID == id {
			return s.FinishedAt
		}
	}
	return time.Time{}
}

// buildTidiers makes what keeps logs, dead containers, cgroups and images few.
func (e *parts) buildTidiers(images metric.Meter) (err error) {
	if e.rotator, err = e.pods.NewLogRotator(e.config.Storage.LogRotation, e.runningPods); err != nil {
		return fmt.Errorf("LogRotation: %w", err)
	}
	e.reaper = e.pods.NewReaper(pods.ReaperOptions{
		Keep: e.config.Storage.DeadContainers.PerName, MinAge: e.config.Storage.DeadContainers.MinAge,
		ContentShouldBeRemoved: e.contentGoes,
	})
	e.records = &imageRecords{pods: e.pods, clock: e.config.Clock}
	e.cgroupRemover = newCgroupRemover(e.pods.DestroyCgroup, e.orphaned, e.config.Observe.Logger.WithName("cgroups"))
	return e.buildImageGC(images)
}

// contentGoes reports whether nothing of a pod is needed any more. While sources may
// still want pods they have not named, that is not known of any (ND2). Of those that
// are desired it is known of those only whose API says that they were evicted: they
// never run again, and were evicted for the room they take, as soon as they have stopped.
// One that is evicted here is removed when it has ended.
func (e *parts) contentGoes(uid types.UID) bool {
	if !e.loop.Ready() || e.loop.Undecided() != nil {
		return false
	}
	if pod, desired := e.loop.Store().Get(uid); desired {
		return syncloop.IsEvicted(&pod.Status) && e.workers.IsPodKnownTerminated(uid)
	}
	return e.containersGo(uid)
}

// containersGo reports whether the containers of a pod may be removed. Those of an evicted
// pod may go before the source drops it, but not while the pod still stops: the status
// that tells how they ended is made of them when all have (PE4).
func (e *parts) containersGo(uid types.UID) bool {
	return e.workers.ShouldPodContentBeRemoved(uid) && !e.workers.CouldHaveRunningContainers(uid)
}

// runningPods are the pods the cache knows, for the rotation of logs: it costs no
// runtime call.
func (e *parts) runningPods(context.Context) ([]*runtime.PodStatus, error) {
	var out []*runtime.PodStatus
	for _, uid := range e.pleg.ChangedSince(0).UIDs {
		// A pod that could not be read lately is as it was read last.
		if status, _ := e.pleg.Get(uid); status != nil {
			out = append(out, status)
		}
	}
	return out, nil
}

// evicted has the reaper look at everything that has ended of a pod whose API says
// that it was evicted (spec/syncloop.md 10, edge case 29).
func (e *parts) evicted(pod *v1.Pod) { e.died(pleg.PodEvents{UID: pod.UID, AllDied: true}) }

// died has the reaper look at a pod in which something died (spec/syncloop.md PE2).
func (e *parts) died(events pleg.PodEvents) {
	status, err := e.pleg.Get(events.UID)
	if err != nil || status == nil {
		return // garbage collection sees to it
	}
	ids := events.Died
	if events.AllDied {
		ids = nil
		for _, c := range status.Containers {
			if c.State == runtime.Exited {
				ids = append(ids, c.ID.ID)
			}
		}
	}
	e.reaper.Died(status, ids...)
}
