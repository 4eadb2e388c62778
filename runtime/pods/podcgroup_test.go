package pods_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// 3.3: the sandbox is put below the pod's cgroup, which exists by then; without
// cgroups for pods the parent is empty.
func TestCgroupParent(t *testing.T) {
	for _, with := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newResizeWorld(t, with)
			w.to(apps("1 1000"))
			request := w.fake.Calls(fake.Match{Method: fake.RunPodSandbox})[0].Request.(*runtimeapi.RunPodSandboxRequest)
			want := ""
			if with {
				want = "/kubepods/burstable/poduid-1"
			}
			if got := request.GetConfig().GetLinux().GetCgroupParent(); got != want {
				t.Errorf("3.3: parent %q, want %q", got, want)
			}
			if _, made := w.cgroups.set["uid-1"]; made != with {
				t.Errorf("3.3: the cgroup was made: %v", made)
			}
			if err := w.m.DestroyCgroup(t.Context(), "uid-1"); err != nil || len(w.cgroups.set) > 0 {
				t.Errorf("%v, left %v", err, w.cgroups.set)
			}
		})
	}
}

// 7.2: containers whose pod's cgroup is missing are killed once, and run in a new one;
// a run-once pod gets no new one.
func TestCgroupMissing(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyNever} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newResizeWorld(t, true)
				pod := apps("1 1000", "1 1000")
				pod.Spec.RestartPolicy = policy
				w.to(pod)
				w.wantState(pod, "a:running b:running")
				delete(w.cgroups.set, pod.UID)
				r := w.sync(pod)
				if !r.Acted || !r.Again || r.Err != nil {
					t.Errorf("7.2: %+v", r)
				}
				w.wantState(pod, "a:exited b:exited")
				_, exists := w.cgroups.set[pod.UID]
				if exists != (policy == v1.RestartPolicyAlways) {
					t.Errorf("7.2: the cgroup exists: %v", exists)
				}
				if policy == v1.RestartPolicyNever {
					return
				}
				w.syncAll(pod)
				w.wantState(pod, "a:running b:running")
				if got := w.calls(fake.StopContainer); !slices.Equal(got, []string{"StopContainer a", "StopContainer b"}) && !slices.Equal(got, []string{"StopContainer b", "StopContainer a"}) {
					t.Errorf("7.2: killed once: %v", got)
				}
			})
		})
	}
}

// 7.2, 6.12: a job that ends with 0 when its pod is killed for the missing cgroup is not done: it runs in the new one. Its run is
// remembered before the kill, until a kill that fails has no reason any more. One that never runs twice is over.
func TestCgroupMissingReplacesJobs(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newResizeWorld(t, true)
			w.fake = fake.New(fake.Options{Script: func(fake.Launch) fake.Script { return fake.Script{OnTERM: fake.Exit{}} }})
			var asked *pods.AskedRestarts
			w.opts.Restarts = func(types.UID) *pods.AskedRestarts { return asked }
			w.opts.RecordRestarts = func(_ context.Context, _ types.UID, next *pods.AskedRestarts) { asked = next }
			w.restart()
			pod := apps("1 1000", "1 1000", "1 1000")
			pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			pod.Spec.Containers[2].RestartPolicy = new(v1.ContainerRestartPolicyNever)
			w.to(pod)
			set := w.cgroups.set[pod.UID]
			delete(w.cgroups.set, pod.UID)
			if fails {
				for _, method := range []fake.Method{fake.StopContainer, fake.StopPodSandbox} {
					defer w.fake.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: fake.Effect{Err: runtime.ErrUnavailable}})()
				}
				for range 2 {
					w.sync(pod)
					if asked == nil || len(asked.Own) != 2 {
						t.Fatal("6.12: want two runs remembered")
					}
				}
				w.cgroups.set[pod.UID] = set
				w.sync(pod)
				w.wantState(pod, "a:running b:running c:running")
				if asked != nil {
					t.Errorf("6.12: remembered %+v, of runs that go on", asked.Own)
				}
				return
			}
			w.syncAll(pod)
			w.wantState(pod, "a:running b:running c:exited")
		})
	}
}

