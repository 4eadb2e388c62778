package pods

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
)

func podCgroup(pod *v1.Pod) PodCgroup {
	return PodCgroup{UID: pod.UID, Class: podinfo.QoS(pod)}
}

// cgroupResources is what a pod's cgroup is set to (spec/runtime.md 13.4).
func cgroupResources(r *runtimeapi.LinuxContainerResources) CgroupResources {
	out := CgroupResources{CPUShares: r.GetCpuShares(), MemoryLimit: r.GetMemoryLimitInBytes(), Unified: r.GetUnified()}
	for _, l := range r.GetHugepageLimits() {
		if out.HugePages == nil {
			out.HugePages = map[string]int64{}
		}
		out.HugePages[l.GetPageSize()] = int64(min(l.GetLimit(), math.MaxInt64))
	}
	if r.GetCpuQuota() != 0 {
		out.CPUQuota, out.CPUPeriod = r.GetCpuQuota(), r.GetCpuPeriod()
	}
	return out
}

// sharesStep is just above the number of CPU shares in one step of a cgroup v2 weight:
// 262142 shares are 9999 steps.
const sharesStep = 28

// PodResources returns what the cgroup of a pod with pod-level resources is set to, less
// the pod's overhead, for its status (spec/status.md 6.7). It is zero for a pod without
// such resources or without a cgroup of its own, and if the cgroup cannot be read. It reads
// a few small files.
func (m *Manager) PodResources(pod *v1.Pod) runtime.Resources {
	if m.options.Cgroups == nil || pod.Spec.Resources == nil {
		return runtime.Resources{}
	}
	now, err := m.options.Cgroups.Resources(podCgroup(pod))
	if err != nil {
		return runtime.Resources{} // it is not made yet, or gone
	}
	// A cgroup v2 keeps a coarser weight, which reads as a little less.
	if wanted := criconfig.PodCgroup(pod, m.node).GetCpuShares(); now.CPUShares > 0 && now.CPUShares <= wanted && wanted-now.CPUShares < sharesStep {
		now.CPUShares = wanted
	}
	out := cri.NewResources(&runtimeapi.LinuxContainerResources{
		CpuShares: now.CPUShares, CpuQuota: now.CPUQuota, CpuPeriod: now.CPUPeriod, MemoryLimitInBytes: now.MemoryLimit,
	})
	cpu, memory := pod.Spec.Overhead.Cpu().MilliValue(), pod.Spec.Overhead.Memory().Value()
	out.MilliCPURequest = max(out.MilliCPURequest-cpu, 0)
	out.MilliCPULimit = max(out.MilliCPULimit-cpu, 0)
	out.MemoryLimit = max(out.MemoryLimit-memory, 0)
	return out
}

// foundCgroup is what was found of a pod's cgroup.
type foundCgroup struct {
	// exists is true without [Options.Cgroups], too: there is nothing to make.
	exists bool
	err    error
}

// missing reports whether it is known that there is none.
func (c foundCgroup) missing() bool { return !c.exists && c.err == nil }

func (m *Manager) lookForCgroup(pod *v1.Pod) foundCgroup {
	if m.options.Cgroups == nil {
		return foundCgroup{exists: true}
	}
	exists, err := m.options.Cgroups.Exists(podCgroup(pod))
	return foundCgroup{exists: exists && err == nil, err: err}
}

// ensureCgroup makes and sets the pod's cgroup before anything is put into it. One that
// exists is set again before a sandbox is made: its settings may have failed, or the agent
// that made it was killed before it set them (spec/runtime.md 13.4). If it is missing while
// containers run, they are outside of it and are killed, once (7.2); the plan has those among
// them that are to be replaced, however they end. False ends the sync.
func (s *podSync) ensureCgroup(ctx context.Context, found foundCgroup) bool {
	m := s.m
	if m.options.Cgroups == nil || s.plan.KillPod && !s.plan.CreateSandbox {
		return true
	}
	pod := podCgroup(s.pod)
	if found.err != nil {
		s.cgroupFailed(found.err)
		return false
	}
	if found.exists && (!s.plan.CreateSandbox || s.anythingRuns()) {
		return true
	}
	killed := s.status.ContainersRunning()
	if killed {
		s.result.Acted, s.result.Again = true, true
		if err := m.kill(ctx, killOfStatus(s.pod, s.status), nil); err != nil {
			s.fail(stepKillPod, s.pod.Name, reasonKillPodSandboxError, fmt.Errorf("the pod's cgroup is missing: %w", err))
			return false
		}
		s.done(stepKillPod, s.pod.Name, "", "the pod's cgroup is missing")
		if s.pod.Spec.RestartPolicy == v1.RestartPolicyNever {
			return false // most likely nothing runs in it any more; what does comes with the next sync
		}
	}
	settings := cgroupResources(criconfig.PodCgroup(s.pod, m.node))
	if found.exists && m.usesMemory(pod, settings.MemoryLimit) {
		settings.MemoryLimit = 0 // what its volumes hold would not fit: the limit stays as it is (21.7)
	}
	if err := m.options.Cgroups.Create(pod, settings); err != nil {
		s.cgroupFailed(err)
		return false
	}
	return !killed // what the plan was made for is gone
}

// usesMemory reports whether a pod is known to use this much memory.
func (m *Manager) usesMemory(pod PodCgroup, limit int64) bool {
	if limit <= 0 {
		return false
	}
	usage, err := m.options.Cgroups.MemoryUsage(pod)
	return err == nil && usage >= limit
}

func (s *podSync) cgroupFailed(err error) {
	err = fmt.Errorf("the pod's cgroup: %w", err)
	s.fail(stepCreateSandbox, s.pod.Name, reasonCreatePodSandboxError, err)
	s.m.podEvent(s.pod, v1.EventTypeWarning, "FailedCreatePodContainer", "Unable to ensure the pod's cgroup: %v", err)
}

// DestroyCgroup removes the cgroup of a pod that has ended and kills what is left in
// it. Without [Options.Cgroups] it does nothing. It may be repeated.
func (m *Manager) DestroyCgroup(ctx context.Context, uid types.UID) error {
	if m.options.Cgroups == nil {
		return nil
	}
	if err := m.options.Cgroups.Destroy(ctx, uid); err != nil {
		return fmt.Errorf("remove the pod's cgroup: %w", err)
	}
	return nil
}

// BurstableShares returns the CPU shares of all Burstable pods in list together:
// what they request, and at least as much as one pod that requests nothing.
func BurstableShares(list []*v1.Pod) int64 {
	var milli int64
	for _, pod := range list {
		if podinfo.QoS(pod) == v1.PodQOSBurstable {
			// Bounded, so that no sum of requests can wrap around.
			milli += min(criconfig.PodTotals(pod).MilliCPURequest, 1<<32)
		}
	}
	return criconfig.Shares(milli)
}
