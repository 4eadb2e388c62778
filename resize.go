package podwright

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	goruntime "runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime/pods"
)

// cgroupLevels is an optional ability of [Config.Cgroups]: what is common to all pods.
type cgroupLevels interface {
	// Setup makes the cgroups that pods' are below.
	Setup() error
	// SetBurstableShares weighs all burstable pods together.
	SetBurstableShares(shares int64) error
}

// resizer ties resources that change while pods run to the engine
// (spec/runtime.md 21): it tries deferred resizes again when something has changed,
// and after some time. While none waits it has nothing to do.
type resizer struct {
	allocations *pods.Allocations
	cgroups     pods.Cgroups
	levels      cgroupLevels // nil if there are none
	allocatable v1.ResourceList
	clock       clock.WithTicker
	failed      func(error)

	// active are the pods that have resources; orphan reports a UID that nobody
	// wants and that is over.
	active func() []*v1.Pod
	orphan func(uid types.UID) bool

	kicked chan struct{}
}

// buildResizer makes the resizer of an engine.
func (e *parts) buildResizer() error {
	c := e.config
	r := &resizer{
		cgroups: c.Pods.Cgroups, clock: c.Clock, active: e.activePods, orphan: e.orphaned, kicked: make(chan struct{}, 1),
		failed: func(err error) { c.Observe.Logger.Error(err, "resources of pods") },
	}
	r.levels, _ = c.Pods.Cgroups.(cgroupLevels)
	machine := ptr.Deref(c.Pods.Machine, pods.Machine{})
	if c.Pods.Machine == nil {
		machine = pods.ExamineMachine()
	}
	r.allocatable = v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(goruntime.NumCPU()), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(machine.MemoryCapacity, resource.BinarySI),
	}
	maps.Copy(r.allocatable, c.Node.Allocatable)
	o := c.Resizes
	o.Store = pods.ResourceFiles{Dir: filepath.Join(c.RootDir, "state", "resources")}
	o.Allocatable, o.NoUpdate, o.Active, o.Wake = r.allocatable, c.Pods.Updater == nil, e.activePods, e.wake
	o.Clock, o.Events = c.Clock, c.Observe.Events
	var err error
	r.allocations, err = pods.NewAllocations(o)
	e.resizer = r
	return err
}

// activePods returns the pods that have resources of this node: those that are
// desired or being stopped, and have not finished.
func (e *parts) activePods() []*v1.Pod {
	known := e.syncer.Stopping()
	for _, p := range e.loop.Store().Pods() {
		if _, leaving := known[p.UID]; !leaving {
			known[p.UID] = p
		}
	}
	out := make([]*v1.Pod, 0, len(known))
	for uid, p := range known {
		if s, ok := e.status.Get(uid); !ok || !podinfo.Terminal(s.Phase) {
			out = append(out, p)
		}
	}
	return out
}

// orphaned reports that nobody wants or knows the pod.
func (e *parts) orphaned(uid types.UID) bool {
	if !e.loop.Ready() {
		return false
	}
	if _, desired := e.loop.Store().Get(uid); desired {
		return false
	}
	_, known := e.workers.Explain(uid)
	return !known
}

// wake asks for a sync of a desired pod.
func (e *parts) wake(uid types.UID) {
	if pod, ok := e.loop.Store().Get(uid); ok {
		e.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: pod, StartTime: e.config.Clock.Now()})
	}
}

// prepare reads what was stored and makes the cgroups all pods are below.
func (r *resizer) prepare() error {
	if err := r.allocations.Load(); err != nil {
		return err
	}
	if r.levels == nil {
		return nil
	}
	if err := r.levels.Setup(); err != nil {
		return fmt.Errorf("cgroups of pods: %w", err)
	}
	return nil
}

// grants are the resizer's allocations, as the syncer uses them: what it decides may change
// what other pods get.
type grants struct {
	*pods.Allocations
	kick func()
}

func (g grants) Allocate(pod *v1.Pod) (*v1.Pod, bool, error) {
	allocated, changed, err := g.Allocations.Allocate(pod)
	if changed && err == nil {
		g.kick()
	}
	return allocated, changed, err
}

// kick says that something has changed. It does not block.
func (r *resizer) kick() {
	select {
	case r.kicked <- struct{}{}:
	default:
	}
}

// acted says that a pod was changed, as when its first container was started: what all
// pods weigh together may be another.
func (r *resizer) acted() {
	if r.levels != nil {
		r.kick()
	}
}

// run serves until ctx ends.
func (r *resizer) run(ctx context.Context) error {
	for {
		due, stop := r.timer()
		timed := false
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-r.kicked:
		case <-due:
			timed = true
		}
		stop()
		for _, uid := range r.allocations.Known() {
			if r.orphan(uid) {
				r.report(r.allocations.Forget(uid))
			}
		}
		if r.levels != nil {
			r.report(r.levels.SetBurstableShares(pods.BurstableShares(r.active())))
		}
		r.allocations.Retry(timed)
	}
}

// timer fires when deferred resizes are due; never if there are none.
func (r *resizer) timer() (due <-chan time.Time, stop func()) {
	at := r.allocations.NextRetry()
	if at.IsZero() {
		return nil, func() {}
	}
	t := r.clock.NewTimer(at.Sub(r.clock.Now()))
	return t.C(), func() { t.Stop() }
}

func (r *resizer) report(err error) {
	if err != nil {
		r.failed(err)
	}
}
