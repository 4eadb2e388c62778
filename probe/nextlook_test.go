package probe_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
)

// TestHungCallIsNoResultOfTheNextContainer is 6.3 and 9.5: a call that hangs is about the container that
// it was made for. The container that takes its place is judged by calls of its own.
func TestHungCallIsNoResultOfTheNextContainer(t *testing.T) {
	bubble(t, "6.3, 9.5", func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		r := newRig(t).start()
		r.does(func(ctx context.Context, target probe.Target) (probe.Outcome, error) {
			if target.ID.ID == "1" {
				return hang(false, release)(ctx, target)
			}
			return good, nil
		})
		p := newPod("a", liveness(every(1)))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(5 * time.Second)
		if got := r.result(probe.Liveness, "1"); got != "Failure" {
			t.Fatalf("the container that hangs: %s", got)
		}
		if n := len(r.take()); n != 1 {
			t.Errorf("9.5: %d calls while one hangs", n)
		}
		r.publish(p, up("2", true, time.Now()))
		for range 20 {
			r.pass(time.Second)
			if got := r.result(probe.Liveness, "2"); got != "Success" {
				t.Fatalf("the next container: %s after %d runs of its own", got, len(r.take()))
			}
		}
		if n := len(r.take()); n < 19 {
			t.Errorf("%d runs", n)
		}
	})
}

// TestHungCallsOfManyContainersAreFew is 9.5: a handler that hangs for each container that takes the place of the one before is
// called for eight of them at most. It is called again once those calls have returned.
func TestHungCallsOfManyContainersAreFew(t *testing.T) {
	bubble(t, "9.5", func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t).start()
		r.does(hang(false, release))
		p := newPod("a", liveness(every(1)))
		replace := func(n int) (result string, calls int) {
			id := fmt.Sprint(n)
			r.publish(p, up(id, true, time.Now()))
			r.m.AddPod(p)
			r.pass(10 * time.Second)
			return r.result(probe.Liveness, id), len(r.take())
		}
		calls := 0
		for n := range 20 {
			result, more := replace(n)
			if calls += more; result != "Failure" {
				t.Errorf("container %d: %s", n, result)
			}
		}
		if calls != 8 {
			t.Errorf("%d calls hang", calls)
		}
		close(release)
		r.pass(time.Second)
		if result, calls := replace(20); result != "Success" || calls < 9 {
			t.Errorf("after they have returned: %s after %d calls", result, calls)
		}
	})
}

// hurried publishes a status right after the manager has read the one before.
type hurried struct {
	*rig
	next func()
}

func (h *hurried) View(uid types.UID) (probe.View, bool) {
	v, ok := h.rig.View(uid)
	if next := h.next; next != nil {
		h.next = nil
		next()
	}
	return v, ok
}

// TestStatusDuringALookIsSeen is 2.6: a status that comes while a probe looks at
// the one before is looked at next, not one period later.
func TestStatusDuringALookIsSeen(t *testing.T) {
	for _, kind := range []string{"liveness", "readiness"} {
		bubble(t, kind, func(t *testing.T) {
			h := &hurried{}
			r := newRig(t, func(o *probe.Options) { o.Pods = h })
			h.rig = r
			r.start()
			r.pass(2 * time.Hour)
			p := newPod("a", startup(every(1)), map[string]func(...func(*v1.Probe)) func(*v1.Container){"liveness": liveness, "readiness": readiness}[kind](every(3600)))
			r.publish(p, up("1", false, time.Now()))
			r.m.AddPod(p)
			r.pass(5 * time.Second)
			r.take()
			// The container's status is generated twice.
			h.next = func() { r.publish(p, up("1", true, time.Now())) }
			r.publish(p, up("1", false, time.Now()))
			r.pass(10 * time.Second)
			if n := len(r.take()); n == 0 {
				t.Errorf("no run; %+v", r.m.Explain(p.UID)[1])
			}
		})
	}
}
