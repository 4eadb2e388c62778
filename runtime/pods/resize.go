package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
	"github.com/podwright/podwright/runtime/pods/internal/resize"
)

// given returns what a container was last given: what is remembered, otherwise what the
// runtime reports if it means the same as what is wanted, otherwise nothing
// (spec/runtime.md 21.2).
func (m *Manager) given(actuated map[string]runtime.Resources, record *runtime.ContainerStatus, want runtime.Resources) runtime.Resources {
	have, known := actuated[record.Name]
	if !known && resize.Reported(want, record.Resources) {
		return want
	}
	return have
}

// resizes says what is to be done to the running containers of an allocated pod. Nil: nothing.
func (m *Manager) resizes(pod *v1.Pod, status *runtime.PodStatus) map[runtime.ContainerID]actions.Resize {
	out := m.needed(pod, status)
	if m.options.Updater == nil {
		maps.DeleteFunc(out, func(_ runtime.ContainerID, r actions.Resize) bool { return r == actions.ResizeInPlace })
	}
	return out
}

// needed says what the running containers of an allocated pod need (spec/runtime.md 21.3, 21.5), whether it can be
// done or not. Nil: nothing.
func (m *Manager) needed(pod *v1.Pod, status *runtime.PodStatus) map[runtime.ContainerID]actions.Resize {
	if m.options.Allocations == nil || status == nil {
		return nil
	}
	actuated := m.options.Allocations.Actuated(pod.UID)
	var out map[runtime.ContainerID]actions.Resize
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			record := status.Container(c.Name)
			if record == nil || record.State != runtime.Running {
				continue
			}
			want := resize.Wanted(pod, c)
			action := resize.Decide(c, want, m.given(actuated, record, want))
			if action == resize.None {
				continue
			}
			if out == nil {
				out = map[runtime.ContainerID]actions.Resize{}
			}
			out[record.ID] = actions.ResizeInPlace
			if action == resize.Restart {
				out[record.ID] = actions.ResizeRestart
			}
		}
	}
	return out
}

// podResized reports whether what the pod as a whole was given differs from what it was
// allocated (spec/runtime.md 21.10).
func (m *Manager) podResized(pod *v1.Pod) bool {
	if m.options.Allocations == nil {
		return false
	}
	given := m.options.Allocations.givenPod(pod.UID)
	return given != nil && *given != criconfig.PodTotals(pod)
}

// noteActuated remembers what a container is about to be created with (spec/runtime.md
// 21.2). Ephemeral containers are never resized.
func (m *Manager) noteActuated(pod *v1.Pod, c member) error {
	if m.options.Allocations == nil || c.kind == meta.Ephemeral {
		return nil
	}
	return m.options.Allocations.setActuated(pod.UID, c.spec.Name, resize.Wanted(pod, c.spec))
}

// resize changes running containers and the pod's own limits (spec/runtime.md 7,
// step 9; 21.6-21.8). After a failure the next sync continues.
func (s *podSync) resize(ctx context.Context) {
	a := s.m.options.Allocations
	if a == nil || len(s.plan.ResizeInit)+len(s.plan.ResizeApp) == 0 && !s.plan.ResizePod {
		return
	}
	if err := ctx.Err(); err != nil {
		s.stopped(err)
		return
	}
	s.result.Acted = true
	r := &resizing{m: s.m, pod: s.pod, sandboxID: s.sandboxID, ids: map[string]string{}}
	actuated := a.Actuated(s.pod.UID)
	add := func(c member) {
		record := s.status.Container(c.spec.Name)
		r.ids[c.spec.Name] = record.ID.ID
		want := resize.Wanted(s.pod, c.spec)
		r.changes = append(r.changes, resize.Change{Name: c.spec.Name, Have: s.m.given(actuated, record, want), Want: want})
	}
	for _, i := range s.plan.ResizeInit {
		add(initMember(s.pod, i))
	}
	for _, i := range s.plan.ResizeApp {
		add(appMember(s.pod, i))
	}
	r.exclusive = s.lifted
	var err error
	if !r.exclusive {
		r.exclusive, err = s.m.hasExclusiveCPUs(ctx, s.pod, s.status)
	}
	if err == nil {
		err = r.run(ctx)
	}
	if err == nil {
		s.done(stepResizePod, s.pod.Name, "", "")
		return
	}
	if ctx.Err() != nil {
		s.stopped(ctx.Err())
		return
	}
	s.fail(stepResizePod, s.pod.Name, reasonResizePodInPlaceError, errors.Join(err, a.failed(s.pod, err)))
}

// errNoUpdater is why a resize is never completed that restarts no container.
var errNoUpdater = errors.New("the runtime cannot change the resources of running containers")

