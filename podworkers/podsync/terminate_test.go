package podsync

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// terminating lists the calls of a step that stops a pod.
var terminating = []string{
	"Terminating", "ForgetMirror", "SetPodStatus", "Observed", "StopLivenessAndStartup", "KillPod", "Get",
	"RemoveProbes", "ForgetProbes", "SetPodStatus", "Observed",
}

// TestTerminatingPublishesEnds: the containers are stopped, and their ends are
// published, with the address that the pod had and with the caller's amendment.
func TestTerminatingPublishesEnds(t *testing.T) {
	n := newNode(t)
	n.view = viewOf(runtime.Exited)
	n.view.IPs = nil
	var sawStopping bool
	s := n.syncer()
	n.killed = func() { _, sawStopping = s.StoppingPod("u") }
	amend := func(st *v1.PodStatus) { st.Reason = "Evicted" }
	if err := s.SyncTerminatingPod(t.Context(), web(), viewOf(runtime.Running), ptr.To[int64](5), amend); err != nil {
		t.Error(err)
	}
	n.want(terminating...)
	st := n.last()
	if end := st.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 3 {
		t.Errorf("%+v", st.ContainerStatuses[0])
	}
	if st.Phase != v1.PodFailed || st.Reason != "Evicted" || st.PodIP != "10.0.0.1" {
		t.Errorf("%s, %s, %s", st.Phase, st.Reason, st.PodIP)
	}
	if p, ok := s.StoppingPod("u"); !sawStopping || !ok || p.DeletionTimestamp == nil || !p.DeletionTimestamp.Time.Equal(n.clock.Now()) {
		t.Errorf("%t %+v", sawStopping, p)
	}
	if all := s.Stopping(); len(all) != 1 || all["u"] == nil {
		t.Error(all)
	}
}

// TestStoppingPodKeepsItsDeletion: the deletion time is the pod's own, as it was in the
// first attempt.
func TestStoppingPodKeepsItsDeletion(t *testing.T) {
	n := newNode(t)
	n.fail["KillPod"] = true
	s := n.syncer()
	pod := web()
	pod.DeletionTimestamp = &metav1.Time{Time: n.clock.Now().Add(-5)}
	_ = s.SyncTerminatingPod(t.Context(), pod, viewOf(runtime.Running), nil, nil)
	_ = s.SyncTerminatingPod(t.Context(), web(), viewOf(runtime.Running), nil, nil)
	if p, _ := s.StoppingPod("u"); p == nil || !p.DeletionTimestamp.Equal(pod.DeletionTimestamp) {
		t.Errorf("%+v", p)
	}
}

// TestFinishedPodIsNotStopping: a pod that ended by itself is not shown as being stopped.
func TestFinishedPodIsNotStopping(t *testing.T) {
	n := newNode(t)
	n.view = viewOf(runtime.Exited)
	s := n.syncer()
	if err := s.SyncTerminatingPod(t.Context(), web(), n.view, nil, nil); err != nil {
		t.Error(err)
	}
	if p, ok := s.StoppingPod("u"); ok {
		t.Errorf("%+v", p)
	}
}

// TestFailedCallEndsSyncTerminatingPod: each call that fails ends the step there, with its error.
func TestFailedCallEndsSyncTerminatingPod(t *testing.T) {
	for _, call := range []string{"KillPod", "Get"} {
		n := newNode(t)
		n.fail[call], n.view = true, viewOf(runtime.Exited)
		if err := n.syncer().SyncTerminatingPod(t.Context(), web(), viewOf(runtime.Running), nil, nil); !errors.Is(err, errFake) {
			t.Errorf("%s: %v", call, err)
		}
		n.want(terminating[:slices.Index(terminating, call)+1]...)
	}
}

// TestPodStopsThoughItsStatusesAreDropped: IN5: the pod is stopped and released; its containers stay
// in the runtime for housekeeping, because no status says yet how they ended.
func TestPodStopsThoughItsStatusesAreDropped(t *testing.T) {
	n := newNode(t)
	n.view = viewOf(runtime.Exited)
	n.fail["SetPodStatus"], n.fail["TerminatePod"] = true, true
	s := n.syncer()
	if err := s.SyncTerminatingPod(t.Context(), web(), viewOf(runtime.Running), nil, nil); err != nil {
		t.Error(err)
	}
	n.want(terminating...)
	if err := s.SyncTerminatedPod(t.Context(), web(), n.view); err != nil {
		t.Error(err)
	}
	n.want(slices.DeleteFunc(slices.Clone(terminated), func(c string) bool { return c == "RemovePod" })...)
}

