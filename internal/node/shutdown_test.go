package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// stopper is workers whose pods take some time to stop, and then to release what they
// held.
type stopper struct {
	calls         calls
	stop, release map[types.UID]time.Duration
	err           error
	rejects       bool // updates
	terminated    bool // every pod
	mu            sync.Mutex
	statuses      podStatuses
	flush         func(ctx context.Context) error
	removed       []types.UID
	changes       int
}

func (s *stopper) KillPod(ctx context.Context, pod *v1.Pod, kill podworkers.KillOptions) error {
	s.calls.add("kill " + string(pod.UID))
	if s.err != nil {
		return s.err
	}
	select {
	case <-time.After(s.stop[pod.UID]):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.statuses[pod.UID]
	kill.StatusFunc(&status)
	s.statuses[pod.UID] = status
	return nil
}

func (s *stopper) WaitFinished(ctx context.Context, uid types.UID) error {
	select {
	case <-time.After(s.release[uid]):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *stopper) IsPodKnownTerminated(types.UID) bool { return s.terminated }

func (s *stopper) Get(uid types.UID) (v1.PodStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statuses.Get(uid)
}

func (s *stopper) Flush(ctx context.Context) error {
	if s.flush == nil {
		return nil
	}
	return s.flush(ctx)
}

// newShutdown shuts down a node with these pods.
func newShutdown(t *testing.T, list ...*v1.Pod) (*Shutdown, *stopper) {
	r, _ := residents(list...)
	s := &stopper{stop: map[types.UID]time.Duration{}, release: map[types.UID]time.Duration{}, statuses: podStatuses{}}
	for _, p := range list {
		s.statuses[p.UID] = inPhase(v1.PodRunning)
	}
	return &Shutdown{
		File: filepath.Join(t.TempDir(), "state", "shutdown.json"), Residents: r, Stopper: s, Statuses: s, Runtime: &runtimeList{}, Start: over(),
		Acknowledged: func(uid types.UID) bool { return uid == "acked" },
		RemovePod: func(_ context.Context, uid types.UID) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.removed = append(s.removed, uid)
			return nil
		},
		Changed: func() { s.changes++ }, Clock: clock.RealClock{},
	}, s
}

func withPriority(uid types.UID, priority int32) *v1.Pod {
	pod := newPod(uid)
	pod.Spec.Priority = &priority
	return pod
}

// TestShutdownStopsGroupsInOrder: lowest first, each no longer than its time; a group ends
// as soon as the last of its pods has released what it held (section 16).
func TestShutdownStopsGroupsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t, withPriority("high", 100), withPriority("low", 0), withPriority("slow", 0))
		workers.stop["low"], workers.release["low"] = 2*time.Second, 1234*time.Millisecond
		workers.stop["slow"] = time.Hour
		began := time.Now()
		report, err := s.Run(t.Context(), shutdown.Plan{Groups: []shutdown.Group{{Priority: 0, Time: 10 * time.Second}, {Priority: 100, Time: 20 * time.Second}}})
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("took %v", d)
		}
		if got := workers.calls.take(); len(got) != 3 || got[2] != "kill high" {
			t.Errorf("calls %v", got)
		}
		for i, want := range []shutdown.PodReport{
			{UID: "low", Group: 0, Grace: 10, Phase: v1.PodFailed, Stopped: true, Released: true, Acknowledged: true},
			{UID: "slow", Group: 0, Grace: 10, Phase: v1.PodRunning, Problem: "the time of its group, 10s, is over"},
			{UID: "high", Group: 100, Grace: 20, Phase: v1.PodFailed, Stopped: true, Released: true, Acknowledged: true},
		} {
			got := report.Pods[i]
			want.Namespace, want.Name = got.Namespace, got.Name
			if got != want {
				t.Errorf("pod %d: %+v, want %+v", i, got, want)
			}
		}
		last, err := s.Last()
		if err != nil || !last.Began.Equal(report.Began) || !last.Ended.Equal(report.Ended) || last.Pods != nil {
			t.Errorf("last shutdown %+v (%v), want the times of %+v", last, err, report)
		}
		if !s.Active() || s.Err() == nil {
			t.Error("new pods are taken after the shutdown")
		}
		if _, err := s.Run(t.Context(), shutdown.Plan{}); !errors.Is(err, ErrShuttingDown) {
			t.Errorf("a second shutdown: %v", err)
		}
	})
}

