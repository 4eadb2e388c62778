package enginetest_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// TestStatusSaysWhatContainersRunWith: status.md 3.9, 6.6, 6.7: user, stop signal, depth of
// read-only mounts, resources of the container and of the pod, from what the runtime and the
// cgroup say.
func TestStatusSaysWhatContainersRunWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{
			Handlers: []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}}},
		})
		tree := &cgroupTree{pods: map[types.UID]pods.CgroupResources{}}
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.Cgroups = tree }).start()
		p := newPod("web")
		c := &p.Spec.Containers[0]
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		c.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data/", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyIfPossible)}}
		c.Lifecycle = &v1.Lifecycle{StopSignal: ptr.To(v1.SIGUSR1)}
		c.SecurityContext = &v1.SecurityContext{RunAsUser: ptr.To[int64](7), RunAsGroup: ptr.To[int64](8)}
		p.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}}
		r.set(p)
		r.phase(p.UID, v1.PodRunning, 10*time.Second)
		tree.locked(func() {
			set := tree.pods[p.UID]
			set.MemoryLimit = 32 << 20
			tree.pods[p.UID] = set
		})
		r.within(2*time.Minute, "the limit of the cgroup", func() error {
			if s := r.pod(p.UID).Status; s.Resources.Limits.Memory().Cmp(resource.MustParse("32Mi")) != 0 {
				return errors.New(s.Resources.String())
			}
			return nil
		})
		got := r.pod(p.UID).Status.ContainerStatuses[0]
		want := v1.ContainerStatus{
			User:       &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: 7, GID: 8}},
			StopSignal: ptr.To(v1.SIGUSR1),
			VolumeMounts: []v1.VolumeMountStatus{
				{Name: "data", MountPath: "/data/", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyEnabled)},
			},
			Resources: &v1.ResourceRequirements{},
		}
		got = v1.ContainerStatus{User: got.User, StopSignal: got.StopSignal, VolumeMounts: got.VolumeMounts, Resources: got.Resources}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	})
}

// TestObservedGenerationIsEverywhere: status.md 5.8, through the whole life of a pod: every
// reported status and the engine's conditions in it carry the generation of the spec to which they
// refer.
func TestObservedGenerationIsEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := false
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{Exec: func(fake.Exec) fake.ExecResult {
				if ready {
					return fake.ExecResult{}
				}
				return fake.ExecResult{Code: 1}
			}}
		}})
		r := newRig(t, rt, t.TempDir(), allocatable("4")).start()
		p := sized(newPod("web"), "100m", "64Mi")
		p.Generation, p.Spec.RestartPolicy = 3, v1.RestartPolicyNever
		p.Spec.Containers[0].ReadinessProbe = &v1.Probe{
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ready"}}}, PeriodSeconds: 1,
		}
		step := func(what string, generation int64, done func(s *v1.PodStatus) bool) {
			t.Helper()
			r.within(time.Minute, what, func() error {
				if got := r.pod(p.UID); got == nil || !done(&got.Status) {
					return errors.New("not yet")
				}
				return nil
			})
			s := r.pod(p.UID).Status
			if s.ObservedGeneration != generation {
				t.Errorf("%s: the status is of generation %d, want %d", what, s.ObservedGeneration, generation)
			}
			for _, c := range s.Conditions {
				if c.ObservedGeneration != generation {
					t.Errorf("%s: %s is of generation %d, want %d", what, c.Type, c.ObservedGeneration, generation)
				}
			}
		}
		isReady := func(s *v1.PodStatus) bool {
			return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].Ready
		}
		r.set(p)
		step("running", 3, func(s *v1.PodStatus) bool { return s.Phase == v1.PodRunning })
		ready = true
		step("ready", 3, isReady)
		p = sized(p, "200m", "64Mi")
		p.Generation = 4
		r.set(p)
		step("resized", 4, func(s *v1.PodStatus) bool { return s.ObservedGeneration == 4 && len(s.Conditions) == 5 })
		if err := rt.Exit(p.UID, "main", fake.Exit{}); err != nil {
			t.Fatal(err)
		}
		step("ended", 4, func(s *v1.PodStatus) bool { return s.Phase == v1.PodSucceeded })

		refused := newPod("refused")
		refused.Generation = 5
		refused.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "kernel.panic", Value: "1"}}}
		p = refused
		r.set(refused)
		step("refused", 5, func(s *v1.PodStatus) bool { return s.Phase == v1.PodFailed })
	})
}

// TestResizeIsObservedOnceItIsDecided: status.md 5.8, 7.6. A client that waits for a resize sees its generation once there is
// something to see, whatever probes say meanwhile, and a restart of the agent changes nothing about it.
func TestResizeIsObservedOnceItIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		rt, root := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{Exec: func(fake.Exec) fake.ExecResult {
				if failing.Load() {
					return fake.ExecResult{Code: 1}
				}
				return fake.ExecResult{}
			}}
		}}), t.TempDir()
		r := newRig(t, rt, root, allocatable("4")).start()
		p := sized(newPod("web"), "100m", "64Mi")
		p.Generation = 1
		p.Spec.Containers[0].ReadinessProbe = &v1.Probe{
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"ready"}}}, PeriodSeconds: 1, FailureThreshold: 1,
		}
		r.set(p)
		r.phase(p.UID, v1.PodRunning, 10*time.Second)
		shown := func(what string, want int64, isReady bool) {
			t.Helper()
			s := r.pod(p.UID).Status
			if s.ObservedGeneration != want || s.ContainerStatuses[0].Ready != isReady {
				t.Errorf("%s: generation %d, ready %t, want %d, %t", what, s.ObservedGeneration, s.ContainerStatuses[0].Ready, want, isReady)
			}
			for _, c := range s.Conditions {
				if c.ObservedGeneration != want {
					t.Errorf("%s: %s is of generation %d, want %d", what, c.Type, c.ObservedGeneration, want)
				}
			}
		}
		rt.SetConditions(true, false)
		<-time.After(time.Minute)
		shown("running", 1, true)
		p = sized(p, "200m", "64Mi")
		p.Generation = 2
		r.set(p)
		<-time.After(30 * time.Second)
		shown("without a network", 1, true)
		failing.Store(true)
		<-time.After(30 * time.Second)
		shown("not ready", 1, false)
		r.stop()
		r = newRig(t, rt, root, allocatable("4")).start()
		r.set(p)
		<-time.After(30 * time.Second)
		shown("the next agent", 1, false)
		if n := rt.CallCount(fake.UpdateContainerResources); n != 0 {
			t.Errorf("%d resizes", n)
		}
		rt.SetConditions(true, true)
		r.shows(p.UID, "200m", "64Mi")
		r.pending(p.UID, "")
		shown("with a network", 2, false)
	})
}