// TestDecidedEndIsToldOnceAStatusIsTaken: IN5: an eviction that no status has reported is part of
// the next accepted status, and of no status of a later life.
func TestDecidedEndIsToldOnceAStatusIsTaken(t *testing.T) {
	n := newNode(t)
	n.view = viewOf(runtime.Exited)
	n.fail["SetPodStatus"] = true
	s := n.syncer()
	evicted := func(st *v1.PodStatus) { st.Phase, st.Reason = v1.PodFailed, "Evicted" }
	if err := s.SyncTerminatingPod(t.Context(), web(), viewOf(runtime.Running), nil, evicted); err != nil {
		t.Error(err)
	}
	n.fail["SetPodStatus"] = false
	if err := s.SyncTerminatedPod(t.Context(), web(), n.view); err != nil || n.last().Reason != "Evicted" {
		t.Errorf("%v, %+v", err, n.last())
	}
	n.published = nil
	if _, err := s.SyncPod(t.Context(), podworkers.Create, web(), nil, nothing()); err != nil || n.last().Reason != "" {
		t.Errorf("%v, %+v", err, n.last())
	}
}

// TestPodIsNotStoppedWhileAContainerMayRun: a pod does not count as stopped while a container runs, or may run
// because the runtime does not list it yet.
func TestPodIsNotStoppedWhileAContainerMayRun(t *testing.T) {
	n := newNode(t)
	n.view = viewOf(runtime.Running)
	if err := n.syncer().SyncTerminatingPod(t.Context(), web(), n.view, nil, nil); !errors.Is(err, errStillRunning) {
		t.Error(err)
	}
	n.want(terminating[:7]...)
	n.view = viewOf(runtime.Exited)
	calls := NewCalls(nil, CallOptions{Clock: n.clock})
	calls.unlisted.add("u", "c9")
	if err := n.syncer(func(o *Options) { o.Calls = calls }).SyncTerminatingPod(t.Context(), web(), nil, nil, nil); err == nil {
		t.Error("called stopped")
	}
	n.want(terminating[:7]...)
}

// terminated lists the calls of the last step.
var terminated = []string{
	"SetPodStatus", "Observed", "TearDownVolumes", "TerminatePod", "RemovePod", "DestroyCgroup",
	"ForgetAllocation", "Forget", "Released",
}

// TestTerminatedReleasesEverything: the last status is final before the records behind it
// are removed, and the pod is forgotten.
func TestTerminatedReleasesEverything(t *testing.T) {
	n := newNode(t)
	calls := NewCalls(nil, CallOptions{Clock: n.clock})
	calls.unlisted.add("u", "c1")
	s := n.syncer(func(o *Options) { o.Calls = calls })
	s.stopping.add(web())
	if err := s.SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Exited)); err != nil {
		t.Error(err)
	}
	n.want(terminated...)
	if len(s.Stopping()) > 0 || len(calls.unlisted.made) > 0 {
		t.Error("something is still remembered")
	}
	n.removable = false
	if err := s.SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Exited)); err != nil {
		t.Error(err)
	}
	n.want(slices.DeleteFunc(slices.Clone(terminated), func(c string) bool { return c == "RemovePod" })...)
}

// TestTerminatedIsToldFirst: IN6: the Terminated hook says that nothing of the pod runs before
// anything is released, because a release may take long.
func TestTerminatedIsToldFirst(t *testing.T) {
	n := newNode(t)
	n.fail["TearDownVolumes"] = true
	s := n.syncer(func(o *Options) { o.Hooks.Terminated = func(types.UID) { n.do("Terminated") } })
	if err := s.SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Exited)); !errors.Is(err, errFake) {
		t.Error(err)
	}
	n.want("Terminated", "SetPodStatus", "Observed", "TearDownVolumes")
}

// TestTerminatedIsRepeatable: a step that fails is repeated until it succeeds. The final status
// is generated once: after that the records behind it may be gone.
func TestTerminatedIsRepeatable(t *testing.T) {
	for i, call := range terminated {
		switch call {
		case "Observed", "Forget", "Released": // cannot fail
			continue
		case "SetPodStatus", "TerminatePod": // their failures end no step
			continue
		}
		t.Run(call, func(t *testing.T) {
			n := newNode(t)
			n.fail[call] = true
			s := n.syncer()
			if err := s.SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Exited)); !errors.Is(err, errFake) {
				t.Error(err)
			}
			n.want(terminated[:i+1]...)
			n.fail[call] = false
			if err := s.SyncTerminatedPod(t.Context(), web(), nothing()); err != nil {
				t.Error(err)
			}
			from := 0
			if i > slices.Index(terminated, "TerminatePod") {
				from = slices.Index(terminated, "RemovePod")
			}
			n.want(terminated[from:]...)
			if end := n.last().ContainerStatuses[0].State.Terminated; from > 0 && (end == nil || end.ExitCode != 3 || len(n.published) != 1) {
				t.Errorf("%+v", n.published)
			}
			// A new life of the same UID gets its own final status.
			if err := s.SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Exited)); err != nil {
				t.Error(err)
			}
			n.want(terminated...)
		})
	}
}

