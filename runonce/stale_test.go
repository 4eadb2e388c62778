package runonce_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runonce"
)

// story is an engine with one pod whose status changes over time.
type story struct {
	begin    time.Time
	chapters []chapter
	ready    chan struct{}
}

// chapter is what the engine shows of its pod from a time on.
type chapter struct {
	from   time.Duration
	status v1.PodStatus
	held   string
	worker bool
	again  bool // its worker ends one life and then begins another
	leaves bool // it is being stopped
}

func (s *story) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (s *story) Drain(context.Context) error   { return errors.New("not asked for") }
func (s *story) Ready() <-chan struct{}        { return s.ready }
func (s *story) Problems() []podwright.Problem { return nil }
func (s *story) now() (c chapter) {
	for _, next := range s.chapters {
		if time.Since(s.begin) >= next.from {
			c = next
		}
	}
	return c
}

func (s *story) Pods() []v1.Pod {
	pod := newPod("a", v1.RestartPolicyNever, "main")
	c := s.now()
	if pod.Status = c.status; c.leaves {
		pod.DeletionTimestamp = &metav1.Time{Time: s.begin}
	}
	return []v1.Pod{*pod}
}

func (s *story) Explain(uid types.UID) (podwright.Explanation, bool) {
	c := s.now()
	e := podwright.Explanation{UID: uid, Held: c.held}
	if c.worker {
		e.Worker = &podworkers.Explanation{RestartRequested: c.again}
	}
	return e, true
}

// RO3: the outcome of a pod in an earlier run does not count until the engine has begun with the pod.
func TestEndOfAnEarlierRunDoesNotCount(t *testing.T) {
	failed := v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}
	waiting := func(reason string) v1.PodStatus {
		return v1.PodStatus{Phase: v1.PodPending, ContainerStatuses: []v1.ContainerStatus{{Name: "main", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}}}}
	}
	succeeded := v1.PodStatus{Phase: v1.PodSucceeded}
	for name, c := range map[string]struct {
		chapters []chapter
		want     runonce.Outcome
		reason   string
		after    time.Duration
	}{
		"it is held, and runs then": {
			[]chapter{{0, failed, "the gate is shut", false, false, false}, {time.Minute, waiting(""), "", true, false, false}, {2 * time.Minute, succeeded, "", true, false, false}}, runonce.Succeeded, "", 2 * time.Minute,
		},
		"it ends first, and lives again": {
			[]chapter{{0, failed, "", true, true, false}, {time.Minute, waiting(""), "", true, false, false}, {2 * time.Minute, succeeded, "", true, false, false}}, runonce.Succeeded, "", 2 * time.Minute,
		},
		"its source drops it, and wants it again": {
			[]chapter{
				{0, v1.PodStatus{Phase: v1.PodRunning}, "", true, false, false},
				{10 * time.Second, failed, "", true, false, true},
				{20 * time.Second, failed, "", true, true, false},
				{time.Minute, waiting(""), "", true, false, false},
				{2 * time.Minute, succeeded, "", true, false, false},
			}, runonce.Succeeded, "", 2 * time.Minute,
		},
		"it is held for good": {[]chapter{{0, failed, "it waits to come back", false, false, false}}, runonce.CannotRun, "Held", 10 * time.Minute},
		"it is refused, and has no worker": {
			[]chapter{{0, v1.PodStatus{}, "", false, false, false}, {100 * time.Millisecond, v1.PodStatus{Phase: v1.PodFailed, Reason: "OutOfpods"}, "", false, false, false}}, runonce.Failed, "OutOfpods", time.Second,
		},
		"it ended, and is not held": {[]chapter{{0, failed, "", true, false, false}}, runonce.Failed, "Evicted", 0},
		"its image has come since":  {[]chapter{{0, waiting("ErrImageNeverPull"), "", true, false, false}, {2 * time.Second, succeeded, "", true, false, false}}, runonce.Succeeded, "", 2 * time.Second},
		"its image has not come":    {[]chapter{{0, waiting("ErrImageNeverPull"), "", true, false, false}}, runonce.CannotRun, "ErrImageNeverPull", 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runner, err := runonce.New(runonce.Options{})
				if err != nil {
					t.Fatal(err)
				}
				s := &story{begin: time.Now(), chapters: c.chapters, ready: make(chan struct{})}
				close(s.ready)
				report, err := runner.Run(t.Context(), s)
				if err != nil || len(report.Pods) != 1 || report.Pods[0].Outcome != c.want || !strings.Contains(report.Pods[0].Reason, c.reason) {
					t.Errorf("%+v, %v", report, err)
				}
				// No status reaches the runner here: it looks every 10 s.
				if took := time.Since(s.begin); took < c.after || took > c.after+11*time.Second {
					t.Errorf("it took %v, want %v", took, c.after)
				}
			})
		})
	}
}
