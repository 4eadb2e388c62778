package probe_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
)

func TestReplacedContainerIsProbedUnderItsOwnID(t *testing.T) {
	for _, limit := range []struct {
		name string
		set  func(*probe.Options)
	}{
		{"parked", func(o *probe.Options) { o.PodSlots = 1 }},
		{"queued", func(o *probe.Options) { o.NetworkSlots = 1 }},
	} {
		bubble(t, "2.5: "+limit.name, func(t *testing.T) {
			r := newRig(t, limit.set).start()
			r.pass(time.Minute)
			begin := time.Now()
			r.does(slow(400 * time.Millisecond))
			p := newPod("a", liveness(every(600)), readiness(every(600)))
			r.publish(p, up("1", true, begin))
			r.m.AddPod(p) // liveness runs, readiness is queued
			r.pass(200 * time.Millisecond)
			r.publish(p, up("2", true, time.Now()))
			r.pass(2 * time.Second)
			for _, run := range r.take() {
				if run.kind == probe.Readiness && run.id != "2" {
					t.Errorf("%s was probed at %v", run.id, run.at.Sub(begin))
				}
			}
			if got := r.result(probe.Readiness, "2"); got != "Success" {
				t.Errorf("the new container is %s", got)
			}
		})
	}
}

func TestEndedWorkerHandsItsSlotOn(t *testing.T) {
	bubble(t, "9.2", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.NetworkSlots = 1 }).start()
		r.pass(time.Minute)
		begin := time.Now()
		r.does(func(ctx context.Context, target probe.Target) (probe.Outcome, error) {
			if target.Pod.Name == "a" { // takes a moment to end
				<-ctx.Done()
				<-time.After(10 * time.Millisecond)
			}
			return good, nil
		})
		a, b := newPod("a", readiness()), newPod("b", readiness())
		for _, p := range []*v1.Pod{a, b} {
			r.publish(p, up("of-"+p.Name, true, begin))
			r.m.AddPod(p)
		}
		r.pass(100 * time.Millisecond)
		r.m.RemovePod(a.UID)
		r.pass(100 * time.Millisecond)
		for _, run := range r.take() {
			if run.pod == "b" && run.at.Sub(begin) == 110*time.Millisecond {
				return
			}
		}
		t.Error("the slot was not handed on")
	})
}