// TestNewLifeHasAnEndOfItsOwn: a life that begins before the last one was fully released
// gets its own final status.
func TestNewLifeHasAnEndOfItsOwn(t *testing.T) {
	n := newNode(t)
	n.fail["RemovePod"] = true
	s := n.syncer()
	_ = s.SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Exited))
	n.fail["RemovePod"], n.published = false, nil
	if _, err := s.SyncPod(t.Context(), podworkers.Create, web(), nil, nothing()); err != nil {
		t.Error(err)
	}
	n.calls = nil
	if err := s.SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Exited)); err != nil {
		t.Error(err)
	}
	n.want(terminated...)
}

// TestRuntimePodIsStoppedAndReleased: a pod that is known only from the runtime is stopped
// and released, and nothing is published.
func TestRuntimePodIsStoppedAndReleased(t *testing.T) {
	want := []string{"KillRuntimePod", "DestroyCgroup", "ForgetAllocation", "Released"}
	n := newNode(t)
	if err := n.syncer().SyncTerminatingRuntimePod(t.Context(), &runtime.Pod{UID: "u"}); err != nil {
		t.Error(err)
	}
	n.want(want...)
	for i, call := range want[:3] {
		n.fail = map[string]bool{call: true}
		if err := n.syncer().SyncTerminatingRuntimePod(t.Context(), &runtime.Pod{UID: "u"}); !errors.Is(err, errFake) {
			t.Error(call, err)
		}
		n.want(want[:i+1]...)
	}
}

// TestPublishedEndIsFinal: the end is final even if its status could not be stored.
func TestPublishedEndIsFinal(t *testing.T) {
	for _, fail := range []string{"", "SetPodStatus", "TerminatePod"} {
		n := newNode(t)
		n.fail[fail] = true
		err := n.syncer().PublishEnd(web(), viewOf(runtime.Exited))
		if (fail != "") != errors.Is(err, errFake) || !slices.Contains(n.calls, "TerminatePod") {
			t.Error(fail, err, n.calls)
		}
		if fail == "" && n.last().Phase != v1.PodFailed {
			t.Errorf("%+v", n.last())
		}
	}
}

// TestPodIsNotStoppedWhileACallIsOpen: RT1: while a start for the pod has no known outcome, seeing nothing
// run proves nothing; the step kills what there is, and is repeated.
func TestPodIsNotStoppedWhileACallIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.view = nothing()
		calls := NewCalls(&callee{took: time.Minute}, CallOptions{})
		step, cancel := context.WithTimeout(foreign.ForPod(t.Context(), "u"), time.Second)
		defer cancel()
		if err := calling["RunPodSandbox"](step, calls); err == nil {
			t.Fatal("the call was answered")
		}
		s := n.syncer(func(o *Options) { o.Calls = calls })
		for _, call := range terminating {
			if call == "RemoveProbes" {
				break
			}
			n.calls = append(n.calls, call)
		}
		before := n.calls
		n.calls = nil
		err := s.SyncTerminatingPod(t.Context(), web(), nothing(), nil, nil)
		if want := "RunPodSandbox, called at 2000-01-01T00:00:00Z, has not been answered"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		n.want(before...)
		if _, err := s.SyncPod(t.Context(), podworkers.Update, web(), nil, nothing()); err == nil || slices.Contains(n.calls, "SyncPod") {
			t.Errorf("a pod with an open call is set up: %v, %q", err, n.calls)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		n.view.Sandboxes = []*runtime.SandboxStatus{{ID: "s1", State: runtime.Exited}} // what the call made, stopped
		if err := s.SyncTerminatingPod(t.Context(), web(), n.view, nil, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatRunsAfterTheStopIsStoppedAgain: RT1: a container that runs although its pod was stopped, seen in
// the view of the last step or when its records are removed, is killed and then removed.
func TestWhatRunsAfterTheStopIsStoppedAgain(t *testing.T) {
	n := newNode(t)
	n.view = viewOf(runtime.Exited)
	s := n.syncer()
	if err := s.SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Running)); err != nil {
		t.Error(err)
	}
	n.want(append([]string{"KillPod", "Get"}, terminated...)...)

	n = newNode(t)
	n.view, n.runs = viewOf(runtime.Running), 1
	n.killed = func() { n.view = viewOf(runtime.Exited) }
	if err := n.syncer().SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Exited)); err != nil {
		t.Error(err)
	}
	i := slices.Index(terminated, "RemovePod")
	n.want(slices.Concat(terminated[:i+1], []string{"ReadNow", "KillPod", "Get"}, terminated[i:])...)

	n = newNode(t)
	n.view, n.runs, n.fail["KillPod"] = viewOf(runtime.Running), 1, true
	if err := n.syncer().SyncTerminatedPod(t.Context(), web(), viewOf(runtime.Exited)); !errors.Is(err, errFake) {
		t.Error(err)
	}
	n.want(slices.Concat(terminated[:i+1], []string{"ReadNow", "KillPod"})...)

	n = newNode(t) // the runtime says that it stopped it, and it runs
	n.view = viewOf(runtime.Running)
	if err := n.syncer().SyncTerminatedPod(t.Context(), web(), n.view); !errors.Is(err, errStillRunning) {
		t.Error(err)
	}
	n.want("KillPod", "Get")
}
