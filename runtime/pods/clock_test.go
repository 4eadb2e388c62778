package pods_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	googleproto "google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// setBack is a runtime whose clock was set back by an hour after the first run of each container: later runs look
// older. The fake's own times never go back.
type setBack struct{ *fake.Runtime }

const step = int64(time.Hour)

func (s setBack) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	list, err := s.Runtime.ListContainers(ctx, f)
	list = slices.Clone(list)
	for i, c := range list {
		if c.GetMetadata().GetAttempt() > 0 {
			list[i] = googleproto.CloneOf(c)
			list[i].CreatedAt -= step
		}
	}
	return list, err
}

func (s setBack) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	r, err := s.Runtime.ContainerStatus(ctx, id, verbose)
	if r.GetStatus().GetMetadata().GetAttempt() == 0 {
		return r, err
	}
	r = googleproto.CloneOf(r)
	for _, at := range []*int64{&r.Status.CreatedAt, &r.Status.StartedAt, &r.Status.FinishedAt} {
		if *at != 0 {
			*at -= step
		}
	}
	return r, err
}

// setClockBack makes the world see its runtime through setBack.
func (w *world) setClockBack() {
	w.t.Helper()
	rt := setBack{w.fake}
	var err error
	if w.m, err = pods.New(rt, w.fake, w.opts); err != nil {
		w.t.Fatal(err)
	}
	w.view = cri.NewView(rt, cri.ViewOptions{OwnerID: w.opts.OwnerID})
}

// spec/runtime.md 1.3: after the clock was set back, the run of a container that runs counts, although an ended one
// looks newer: no second copy is started, and the run that ended is the one to remove.
func TestClockSetBackStartsNoSecondCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := []fake.Line{{Text: "x"}} // its log shows each run
		w := newWorldOn(t, fake.Options{WriteLogs: true, Script: func(l fake.Launch) fake.Script {
			if l.Number == 1 {
				return fake.Script{Log: line, Exit: &fake.Exit{After: second, Code: 1}}
			}
			return fake.Script{Log: line}
		}})
		w.setClockBack()
		pod := newPod()
		for range 10 {
			w.sync(pod)
			pass(time.Minute)
		}
		w.wantState(pod, "app:running")
		if n := w.fake.CallCount(fake.CreateContainer); n != 2 {
			t.Errorf("%d containers created, want 2", n)
		}
		if _, err := collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true}); err != nil {
			t.Error(err)
		}
		w.wantState(pod, "app:running")
	})
}

// spec/runtime.md 1.3: of runs that have all ended, a collection keeps the last one, whatever the clock said.
func TestClockSetBackKeepsTheLastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(fake.Launch) fake.Script { return exits(1) })
		w.setClockBack()
		pod := newPod()
		for range 3 {
			w.sync(pod)
			pass(time.Minute)
		}
		if _, err := collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true}); err != nil {
			t.Fatal(err)
		}
		left := w.read(pod).Containers
		if len(left) != 1 || left[0].RestartCount != 2 || left[0].State != runtime.Exited {
			t.Errorf("%d left, the first is %+v", len(left), left[0])
		}
	})
}

// spec/runtime.md 17.8: a clock that is set back does not extend a delay by the step.
func TestClockSetBackExtendsNoDelay(t *testing.T) {
	c := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	w := newWorldOn(t, fake.Options{Clock: c, Script: func(fake.Launch) fake.Script { return exits(1) }}, func(o *pods.Options) { o.Clock = c })
	pod := newPod()
	w.syncAll(pod)
	for range 2 {
		c.Step(2 * second)
		w.syncAll(pod)
	}
	c.SetTime(c.Now().Add(-24 * time.Hour))
	if r := w.sync(pod); r.RetryAt.IsZero() || r.RetryAt.Sub(c.Now()) > 10*second {
		t.Errorf("the next start is %s away: %v", r.RetryAt.Sub(c.Now()), r.Err)
	}
}

// spec/runtime.md 17.7, 17.8: nor does it extend the delay after a restart of all containers.
func TestClockSetBackExtendsNoHold(t *testing.T) {
	c := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	w := newWorldOn(t, fake.Options{Clock: c, Script: func(fake.Launch) fake.Script { return exits(9) }}, func(o *pods.Options) { o.Clock = c })
	pod := newPod(func(p *v1.Pod) {
		p.Spec.Containers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
			Action:    v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{9}},
		}}
	})
	w.syncAll(pod)
	for range 2 {
		c.Step(2 * second)
		w.syncAll(pod)
	}
	if r := w.sync(pod); r.RetryAt.Sub(c.Now()) != 9*second {
		t.Fatalf("the next start is %s away: %v", r.RetryAt.Sub(c.Now()), r.Err)
	}
	c.SetTime(c.Now().Add(-24 * time.Hour))
	r := w.sync(pod)
	if wait := r.RetryAt.Sub(c.Now()); wait <= 0 || wait > 5*time.Minute {
		t.Errorf("the next start is %s away: %v", wait, r.Err)
	}
	c.SetTime(r.RetryAt)
	w.sync(pod)
	w.wantState(pod, "app:running")
}
