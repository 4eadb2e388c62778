package podsync

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// TestDeadlineCountsFromTheLocalStart: W3, edge case 27. The local start time counts, then the API's; without
// either there is no deadline.
func TestDeadlineCountsFromTheLocalStart(t *testing.T) {
	at := func(s int64) *metav1.Time { return &metav1.Time{Time: time.Unix(s, 0)} }
	for name, test := range map[string]struct {
		deadline   *int64
		local, api *metav1.Time
		want       int64 // 0: none
	}{
		"no deadline":     {nil, at(100), at(100), 0},
		"no start":        {ptr.To[int64](10), nil, nil, 0},
		"local start":     {ptr.To[int64](10), at(100), at(50), 110},
		"start at an API": {ptr.To[int64](10), nil, at(50), 60},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{ActiveDeadlineSeconds: test.deadline}, Status: v1.PodStatus{StartTime: test.api}}
		start, limit, has := deadlineOf(pod, &v1.PodStatus{StartTime: test.local})
		if has != (test.want != 0) || has && start.Add(limit).Unix() != test.want {
			t.Errorf("%s: %v after %v, %v", name, limit, start, has)
		}
	}
}

// TestDueDeadlineIsTakenOnce: W1, W2, edge case 34. A new time replaces the old one, even if it is
// later; a pod is due once, from the very moment of its deadline.
func TestDueDeadlineIsTakenOnce(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(1000+s, 0) }
	d := newDeadlines(clock.RealClock{}, nil)
	check := func(now, next int64, want ...types.UID) {
		t.Helper()
		due, then := d.take(at(now))
		slices.Sort(due)
		if !slices.Equal(due, want) || then.IsZero() != (next == 0) || next != 0 && !then.Equal(at(next)) {
			t.Errorf("at %d s: due %v, next %v; want %v, next %d s", now, due, then, want, next)
		}
	}
	check(0, 0)
	d.set("web", at(10))
	d.set("db", at(30))
	check(5, 10)
	d.set("web", at(60))
	check(10, 30)
	check(29, 30)
	check(30, 60, "db")
	check(59, 60)
	check(60, 0, "web")
	check(3600, 0)
	d.set("web", at(7200))
	d.set("web", at(4000)) // an earlier time replaces it too
	d.set("gone", at(4000))
	d.forget("gone")
	check(3999, 4000)
	check(4001, 0, "web")
}

// deadlinePod is a pod that may be active for 10 s.
func deadlinePod(start time.Time) *v1.Pod {
	pod := web()
	pod.Spec.ActiveDeadlineSeconds, pod.Status.StartTime = ptr.To[int64](10), &metav1.Time{Time: start}
	return pod
}

// TestDeadlineBeyondAllTime: W3. A manifest may name more seconds than a time.Duration holds; its pod
// never reaches the deadline.
func TestDeadlineBeyondAllTime(t *testing.T) {
	start := time.Now()
	for _, seconds := range []int64{10_000_000_000, math.MaxInt64} {
		pod := deadlinePod(start)
		pod.Spec.ActiveDeadlineSeconds = &seconds
		if at, limit, has := deadlineOf(pod, &v1.PodStatus{}); !has || at.Add(limit).Before(start.AddDate(40, 0, 0)) {
			t.Errorf("%d s: %v after %v", seconds, limit, at)
		}
	}
}

