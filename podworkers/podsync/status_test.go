package podsync

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// TestWaitingReasonsAreShown: the status says why a container does not start.
func TestWaitingReasonsAreShown(t *testing.T) {
	n := newNode(t)
	n.waiting = map[string]pods.Waiting{"c": {Reason: "ErrImagePull", Message: "no such image"}}
	if _, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing()); err != nil {
		t.Error(err)
	}
	if w := n.last().ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "ErrImagePull" || w.Message != "no such image" {
		t.Errorf("%+v", n.last().ContainerStatuses[0])
	}
}

// TestPodResourcesAreThoseOfTheCgroup: spec/status.md 6.7: the status shows the pod's limits in the runtime.
func TestPodResourcesAreThoseOfTheCgroup(t *testing.T) {
	n := newNode(t)
	n.resources = runtime.Resources{MilliCPULimit: 700}
	pod := web()
	pod.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}}
	n.view = viewOf(runtime.Running)
	if _, err := n.syncer().publish(pod, n.view, false, nil); err != nil {
		t.Error(err)
	}
	if got := n.last().Resources.Limits.Cpu().String(); got != "700m" {
		t.Errorf("the status says %s", got)
	}
}

// TestNewestTwoEndsGetTheirMessage: the newest two exited containers of each name get their
// message; the shared view is not modified.
func TestNewestTwoEndsGetTheirMessage(t *testing.T) {
	n := newNode(t)
	n.message = "bye"
	s := n.syncer()
	view := viewOf(runtime.Running)
	for i := range 3 {
		old := *viewOf(runtime.Exited).Containers[0]
		old.ID.ID = fmt.Sprint("old", i)
		view.Containers = append(view.Containers, &old)
	}
	got := s.withMessages(view)
	for i, want := range []string{"", "bye", "", ""} {
		if got.Containers[i].Message != want || view.Containers[i].Message != "" {
			t.Errorf("container %d: %q, want %q; in the view %q", i, got.Containers[i].Message, want, view.Containers[i].Message)
		}
	}
	view.Containers[1].Message = "bye"
	if s.withMessages(view) != view || s.withMessages(nil) != nil {
		t.Error("copied without need")
	}
}

// TestProbeSuccessIsShownOnceWritten: spec/probe.md 8.3.
func TestProbeSuccessIsShownOnceWritten(t *testing.T) {
	for _, tc := range []struct {
		result    probe.Result
		unwritten bool
		ready     bool
	}{
		{probe.Success, false, true},
		{probe.Success, true, false},
		{probe.Failure, false, false},
		{probe.Unknown, false, false},
	} {
		n := newNode(t)
		n.probes = map[probe.Kind]probe.Result{probe.Readiness: tc.result, probe.Startup: probe.Success}
		n.unwritten = tc.unwritten
		if _, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, viewOf(runtime.Running)); err != nil {
			t.Error(err)
		}
		if got := n.last().ContainerStatuses[0].Ready; got != tc.ready {
			t.Errorf("%v: ready %t", tc, got)
		}
	}
}

// TestPreviousStatusIsTheRecords: CK5: the next status is based on what the records know of
// lost containers.
func TestPreviousStatusIsTheRecords(t *testing.T) {
	n := newNode(t)
	n.lost = &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
		Name: "c", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}},
	}}}
	result, err := n.syncer().SyncPod(t.Context(), podworkers.Sync, web(), nil, nothing())
	if err != nil || !result.Terminal || n.last().Phase != v1.PodFailed {
		t.Errorf("%+v, %v, %s", result, err, n.last().Phase)
	}
}

// TestAbortedStartIsNoRun: HI8: a container whose start the runtime gave up is shown as
// created.
func TestAbortedStartIsNoRun(t *testing.T) {
	view := viewOf(runtime.Created)
	aborted := *view.Containers[0]
	aborted.State, aborted.ExitCode, aborted.Reason = runtime.Exited, 128, "StartError"
	aborted.Message = "failed to create containerd task: context canceled"
	other := *viewOf(runtime.Exited).Containers[0]
	view.Containers = []*runtime.ContainerStatus{&aborted, &other}
	got := abortedAsCreated(view)
	if c := got.Containers[0]; c.State != runtime.Created || c.ExitCode != 0 || c.Reason != "" || c.Message != "" || got.Containers[1] != &other {
		t.Errorf("%+v", c)
	}
	if view.Containers[0].State != runtime.Exited {
		t.Error("the view was changed")
	}
	if clean := viewOf(runtime.Exited); abortedAsCreated(clean) != clean || abortedAsCreated(nil) != nil {
		t.Error("copied without need")
	}
}

// TestStoppedPodKeepsItsAddress: spec/runtime.md 1.7.
func TestStoppedPodKeepsItsAddress(t *testing.T) {
	with, without := &runtime.PodStatus{IPs: []string{"10.0.0.1"}}, &runtime.PodStatus{}
	if got := keepIPs(without, with); got.IPs[0] != "10.0.0.1" || without.IPs != nil {
		t.Errorf("%+v", got)
	}
	for _, before := range []*runtime.PodStatus{nil, without} {
		if keepIPs(without, before) != without {
			t.Error("an address from nowhere")
		}
	}
	other := &runtime.PodStatus{IPs: []string{"10.0.0.2"}}
	if keepIPs(other, with) != other {
		t.Error("the newer address counts")
	}
}

// TestOtherFamilyOfTheHostIsToldOnce: status.md 6.2. A pod whose recorded host address is of another family than the node's has an event,
// once; not while the status cannot be stored, and not if the family is the same.
func TestOtherFamilyOfTheHostIsToldOnce(t *testing.T) {
	for given, want := range map[string]int{"2001:db8::1": 1, "192.0.2.9": 0, "::ffff:192.0.2.9": 0, "": 0, "none": 0} {
		n := newNode(t)
		s, pod := n.syncer(), web()
		pod.Status.HostIP = given
		n.fail["SetPodStatus"] = true
		for i := range 4 {
			if _, err := s.publish(pod, viewOf(runtime.Running), false, nil); (err != nil) != (i == 0) {
				t.Fatal(err)
			}
			if i == 0 && len(n.events) > 0 {
				t.Errorf("%q: told of a status that was not stored: %q", given, n.events)
			}
			n.fail["SetPodStatus"] = false
		}
		if len(n.events) != want || want > 0 && !strings.HasPrefix(n.events[0], "Warning HostIPsIPFamilyMismatch the node's address is 192.0.2.1, ") {
			t.Errorf("%q: %q", given, n.events)
		}
	}
}