// TestShutdownGoesOnWhenTheLastPodIsReleased, at that moment.
func TestShutdownGoesOnWhenTheLastPodIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t, newPod("a"))
		workers.stop["a"], workers.release["a"] = time.Second, 34567*time.Microsecond
		began := time.Now()
		if _, err := s.Run(t.Context(), shutdown.Plan{}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != time.Second+34567*time.Microsecond {
			t.Errorf("took %v", d)
		}
	})
}

// TestCancelledShutdownTakesPodsAgain, with the cause of its context, and may be repeated.
func TestCancelledShutdownTakesPodsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t, newPod("a"))
		workers.stop["a"] = time.Hour
		why := errors.New("the power is back")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		report, err := s.Run(ctx, shutdown.Plan{})
		if !errors.Is(err, why) || !report.Ended.IsZero() || len(report.Pods) != 1 || report.Pods[0].Problem != why.Error() {
			t.Errorf("%+v, %v", report, err)
		}
		if s.Active() || s.Err() != nil || workers.changes != 2 {
			t.Errorf("active %v after %d changes", s.Active(), workers.changes)
		}
		if last, err := s.Last(); err != nil || last.Began.IsZero() || !last.Ended.IsZero() {
			t.Errorf("last shutdown %+v, %v", last, err)
		}
		workers.stop["a"] = 0
		if report, err := s.Run(t.Context(), shutdown.Plan{}); err != nil || !report.Pods[0].Stopped {
			t.Errorf("the next one: %+v, %v", report, err)
		}
	})
}

// TestShutdownWaitsForSinksOnlySoLong: what a sink has not taken is in the report.
func TestShutdownWaitsForSinksOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t, newPod("acked"), newPod("not"))
		workers.flush = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		workers.release["not"] = time.Millisecond
		began := time.Now()
		report, err := s.Run(t.Context(), shutdown.Plan{})
		if err != nil || time.Since(began) != flushTimeout+time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		for _, p := range report.Pods {
			if want := p.UID == "acked"; p.Acknowledged != want || (p.Problem == "") != want || !p.Released {
				t.Errorf("%+v", p)
			}
		}
	})
}

// TestShutdownRemovesStaticPodsThatItEnded, so that they start again; a pod that ended on its own,
// or that is of the API, stays.
func TestShutdownRemovesStaticPodsThatItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, workers := newShutdown(t, newStatic("static"), newStatic("done"), newPod("api"))
		workers.statuses["done"] = inPhase(v1.PodSucceeded)
		if _, err := s.Run(t.Context(), shutdown.Plan{}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(workers.removed, []types.UID{"static"}) {
			t.Errorf("removed %v", workers.removed)
		}
	})
}

// TestShutdownEndsWhileRemovalsHang: a runtime that hangs costs a shutdown 10 s, however many pods there are.
func TestShutdownEndsWhileRemovalsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list []*v1.Pod
		for i := range 20 {
			list = append(list, newStatic(types.UID(fmt.Sprint(i))))
		}
		s, _ := newShutdown(t, list...)
		s.RemovePod = func(ctx context.Context, _ types.UID) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		report, err := s.Run(t.Context(), shutdown.Plan{})
		if took := time.Since(began); err != nil || took != 10*time.Second {
			t.Errorf("took %v, %v", took, err)
		}
		for _, p := range report.Pods {
			if !p.Released || !strings.Contains(p.Problem, "its containers could not be removed") {
				t.Errorf("%+v", p)
			}
		}
	})
}

// TestShutdownReportsTrouble: of pods that cannot be stopped, removed, or remembered.
func TestShutdownReportsTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShutdown(t, newStatic("static"))
		s.File = filepath.Join(t.TempDir(), "file", "shutdown.json")
		if err := os.WriteFile(filepath.Dir(s.File), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.RemovePod = func(context.Context, types.UID) error { return errors.New("runtime is down") }
		report, err := s.Run(t.Context(), shutdown.Plan{})
		if err != nil || !strings.Contains(report.Pods[0].Problem, "runtime is down") {
			t.Errorf("%+v, %v", report, err)
		}
		s, workers := newShutdown(t, newPod("a"))
		workers.err = errors.New("no worker")
		report, err = s.Run(t.Context(), shutdown.Plan{})
		if err != nil || report.Pods[0].Stopped || report.Pods[0].Problem != "no worker" {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// TestLastShutdown: none, and one that cannot be read.
func TestLastShutdown(t *testing.T) {
	s := &Shutdown{File: filepath.Join(t.TempDir(), "shutdown.json")}
	if report, err := s.Last(); err != nil || !report.Began.IsZero() {
		t.Errorf("without one: %+v, %v", report, err)
	}
	if err := os.WriteFile(s.File, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Last(); err == nil {
		t.Error("a broken file is no error")
	}
}