// TestPodFailsAtItsDeadline: W4, W5: the pod sleeps until its deadline, fails at that
// moment with an event, and is not touched after that.
func TestPodFailsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		start := time.Now()
		woken := make(chan time.Duration, 1)
		s := n.syncer(func(o *Options) {
			o.Clock = nil // the bubble's
			o.Wake = func(types.UID) { woken <- time.Since(start) }
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		pod := deadlinePod(start)
		for range 2 {
			if result, err := s.SyncPod(ctx, podworkers.Sync, pod, nil, viewOf(runtime.Running)); err != nil || result.Terminal {
				t.Error(result, err)
			}
		}
		if after := <-woken; after != 10*time.Second {
			t.Errorf("woken after %s", after)
		}
		n.calls = nil
		result, err := s.SyncPod(ctx, podworkers.Sync, pod, nil, viewOf(runtime.Running))
		if err != nil || !result.Terminal {
			t.Error(result.Terminal, err)
		}
		var told v1.PodStatus // IN8: the workers make it durable, whatever becomes of the status
		if result.Amend(&told); told.Phase != v1.PodFailed || told.Reason != "DeadlineExceeded" {
			t.Errorf("amended to %+v", told)
		}
		n.want("Syncing", "SetPodStatus", "Observed", "SetPodStatus", "Observed")
		if st := n.last(); st.Phase != v1.PodFailed || st.Reason != "DeadlineExceeded" {
			t.Errorf("%+v", st)
		}
		if want := []string{"Normal DeadlineExceeded " + messageDeadline}; !slices.Equal(n.events, want) {
			t.Error(n.events)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// settable is the clock of a machine whose wall clock is set; time passes as before.
type settable struct {
	clock.RealClock
	by time.Duration
}

func (c *settable) Now() time.Time                  { return time.Now().Add(c.by) }
func (c *settable) Since(t time.Time) time.Duration { return time.Since(t) } // of a time before it is set

// TestSetClockMovesNoDeadline: W3. A pod that started 4 s ago has 6 s left, however the wall clock is set meanwhile. A pod that
// seems to start in the future starts now.
func TestSetClockMovesNoDeadline(t *testing.T) {
	const years = 365 * 24 * time.Hour
	for name, test := range map[string]struct {
		started, by time.Duration
		seconds     int64 // from the step on
		want        time.Duration
	}{
		"not set":                     {-4 * time.Second, 0, 10, 6 * time.Second},
		"set ahead, as after a boot":  {-4 * time.Second, 56 * years, 10, 6 * time.Second},
		"set back":                    {-4 * time.Second, -time.Hour, 10, 6 * time.Second},
		"set ahead, deadline moved":   {-4 * time.Second, 56 * years, 30, 26 * time.Second},
		"set back, deadline moved":    {-4 * time.Second, -time.Hour, 30, 26 * time.Second},
		"from before a boot":          {56 * years, 56 * years, 10, 10 * time.Second},
		"from before, deadline moved": {56 * years, 56 * years, 30, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, c := newNode(t), &settable{}
				woken := make(chan struct{}, 100)
				s := n.syncer(func(o *Options) {
					o.Clock = c
					o.Wake = func(types.UID) { woken <- struct{}{} }
				})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- s.Run(ctx) }()
				begin := time.Now()
				pod := deadlinePod(begin.Add(test.started))
				sync := func() bool {
					result, err := s.SyncPod(ctx, podworkers.Sync, pod, nil, viewOf(runtime.Running))
					if err != nil {
						t.Error(err)
					}
					return result.Terminal
				}
				over := sync()
				c.by, pod.Spec.ActiveDeadlineSeconds = test.by, &test.seconds
				for over = over || sync(); !over; over = sync() {
					<-woken
				}
				if after := time.Since(begin); after != test.want {
					t.Errorf("over after %v, want %v", after, test.want)
				}
				cancel()
				<-ended
			})
		})
	}
}

// TestDeadlineIsForgotten: a pod that no longer has a deadline, or that stops, is not woken.
func TestDeadlineIsForgotten(t *testing.T) {
	n := newNode(t)
	n.view = viewOf(runtime.Exited)
	s := n.syncer()
	ctx, pod := t.Context(), deadlinePod(n.clock.Now())
	set := func() {
		t.Helper()
		if _, err := s.SyncPod(ctx, podworkers.Sync, pod, nil, viewOf(runtime.Running)); err != nil || len(s.deadlines.at) != 1 {
			t.Fatal(err, s.deadlines.at)
		}
	}
	set()
	if _, err := s.SyncPod(ctx, podworkers.Sync, web(), nil, viewOf(runtime.Running)); err != nil || len(s.deadlines.at) != 0 {
		t.Error(err, s.deadlines.at)
	}
	set()
	if err := s.SyncTerminatingPod(ctx, pod, n.view, nil, nil); err != nil || len(s.deadlines.at) != 0 {
		t.Error(err, s.deadlines.at)
	}
}