// finishResize ends a resize once every running container has what it was allocated
// (spec/runtime.md 21.9), whatever keeps another one from starting.
func (s *podSync) finishResize() {
	a := s.m.options.Allocations
	if a == nil || !a.inProgress(s.pod.UID) {
		return
	}
	if s.m.podResized(s.pod) || len(s.m.resizes(s.pod, s.status)) > 0 {
		return
	}
	if len(s.m.needed(s.pod, s.status)) > 0 {
		s.fail(stepResizePod, s.pod.Name, reasonResizePodInPlaceError, errors.Join(errNoUpdater, a.failed(s.pod, errNoUpdater)))
		return
	}
	if err := a.completed(s.pod); err != nil {
		s.fail(stepResizePod, s.pod.Name, reasonResizePodInPlaceError, err)
		return
	}
	s.result.Acted = true // the pod is looked at again
}

// resizing is one change of a running pod.
type resizing struct {
	m         *Manager
	pod       *v1.Pod
	sandboxID string
	changes   []resize.Change
	ids       map[string]string // by container name
	// exclusive is true if a container of the pod has CPUs of its own: the pod as a whole then has no quota (26.1).
	exclusive bool
}

// limits are those of the pod's cgroup, as they are and as they should be, nil if it has none of its own.
func (r *resizing) limits(settings *runtimeapi.LinuxContainerResources) (have, want *resize.Limits, err error) {
	if r.m.options.Cgroups == nil {
		return nil, nil, nil
	}
	now, err := r.m.options.Cgroups.Resources(podCgroup(r.pod))
	if err != nil {
		return nil, nil, err
	}
	have = &resize.Limits{Shares: now.CPUShares, Quota: quotaFor(now, settings.GetCpuPeriod()), Memory: now.MemoryLimit}
	want = &resize.Limits{Shares: settings.GetCpuShares(), Quota: settings.GetCpuQuota(), Memory: settings.GetMemoryLimitInBytes()}
	if r.exclusive {
		want.Quota = -1
	}
	return have, want, nil
}

// run checks, then takes the steps in order; the first error ends it.
func (r *resizing) run(ctx context.Context) error {
	m := r.m
	settings := criconfig.PodCgroup(r.pod, m.node)
	have, want, err := r.limits(settings)
	if err != nil {
		return err
	}
	if err := r.checkMemory(ctx, have, want); err != nil {
		return err
	}
	if r.exclusive && have != nil && have.Quota > 0 {
		if err := m.liftPodQuota(r.pod); err != nil {
			return err
		}
	}
	totals := criconfig.PodTotals(r.pod)
	before := m.options.Allocations.givenPod(r.pod.UID)
	r.tellSandbox(ctx, totals)
	for _, step := range resize.Steps(r.changes, have, want) {
		if step.Container != "" {
			if err := r.update(ctx, step); err != nil {
				return err
			}
			continue
		}
		limits := CgroupResources{CPUShares: step.Pod.Shares, MemoryLimit: step.Pod.Memory, CPUQuota: step.Pod.Quota}
		if limits.CPUQuota != 0 {
			limits.CPUPeriod = settings.GetCpuPeriod()
		}
		if err := m.options.Cgroups.SetResources(podCgroup(r.pod), limits); err != nil {
			if before != nil {
				r.tellSandbox(ctx, *before) // the resize did not happen (21.8)
			}
			return err
		}
	}
	if m.options.Cgroups != nil && len(settings.GetUnified()) > 0 {
		if err := m.options.Cgroups.SetResources(podCgroup(r.pod), CgroupResources{Unified: settings.GetUnified()}); err != nil {
			return err
		}
	}
	return m.options.Allocations.setGivenPod(r.pod.UID, totals)
}

// quotaFor returns the quota as it would be for another period.
func quotaFor(now CgroupResources, period int64) int64 {
	if now.CPUQuota <= 0 || now.CPUPeriod <= 0 || period <= 0 {
		return now.CPUQuota
	}
	return now.CPUQuota * period / now.CPUPeriod
}

// unthrottled is memory.high without a limit (13.6), math.MaxInt64: the kernel takes it for "max", a word that a
// runtime need not know.
const unthrottled = "9223372036854775807"

