package probe_test

import (
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/probe"
)

// settable is a clock whose wall time can be set, while times since New stay monotonic.
type settable struct {
	clock.RealClock
	offset atomic.Int64
}

func (c *settable) set(by time.Duration) { c.offset.Store(int64(by)) }
func (c *settable) Now() time.Time       { return time.Now().Round(0).Add(time.Duration(c.offset.Load())) }

func (c *settable) Since(epoch time.Time) time.Duration {
	return time.Now().Round(0).Sub(epoch)
}

func TestRecordedTimesFollowTheWallClock(t *testing.T) {
	bubble(t, "9.7: the clock is set an hour forward", func(t *testing.T) {
		c := &settable{}
		r := newRig(t, func(o *probe.Options) { o.Clock = c }).start()
		p := newPod("a", readiness())
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(time.Second)
		c.set(time.Hour)
		r.pass(10 * time.Minute)
		e := r.m.Explain(p.UID)[0]
		if age := c.Now().Sub(e.LastRun); age < 0 || age > 10*time.Second {
			t.Errorf("explained as run %v ago", age)
		}
		if left := e.NextDue.Sub(c.Now()); left < 0 || left > 10*time.Second {
			t.Errorf("explained as due in %v", left)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if age := c.Now().Sub(r.facts["1 Readiness"].At); age < 0 || age > 3*time.Minute {
			t.Errorf("the record counts as %v old", age)
		}
	})
	bubble(t, "9.5: since when a probe hangs", func(t *testing.T) {
		c := &settable{}
		r := newRig(t, func(o *probe.Options) { o.Clock = c }).start()
		until := make(chan struct{})
		defer close(until)
		r.does(hang(false, until))
		p := newPod("a", readiness())
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(5 * time.Second)
		c.set(time.Hour)
		if list := r.m.Problems(); len(list) != 1 || c.Now().Sub(list[0].Since) != 5*time.Second {
			t.Errorf("problems: %+v", list)
		}
	})
}

func TestInitialDelayEndsAlthoughTheClockWasSetBack(t *testing.T) {
	bubble(t, "9.7: the container started tomorrow", func(t *testing.T) {
		r := newRig(t).start()
		r.pass(time.Minute)
		begin := time.Now()
		p := newPod("a", readiness(func(p *v1.Probe) { p.InitialDelaySeconds = 5 }))
		r.publish(p, up("1", true, begin.Add(24*time.Hour)))
		r.m.AddPod(p)
		r.pass(20 * time.Second)
		wantTimes(t, "readiness", times(r.take(), probe.Readiness, begin), 5, 15)
	})
}
