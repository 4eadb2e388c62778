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

// readyOn returns a function that lets the container of another pod become ready, with its record
// on this disk, and returns how long its announcement waited.
func readyOn(t *testing.T, d *hungDisk) (ready func() time.Duration) {
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