// TestDeadlineEndsPodWhoseStatusIsDropped: IN5: the pod ends, and its next accepted status
// says why.
func TestDeadlineEndsPodWhoseStatusIsDropped(t *testing.T) {
	n := newNode(t)
	s := n.syncer()
	pod := deadlinePod(n.clock.Now().Add(-time.Minute))
	view := viewOf(runtime.Running)
	s.statuses = storesOnce{statuses{n}}
	result, err := s.SyncPod(t.Context(), podworkers.Sync, pod, nil, view)
	if err != nil || !result.Terminal || len(n.events) != 1 {
		t.Error(result, err, n.events)
	}
	s.statuses, n.fail["SetPodStatus"], n.view = statuses{n}, false, viewOf(runtime.Exited)
	if err := s.SyncTerminatingPod(t.Context(), pod, view, nil, nil); err != nil || n.last().Reason != reasonDeadline {
		t.Errorf("%v, %+v", err, n.last())
	}
}

// storesOnce accepts one status.
type storesOnce struct{ statuses }

func (s storesOnce) SetPodStatus(pod *v1.Pod, status v1.PodStatus) error {
	defer func() { s.n.fail["SetPodStatus"] = true }()
	return s.statuses.SetPodStatus(pod, status)
}

// TestDueDeadlineWithoutWakeIsDropped: without [Options.Wake], due deadlines are dropped.
func TestDueDeadlineWithoutWakeIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		s := New(n, reader{n}, statuses{n}, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.deadlines.set("u", time.Now().Add(time.Second))
		if err := s.Run(ctx); err != nil || len(s.deadlines.at) != 0 {
			t.Error(err, s.deadlines.at)
		}
	})
}

// hungPods ends a step only when its context ends.
type hungPods struct {
	Pods
	cause error
}

func (h *hungPods) SyncPod(ctx context.Context, _ *v1.Pod, _ *runtime.PodStatus) pods.Result {
	<-ctx.Done()
	h.cause = context.Cause(ctx)
	return pods.Result{Err: ctx.Err(), Acted: true}
}

// TestDeadlineCutsStepShort: W5, IN1: a step that waits for a call that never ends, such as a
// pull, ends with the pod's deadline; the next step fails the pod.
func TestDeadlineCutsStepShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		start, woken := time.Now(), make(chan struct{}, 1)
		s := n.syncer(func(o *Options) {
			o.Clock = nil // the bubble's
			o.Wake = func(types.UID) { woken <- struct{}{} }
		})
		hung := &hungPods{Pods: s.pods}
		s.pods = hung
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		pod := deadlinePod(start)
		result, err := s.SyncPod(ctx, podworkers.Sync, pod, nil, viewOf(runtime.Running))
		if err == nil || result.Terminal || time.Since(start) != 10*time.Second || !errors.Is(hung.cause, errDeadline) {
			t.Errorf("the step ended after %v with %v, its context for %v", time.Since(start), err, hung.cause)
		}
		<-woken
		result, err = s.SyncPod(ctx, podworkers.Sync, pod, nil, viewOf(runtime.Running))
		if err != nil || !result.Terminal || n.last().Reason != reasonDeadline {
			t.Errorf("%+v, %v, %+v", result, err, n.last())
		}
		if len(s.deadlines.steps) != 0 {
			t.Errorf("steps are left: %v", s.deadlines.steps)
		}
		cancel()
		<-ended
	})
}
