package recovery

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status/checkpoint"
)

// hungDisk is a disk whose writes take this long, unless they are let go.
type hungDisk struct {
	*disk
	takes time.Duration
	goes  chan struct{}
}

func (d *hungDisk) Write(ctx context.Context, records []*checkpoint.Record) error {
	select {
	case <-d.goes:
	case <-time.After(d.takes):
	}
	return d.disk.Write(ctx, records)
}

// runningOn returns a journal that keeps its records on this disk.
func runningOn(t *testing.T, d *hungDisk) *Journal {
	t.Helper()
	j := NewJournal(JournalOptions{
		Checkpoints: checkpoint.Options{Store: d}, BootID: "boot-1", Clock: clock.RealClock{},
		Written: func(types.UID, *v1.Pod) {},
	})
	if _, err := j.keeper.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(j.loaded)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- j.keeper.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return j
}

// readyOn returns a function that lets the container of another pod become ready, with its record
// on this disk, and returns how long its announcement waited.
func readyOn(t *testing.T, d *hungDisk) (ready func() time.Duration) {
	t.Helper()
	j := runningOn(t, d)
	m := NewProbeMemory(j)
	pods := 0
	return func() time.Duration {
		pods++
		uid, id := types.UID(fmt.Sprint("p", pods)), runtime.ContainerID{Runtime: "fake", ID: fmt.Sprint(pods)}
		pod := newPod(uid)
		j.Desired(pod)
		j.Changed(pod, &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
			Name: "main", ContainerID: id.String(), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		}}}, 1, false)
		m.Remember(uid, "main", id, probe.Readiness, probe.Fact{Stored: probe.Success}, true)
		begin := time.Now()
		m.Wait(t.Context(), probe.Announcement{UID: uid, ID: id, Kind: probe.Readiness, Result: probe.Success})
		if m.ProbeUnwritten(probe.Readiness, id) {
			t.Errorf("%s waits on", uid)
		}
		return time.Since(begin)
	}
}

func TestHungDiskHoldsUpOneAnnouncement(t *testing.T) { // probe.md 6.4, IN1
	synctest.Test(t, func(t *testing.T) {
		d := &hungDisk{newDisk(), time.Hour, make(chan struct{})}
		ready := readyOn(t, d)
		var waited time.Duration
		for range 20 {
			waited += ready()
		}
		if waited > diskTimeout {
			t.Errorf("20 announcements waited %v", waited)
		}
		pass(waitAgain)
		if took := ready(); took != diskTimeout {
			t.Errorf("a minute later one waited %v", took)
		}
		close(d.goes)
		pass(time.Second)
		ready()
		if c, _ := d.get("p22").Container("main"); c.Probes[probe.Readiness].Stored != probe.Success {
			t.Errorf("announced before it is on the disk, which answers again: %+v", c)
		}
	})
}

func TestSlowlyFailingDiskHoldsUpOneAnnouncement(t *testing.T) { // probe.md 6.4, IN1
	synctest.Test(t, func(t *testing.T) {
		d := &hungDisk{newDisk(), 2 * time.Second, nil}
		d.fail(nil, errDisk)
		ready := readyOn(t, d)
		var waited time.Duration
		for range 20 {
			waited += ready()
		}
		if waited > diskTimeout {
			t.Errorf("20 announcements waited %v", waited)
		}
	})
}

// IN5, CK6, CK8: a disk that does not answer holds up neither the stop of a pod nor the start of a critical static one for long,
// and others hardly at all. What is written later is complete, and the end of a pod waits for it (CK4).
func TestHungDiskHoldsUpNoStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &hungDisk{newDisk(), time.Hour, make(chan struct{})}
		j := runningOn(t, d)
		record := func(uid types.UID, f podworkers.Facts, limit time.Duration) {
			t.Helper()
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			if err := j.Record(ctx, uid, f); err != nil || time.Since(begin) > limit {
				t.Errorf("%s goes on after %v: %v", uid, time.Since(begin), err)
			}
		}
		stop := podworkers.Facts{TerminationRequested: true, Deleted: true}
		j.Desired(newPod("a"))
		record("a", stop, hangTimeout)
		j.Desired(newPod("b"))
		record("b", stop, slowWait)
		j.Desired(newPod("vital", func(p *v1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }))
		record("vital", podworkers.Facts{Started: true}, slowWait)

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		over := stop
		over.Terminated, over.Finished = true, true
		if j.Record(ctx, "a", over) == nil {
			t.Error("the end of the pod need not be written")
		}
		j.Desired(newPod("c"))
		if j.Record(ctx, "c", podworkers.Facts{Started: true}) == nil {
			t.Error("a pod is set up without a record")
		}
		close(d.goes)
		pass(time.Second)
		record("a", over, 0)
		if r := d.get("a"); r == nil || r.Termination == nil || !r.Finished {
			t.Errorf("written: %+v", r)
		}
		d.goes = make(chan struct{})
		j.Desired(newPod("d"))
		record("d", stop, hangTimeout)
		if r := d.get("d"); r != nil {
			t.Errorf("written: %+v", r)
		}
		close(d.goes)
	})
}

// CK6: a stop whose calls are cut short before the disk counts as hanging goes on all the same.
func TestHungDiskHoldsUpNoStopThatIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &hungDisk{newDisk(), time.Hour, make(chan struct{})}
		j := runningOn(t, d)
		j.Desired(newPod("a"))
		begin, err := time.Now(), error(nil)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			err = j.Record(ctx, "a", podworkers.Facts{TerminationRequested: true})
			cancel()
			if err == nil {
				break
			}
		}
		if took := time.Since(begin); err != nil || took > causeTimeout+2*diskTimeout {
			t.Errorf("the pod is stopped after %v: %v", took, err)
		}
		close(d.goes)
	})
}

// A disk that is slow, and answers, gets every record before the stop (CK6).
func TestSlowDiskHasTheCauseBeforeTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &hungDisk{newDisk(), 7 * time.Second, nil}
		j := runningOn(t, d)
		for i := range 20 {
			uid := types.UID(fmt.Sprint("p", i))
			j.Desired(newPod(uid))
			pass(10 * time.Second)
			if err := j.Record(t.Context(), uid, podworkers.Facts{TerminationRequested: true}); err != nil || d.get(uid) == nil || d.get(uid).Termination == nil {
				t.Errorf("%s: %v, %+v", uid, err, d.get(uid))
			}
		}
	})
}
