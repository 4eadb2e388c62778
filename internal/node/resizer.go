package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/pods"
)

// CgroupLevels is an optional ability of what keeps pods' cgroups: the levels that all pods share.
type CgroupLevels interface {
	// Setup creates the cgroups that contain the pods' cgroups.
	Setup() error
	// SetBurstableShares sets the weight of all burstable pods together.
	SetBurstableShares(shares int64) error
}

// CgroupReservations is an optional ability of [CgroupLevels].
type CgroupReservations interface {
	// SetReservations protects the memory of all Guaranteed pods together, and of all Burstable ones, in bytes.
	SetReservations(guaranteed, burstable int64) error
}

// Allocations knows what pods were granted, and which resizes wait; [pods.Allocations] does.
type Allocations interface {
	// Load reads what was stored.
	Load() error
	// Admitted notes what a pod was admitted with, unless it was granted something before. Unless it was started, what a
	// life that was admitted at another time was granted does not count.
	Admitted(pod *v1.Pod, at time.Time, started bool)
	// Allocated returns the pod with the resources it was allocated.
	Allocated(pod *v1.Pod) *v1.Pod
	// Known returns the pods that were granted something.
	Known() []types.UID
	Forget(uid types.UID) error
	// Retry decides about deferred resizes again; timed says that only time has passed.
	Retry(timed bool)
	// NextRetry returns when passing time alone is a reason to retry; zero if no resize is deferred.
	NextRetry() time.Time
}

// Admissions is what is on record of admissions; [recovery.Journal] has it.
type Admissions interface {
	// AdmittedAs returns the pod on record with the resources that it was admitted with, or nil if the pod, as its source
	// wants it, is in another life.
	AdmittedAs(wanted *v1.Pod) *v1.Pod
	// Life returns when the life on record was admitted, and whether a container was started in it.
	Life(uid types.UID) (admitted time.Time, started bool)
}

// ResizerOptions configures [NewResizer].
type ResizerOptions struct {
	Allocations Allocations
	Levels      CgroupLevels // nil if there are none
	Reserve     bool         // what pods request of memory is protected (spec/runtime.md 13.6)
	// Active returns the pods that have resources of this node.
	Active func() []*v1.Pod
	// Records returns what is on record of admissions.
	Records func() Admissions
	// Orphaned reports whether no source wants or may want the UID, and no worker knows it.
	Orphaned func(uid types.UID) bool
	Clock    clock.WithTicker
	Logger   logr.Logger
}

// Resizer looks after resources that change while pods run (spec/runtime.md 21): it retries
// deferred resizes when something has changed, and after some time. While no resize is deferred, it
// is idle.
type Resizer struct {
	options ResizerOptions
	changed chan struct{}
}

// NewResizer returns a resizer.
func NewResizer(options ResizerOptions) *Resizer {
	return &Resizer{options: options, changed: make(chan struct{}, 1)}
}

// Allocatable returns what pods may request together: the machine's CPU and memory, unless set says
// otherwise. If machine is nil, this machine is examined.
func Allocatable(machine *pods.Machine, set v1.ResourceList) v1.ResourceList {
	if machine == nil {
		examined := pods.ExamineMachine()
		machine = &examined
	}
	out := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(goruntime.NumCPU()), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(machine.MemoryCapacity, resource.BinarySI),
	}
	for size, bytes := range machine.HugePages {
		name := v1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String()
		out[v1.ResourceName(name)] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	maps.Copy(out, set)
	return out
}

// Prepare reads what was stored and creates the cgroups that contain all pods.
func (r *Resizer) Prepare() error {
	if err := r.options.Allocations.Load(); err != nil {
		return err
	}
	if r.options.Levels == nil {
		return nil
	}
	if err := r.options.Levels.Setup(); err != nil {
		return fmt.Errorf("cgroups of pods: %w", err)
	}
	if levels, ok := r.options.Levels.(CgroupReservations); ok && !r.options.Reserve {
		r.report(levels.SetReservations(0, 0)) // an earlier agent may have set them
	}
	return nil
}

// Grants are the allocations as the syncer uses them: what one pod is granted may change what
// others get.
type Grants struct {
	*pods.Allocations
	Resizer *Resizer
}

// Allocate decides what the pod gets of what it asks for.
func (g Grants) Allocate(pod *v1.Pod) (*v1.Pod, bool, error) {
	retry := g.NextRetry()
	allocated, changed, err := g.Allocations.Allocate(pod)
	if changed && err == nil || !g.NextRetry().Equal(retry) { // Run waits for the time that it knows of
		g.Resizer.Changed()
	}
	return allocated, changed, err
}

// Admitted notes what an admitted pod asks for: that is its own, and a later change is a resize. A pod that an
// earlier agent admitted was admitted as that agent knew it. What is stored may be of an earlier life that ended when the
// earlier agent did.
func (r *Resizer) Admitted(pod *v1.Pod) {
	records := r.options.Records()
	if known := records.AdmittedAs(pod); known != nil {
		pod = known
	}
	at, started := records.Life(pod.UID)
	r.options.Allocations.Admitted(pod, at, started)
}

// Changed says that something has changed. It does not block.
func (r *Resizer) Changed() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// PodChanged says that a pod has changed, for example because its first container started: the
// weight of all pods together may be different now.
func (r *Resizer) PodChanged() {
	if r.options.Levels != nil {
		r.Changed()
	}
}

// Run decides until ctx ends.
func (r *Resizer) Run(ctx context.Context) error {
	for {
		due, stop := timing.Alarm(r.options.Clock, r.options.Allocations.NextRetry())
		timed := false
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-r.changed:
		case <-due:
			timed = true
		}
		stop()
		for _, uid := range r.options.Allocations.Known() {
			if r.options.Orphaned(uid) {
				r.report(r.options.Allocations.Forget(uid))
			}
		}
		if r.options.Levels != nil {
			r.report(r.setLevels())
		}
		r.options.Allocations.Retry(timed)
	}
}

// setLevels gives the levels what the cgroups of the pods add up to: a resize that waits or was refused weighs nothing.
func (r *Resizer) setLevels() error {
	active := slices.Clone(r.options.Active())
	for i, pod := range active {
		active[i] = r.options.Allocations.Allocated(pod)
	}
	err := r.options.Levels.SetBurstableShares(pods.BurstableShares(active))
	if levels, ok := r.options.Levels.(CgroupReservations); ok && r.options.Reserve {
		err = errors.Join(err, levels.SetReservations(requested(active, v1.PodQOSGuaranteed), requested(active, v1.PodQOSBurstable)))
	}
	return err
}

// requested is the memory that the pods of a class request together.
func requested(list []*v1.Pod, class v1.PodQOSClass) (sum int64) {
	for _, pod := range list {
		if podinfo.QoS(pod) == class {
			wanted := podinfo.Request(pod, v1.ResourceMemory)
			// Bounded, so that no sum of requests can wrap around.
			sum += min(max(wanted.Value(), 0), 1<<50)
		}
	}
	return sum
}

func (r *Resizer) report(err error) {
	if err != nil {
		r.options.Logger.Error(err, "resources of pods")
	}
}