// 13.4: no sandbox is made in a cgroup whose settings failed, or that an agent made and was killed before it set it. One in which the pod
// has run is set again, too, but not below what its volumes use.
func TestCgroupIsSetBeforeTheSandbox(t *testing.T) {
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newResizeWorld(t, true)
			pod := apps("1 1000")
			if killed {
				w.cgroups.set[pod.UID] = pods.CgroupResources{}
			} else {
				w.fail = "create pod"
				w.to(pod)
				w.wantState(pod, "a:none")
				if !w.events.has("Warning FailedCreatePodContainer") {
					t.Errorf("22.2: events %v", w.events.list())
				}
				w.fail = ""
			}
			w.to(pod)
			w.wantState(pod, "a:running")
			if got, want := w.changes(), "create pod shares 1024 quota 100000 memory 1000"; got != want {
				t.Errorf("13.4: killed %v: %q, want %q", killed, got, want)
			}
			for usage, want := range map[int64]string{999: "create pod shares 1024 quota 100000 memory 1000", 1000: "create pod shares 1024 quota 100000"} {
				w.cgroups.usage = usage
				pass(700 * second) // the run was long
				if err := w.fake.FailSandbox(w.read(pod).Sandboxes[0].ID); err != nil {
					t.Fatal(err)
				}
				w.to(pod)
				w.wantState(pod, "a:running")
				if got := w.changes(); got != want {
					t.Errorf("21.7: %q with %d bytes in use, want %q", got, usage, want)
				}
			}
			pass(600 * second)
			other := pod.DeepCopy()
			other.Spec.HostNetwork = true
			w.to(other)
			w.wantState(pod, "a:running")
			if got := w.changes(); got != "" {
				t.Errorf("13.4: %q under containers that run", got)
			}
		})
	}
}

// spec/status.md 6.7: what a pod as a whole runs with is what its cgroup is set to, less the
// overhead. A weight of cgroup v2 is too coarse to differ from the request it was made of.
func TestPodResourcesOfTheCgroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, true)
		pod := apps("1 1000")
		if got := w.m.PodResources(pod); got != (runtime.Resources{}) {
			t.Errorf("no pod-level resources: %+v", got)
		}
		pod.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("24")}
		pod.Spec.Resources = &v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")},
			Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("4096")},
		}
		w.to(pod)
		want := runtime.Resources{MilliCPURequest: 100, MilliCPULimit: 500, MemoryLimit: 4096}
		if got := w.m.PodResources(pod); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		set := w.cgroups.set[pod.UID]
		set.CPUShares -= 26
		w.cgroups.set[pod.UID] = set
		if got := w.m.PodResources(pod); got != want {
			t.Errorf("as cgroup v2 reads it: %+v, want %+v", got, want)
		}
		set.CPUQuota, set.CPUShares = set.CPUQuota+set.CPUPeriod, 1024
		w.cgroups.set[pod.UID] = set
		want.MilliCPURequest, want.MilliCPULimit = 750, 1500
		if got := w.m.PodResources(pod); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		w.opts.Cgroups = brokenCgroups{&memoryCgroups{w: w, set: map[types.UID]pods.CgroupResources{}}}
		w.restart()
		if got := w.m.PodResources(pod); got.MilliCPURequest != 0 {
			t.Errorf("without a cgroup: %+v", got)
		}
	})
}

// brokenCgroups cannot tell or make anything.
type brokenCgroups struct{ *memoryCgroups }

func (brokenCgroups) Exists(pods.PodCgroup) (bool, error) { return false, errors.New("broken") }

// 7.2: while it is unknown whether there is a cgroup, nothing is started and nothing is
// killed.
func TestCgroupUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, true)
		w.to(apps("1 1000"))
		w.opts.Cgroups = brokenCgroups{w.cgroups}
		w.restart()
		r := w.sync(apps("1 1000"))
		if r.Err == nil || !strings.Contains(r.Err.Error(), "broken") || !w.events.has("Warning FailedCreatePodContainer") {
			t.Errorf("%+v, events %v", r, w.events.list())
		}
		w.wantState(apps("1 1000"), "a:running")
	})
}

// A UID with a slash or dots reaches neither the cgroups nor the store of resources.
func TestResizeUID(t *testing.T) {
	for _, uid := range []types.UID{"../x", "a/b", "..", ""} {
		synctest.Test(t, func(t *testing.T) {
			w := newResizeWorld(t, true)
			pod := apps("1 1000")
			pod.UID = uid
			if r := w.m.SyncPod(t.Context(), pod, &runtime.PodStatus{UID: uid}); r.Err == nil {
				t.Errorf("UID %q was taken", uid)
			}
			if len(w.cgroups.set) > 0 {
				t.Errorf("UID %q has a cgroup", uid)
			}
		})
	}
}

func TestBurstableShares(t *testing.T) {
	guaranteed := apps("2 1000")
	guaranteed.Spec.Containers[0].Resources.Requests = nil
	burstable := apps("1 1000", "500m 1000")
	if got := pods.BurstableShares([]*v1.Pod{guaranteed, burstable, burstable, newPod()}); got != 3072 {
		t.Errorf("%d shares, want 3072", got)
	}
	if got := pods.BurstableShares(nil); got != 2 {
		t.Errorf("%d shares without pods, want 2", got)
	}
}