// update changes one container and remembers it.
func (r *resizing) update(ctx context.Context, step resize.Step) error {
	m := r.m
	c, _ := memberNamed(r.pod, step.Container)
	linux := criconfig.LinuxResources(step.Resources, m.node)
	full := criconfig.ContainerResources(r.pod, c.spec, m.node)
	linux.Unified = full.GetUnified()
	if _, throttled := linux.Unified["memory.high"]; !throttled && linux.Unified != nil && m.node.MemoryFactor > 0 {
		linux.Unified["memory.high"] = unthrottled // a key that is left out keeps its value
	}
	if full.GetMemorySwapLimitInBytes() > 0 {
		linux.MemorySwapLimitInBytes = linux.MemoryLimitInBytes // 13.5
	}
	granted, err := m.granted(ctx, r.pod, c.spec)
	if err != nil {
		return fmt.Errorf("container %s: %w", step.Container, err)
	}
	granted.bind(linux) // it may have been created before it was given any
	if err := m.options.Updater.UpdateContainerResources(ctx, r.ids[step.Container], &runtimeapi.ContainerResources{Linux: linux}); err != nil {
		return fmt.Errorf("update container %s: %w", step.Container, err)
	}
	return m.options.Allocations.setActuated(r.pod.UID, step.Container, step.Resources)
}

// tellSandbox tells the runtime what the pod as a whole may use, and apart from that its overhead.
// A failure has no consequence (spec/runtime.md 21.8).
func (r *resizing) tellSandbox(ctx context.Context, totals runtime.Resources) {
	m := r.m
	if m.options.Updater == nil {
		return
	}
	overhead := resize.Overhead(r.pod)
	request := &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: r.sandboxID,
		Resources:    criconfig.LinuxResources(resize.Without(totals, overhead), m.node),
		Overhead:     criconfig.LinuxResources(overhead, m.node),
	}
	if r.exclusive && m.node.CPUQuota {
		request.Resources.CpuQuota = -1
	}
	_, err := m.options.Updater.UpdatePodSandboxResources(ctx, request)
	if err != nil && cri.Class(err) != runtime.ErrUnimplemented {
		m.options.Logger.Info("The runtime did not accept the resources of a pod", "podUID", r.pod.UID, "error", err.Error())
	}
}

// checkMemory refuses to lower a limit below what is in use: the kernel would kill
// something otherwise (spec/runtime.md 21.7).
func (r *resizing) checkMemory(ctx context.Context, have, want *resize.Limits) error {
	m := r.m
	if want != nil && want.Memory > 0 && (have.Memory <= 0 || want.Memory < have.Memory) {
		usage, err := m.options.Cgroups.MemoryUsage(podCgroup(r.pod))
		if err != nil {
			return err
		}
		if usage >= want.Memory {
			return fmt.Errorf("the pod uses %d bytes of memory, its new limit is %d", usage, want.Memory)
		}
	}
	if m.options.Stats == nil {
		return nil
	}
	for _, c := range r.changes {
		if c.Want.MemoryLimit == 0 || c.Have.MemoryLimit > 0 && c.Want.MemoryLimit >= c.Have.MemoryLimit {
			continue
		}
		stats, err := m.options.Stats.ContainerStats(ctx, r.ids[c.Name])
		if err != nil && cri.Class(err) == runtime.ErrUnimplemented {
			return nil
		}
		if err != nil {
			return fmt.Errorf("memory of container %s: %w", c.Name, err)
		}
		usage := stats.GetMemory().GetUsageBytes().GetValue()
		if usage == 0 {
			usage = stats.GetMemory().GetWorkingSetBytes().GetValue()
		}
		if usage >= uint64(c.Want.MemoryLimit) {
			return fmt.Errorf("container %s uses %d bytes of memory, its new limit is %d", c.Name, usage, c.Want.MemoryLimit)
		}
	}
	return nil
}

// setActuated remembers what a container was given.
func (a *Allocations) setActuated(uid types.UID, name string, r runtime.Resources) error {
	if a.Actuated(uid)[name] == r {
		return nil // a missing record means zero
	}
	return a.save(uid, func(rec *record) {
		next := make(map[string]runtime.Resources, len(rec.Actuated)+1)
		for n, old := range rec.Actuated {
			next[n] = old
		}
		next[name] = r
		rec.Actuated = next
	})
}

// givenPod returns what the pod as a whole was given, nil if unknown.
func (a *Allocations) givenPod(uid types.UID) *runtime.Resources {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pods[uid]; p != nil {
		return p.record.Pod
	}
	return nil
}

// setGivenPod stores what the pod as a whole was given.
func (a *Allocations) setGivenPod(uid types.UID, totals runtime.Resources) error {
	if given := a.givenPod(uid); given != nil && *given == totals {
		return nil
	}
	return a.save(uid, func(r *record) { r.Pod = &totals })
}

// noteGivenPod remembers it; it is stored with the next container's record.
func (a *Allocations) noteGivenPod(uid types.UID, totals runtime.Resources) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pods[uid]; p != nil {
		p.record.Pod = &totals
	}
}
