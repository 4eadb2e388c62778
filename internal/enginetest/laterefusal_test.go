package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/admission"
)

// slots makes the volumes called "disk" for a limited number of pods. It refuses further pods in
// the middle of their setup, like a node that cannot attach more disks.
type slots struct {
	mu    sync.Mutex
	room  int
	taken map[types.UID]bool
	asked map[types.UID]int
}

func newSlots(room int) *slots {
	return &slots{room: room, taken: map[types.UID]bool{}, asked: map[types.UID]int{}}
}

func (s *slots) Handles(_ *v1.Pod, v *v1.Volume) bool { return v.Name == "disk" }

func (s *slots) SetUp(_ context.Context, pod *v1.Pod, _ *v1.Volume) (pods.MountedVolume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[pod.UID]++
	if !s.taken[pod.UID] && len(s.taken) >= s.room {
		refusal := &admission.Refusal{Verdict: admission.Refuse("VolumeAttachmentLimitExceeded", "%d disks are attached already", s.room)}
		return pods.MountedVolume{}, fmt.Errorf("attach: %w", refusal)
	}
	s.taken[pod.UID] = true
	return pods.MountedVolume{HostPath: "/disks/" + string(pod.UID)}, nil
}

func (s *slots) TearDown(_ context.Context, uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, uid)
	return nil
}

func (s *slots) Mounted(_ context.Context, uid types.UID) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[uid] {
		return []string{"disk"}, nil
	}
	return nil, nil
}

// setTimes returns the number of attempts to set up a pod's volumes.
func (s *slots) setTimes(uid types.UID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[uid]
}

// withDisk returns a pod whose container "data" needs a disk; "first" needs none.
func withDisk(name string) *v1.Pod {
	p := newPod(name, "first", "data")
	p.Spec.Volumes = []v1.Volume{{Name: "disk", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "disks.example"}}}}
	p.Spec.Containers[1].VolumeMounts = []v1.VolumeMount{{Name: "disk", MountPath: "/data"}}
	return p
}

// lateRefusals returns how many late refusals the metrics count.
func lateRefusals(c *counters) int64 {
	return c.get("kubelet_admission_rejections_total", "reason=VolumeAttachmentLimitExceeded")
}

// refusedLate waits until the pod has been refused in its setup and none of its containers runs.
func (r *rig) refusedLate(pod *v1.Pod) {
	r.t.Helper()
	r.phase(pod.UID, v1.PodFailed, 10*time.Second)
	s := r.pod(pod.UID).Status
	if s.Reason != "VolumeAttachmentLimitExceeded" || s.Message != "Pod was rejected: 1 disks are attached already" {
		r.t.Errorf("%s: reason %q, message %q", pod.Name, s.Reason, s.Message)
	}
	r.within(30*time.Second, pod.Name+" stopped", func() error {
		if n := r.runtime.Running(pod.UID, "first") + r.runtime.Running(pod.UID, "data"); n != 0 {
			return fmt.Errorf("%d containers run, %s", n, r.explain(pod.UID))
		}
		return nil
	})
}

// TestLateRefusalEndsThePod: AD8. A pod that is refused in the middle of its setup fails with the
// reason, an event and a count, as on arrival (AD3); what already runs of it is stopped, and no
// agent sets it up again. Other pods continue to run, and when the pod is gone, its successor gets
// the room that it asked for.
func TestLateRefusalEndsThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root, disks, counted := fake.New(fake.Options{}), t.TempDir(), newSlots(1), &counters{}
		configure := func(c *podwright.Config) { c.Pods.Volumes, c.Observe.MeterProvider = disks, counted }
		holder, late := withDisk("holder"), withDisk("late")
		r := newRig(t, rt, root, configure).start()
		r.set(holder)
		r.phase(holder.UID, v1.PodRunning, 10*time.Second)
		r.set(holder, late)
		r.refusedLate(late)
		<-time.After(5 * time.Minute) // re-syncs and housekeeping change nothing
		if asked, began := disks.setTimes(late.UID), rt.Facts(late.UID, "first").Started; asked != 1 || began > 1 || rt.Facts(late.UID, "data").Created != 0 {
			t.Errorf("its disk was asked for %d times, its first container started %d times", asked, began)
		}
		if said := r.events.said("late VolumeAttachmentLimitExceeded"); len(said) != 1 || said[0] != "1 disks are attached already" {
			t.Errorf("events %q", said)
		}
		if n := lateRefusals(counted); n != 1 {
			t.Errorf("counted %d times", n)
		}
		if e, _ := r.engine.Explain(late.UID); e.Reason != "VolumeAttachmentLimitExceeded" {
			t.Errorf("explained as %+v", e)
		}
		if phases, _ := r.sink.of(late.UID); phases[len(phases)-1] != v1.PodFailed {
			t.Errorf("sinks were told %v", phases)
		}
		r.stop()

		again := newRig(t, rt, root, configure).start()
		again.set(holder, late)
		again.refusedLate(late)
		<-time.After(5 * time.Minute)
		if disks.setTimes(late.UID) != 1 || again.events.count("late VolumeAttachmentLimitExceeded") != 0 || lateRefusals(counted) != 1 {
			t.Errorf("the next agent set it up again: %d", disks.setTimes(late.UID))
		}
		if starts(rt, holder.UID) != 2 || rt.Running(holder.UID, "data") != 1 {
			t.Errorf("holder: %d starts of two containers", starts(rt, holder.UID))
		}

		again.set()
		again.within(time.Minute, "both gone", func() error {
			if again.pod(holder.UID) != nil || again.pod(late.UID) != nil {
				return errors.New("still known")
			}
			return nil
		})
		next := withDisk("next")
		again.set(next)
		again.phase(next.UID, v1.PodRunning, time.Minute)
	})
}

// TestLateRefusalSurvivesAgent: AD8. If an agent cannot stop what it began of a pod that was
// refused late, the next agent does. A running pod that is refused when its container restarts ends
// as well.
func TestLateRefusalSurvivesAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root, disks := fake.New(fake.Options{}), t.TempDir(), newSlots(1)
		configure := func(c *podwright.Config) { c.Pods.Volumes = disks }
		pod := withDisk("late")
		r := newRig(t, rt, root, configure).start()
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, 10*time.Second)
		busy := fake.Effect{Err: errors.New("shim is busy")}
		heal := rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: busy}, fake.Fault{Match: fake.Match{Method: fake.StopPodSandbox}, Effect: busy})
		disks.mu.Lock()
		delete(disks.taken, pod.UID) // another pod got it
		disks.taken["other"] = true
		disks.mu.Unlock()
		if err := rt.Exit(pod.UID, "data", fake.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		r.phase(pod.UID, v1.PodFailed, 10*time.Second)
		<-time.After(time.Minute)
		if rt.Running(pod.UID, "first") != 1 {
			t.Fatal("the test means a container that cannot be stopped")
		}
		r.stop()
		heal()
		again := newRig(t, rt, root, configure).start()
		again.set(pod)
		again.refusedLate(pod)
		if n := again.events.count("late VolumeAttachmentLimitExceeded"); n != 0 || starts(rt, pod.UID) != 2 {
			t.Errorf("%d events, %d starts", n, starts(rt, pod.UID))
		}
	})
}
