package recovery

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
)

// withRun prepares a memory with a pod "a" whose container runs as the returned ID.
func withRun(t *testing.T, d *disk) (*rig, *ProbeMemory, runtime.ContainerID) {
	r := newRig(t, d).keep()
	id := runtime.ContainerID{Runtime: "fake", ID: "1"}
	pod := newPod("a")
	r.journal.Desired(pod)
	r.journal.Changed(pod, &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
		Name: "main", ContainerID: id.String(), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}}, 1, false)
	return r, NewProbeMemory(r.journal), id
}

func TestProbeResultIsRecalledForTheSameRun(t *testing.T) { // probe.md 8.3, 8.6
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		_, m, id := withRun(t, d)
		other := runtime.ContainerID{Runtime: "fake", ID: "2"}
		if m.Recall("unknown", "main", id) != nil || m.Recall("a", "other", id) != nil || m.Recall("a", "main", other) != nil {
			t.Error("something is recalled that was never kept")
		}
		m.Remember("a", "main", id, probe.Startup, probe.Fact{Stored: probe.Success, Last: probe.Success, Run: 1, At: time.Now()}, true)
		m.Remember("a", "main", id, probe.Liveness, probe.Fact{Stored: probe.Success, Last: probe.Failure, Run: 2, At: time.Now()}, true)
		m.Remember("a", "main", other, probe.Readiness, probe.Fact{Stored: probe.Success}, true)
		pass(time.Minute)

		again := NewProbeMemory(newRig(t, d).keep().journal)
		got := again.Recall("a", "main", id)
		if got == nil || !got.Started || got.Facts[probe.Startup].Stored != probe.Success || got.Facts[probe.Liveness].Last != probe.Failure ||
			got.Facts[probe.Liveness].Run != 2 || !got.Facts[probe.Readiness].At.IsZero() {
			t.Errorf("recalled: %+v", got)
		}
		r := d.get("a").Clone()
		r.BootID = "boot-0"
		r.Containers[0].Ready = true
		next := newRig(t, newDisk(r)).keep()
		next.journal.Acknowledged("a", "sink", "a", 1)
		if got := NewProbeMemory(next.journal).Recall("a", "main", id); got == nil || *got != (probe.Record{}) {
			t.Errorf("a result from before a reboot counts: %+v", got)
		}
	})
}

func TestSuccessIsAnnouncedOnceItIsOnTheDisk(t *testing.T) { // probe.md 8.3
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		_, m, id := withRun(t, d)
		ready := probe.Announcement{UID: "a", ID: id, Kind: probe.Readiness, Result: probe.Success}
		m.Wait(t.Context(), ready) // nothing is unwritten
		pass(time.Minute)
		m.Remember("a", "main", id, probe.Readiness, probe.Fact{Stored: probe.Success}, true)
		if !m.ProbeUnwritten(probe.Readiness, id) || m.ProbeUnwritten(probe.Startup, id) {
			t.Error("the readiness is not on the disk, and nothing else is missing")
		}
		m.Wait(t.Context(), ready)
		c, _ := d.get("a").Container("main")
		if m.ProbeUnwritten(probe.Readiness, id) || c.Probes[probe.Readiness].Stored != probe.Success {
			t.Errorf("announced before it is on the disk: %+v", c)
		}
		m.Remember("a", "main", id, probe.Readiness, probe.Fact{Stored: probe.Failure}, true)
		if m.ProbeUnwritten(probe.Readiness, id) {
			t.Error("a failure waits for the disk")
		}
		m.Remember("a", "main", id, probe.Liveness, probe.Fact{Stored: probe.Success}, true)
		m.Remember("a", "main", id, probe.Startup, probe.Fact{Stored: probe.Success}, false)
		if m.ProbeUnwritten(probe.Liveness, id) || m.ProbeUnwritten(probe.Startup, id) {
			t.Error("what is not announced waits for the disk")
		}
		m.Remember("a", "main", id, probe.Startup, probe.Fact{Stored: probe.Success}, true)
		m.ForgetProbes("a")
		if m.ProbeUnwritten(probe.Startup, id) {
			t.Error("a pod that has stopped waits for the disk")
		}
	})
}

func TestDiskThatFailsHoldsUpNoAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		_, m, id := withRun(t, d)
		pass(time.Minute)
		d.fail(nil, errDisk)
		m.Remember("a", "main", id, probe.Startup, probe.Fact{Stored: probe.Success}, true)
		begin := time.Now()
		m.Wait(t.Context(), probe.Announcement{UID: "a", ID: id, Kind: probe.Startup, Result: probe.Success})
		if took := time.Since(begin); took > diskTimeout {
			t.Errorf("it waited %v", took)
		}
		if m.ProbeUnwritten(probe.Startup, id) {
			t.Error("it waits on")
		}
	})
}
