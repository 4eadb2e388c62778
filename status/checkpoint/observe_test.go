package checkpoint_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status/checkpoint"
)

// TestObserve: status.md 9.2, 9.4: what a status says of containers is kept per
// container, the newest two ends of each; a phase that ends is durable.
func TestObserve(t *testing.T) {
	ended := func(id string, code int32, count int32) v1.ContainerStatus {
		return v1.ContainerStatus{
			Name: "main", ContainerID: id, RestartCount: count,
			State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id, ExitCode: code, Reason: "Error"}},
		}
	}
	r := &checkpoint.Record{UID: "a"}
	see := func(phase v1.PodPhase, version uint64, cs v1.ContainerStatus) checkpoint.Class {
		return r.Observe(&v1.PodStatus{Phase: phase, ContainerStatuses: []v1.ContainerStatus{cs}}, version)
	}
	for i := range int32(4) {
		want := checkpoint.Durable // a restart
		if i == 0 {
			want = checkpoint.Lazy
		}
		if class := see(v1.PodRunning, uint64(i+1), ended(fmt.Sprint("fake://", i), i+1, i)); class != want {
			t.Errorf("run %d: class %d", i, class)
		}
	}
	c, _ := r.Container("main")
	if len(c.Ends) != 2 || c.Ends[0].ExitCode != 4 || c.Ends[1].ExitCode != 3 || c.RestartCount != 3 {
		t.Errorf("%+v", c)
	}
	if class := see(v1.PodRunning, 4, ended("fake://3", 4, 3)); class != checkpoint.Unchanged {
		t.Errorf("the same status: class %d", class)
	}
	if class := see(v1.PodFailed, 5, ended("fake://3", 4, 3)); class != checkpoint.Durable {
		t.Errorf("the end: class %d", class)
	}
	if class := see(v1.PodFailed, 6, ended("fake://3", 4, 3)); class != checkpoint.Lazy {
		t.Errorf("after the end: class %d", class)
	}
	yes := true
	see(v1.PodRunning, 7, v1.ContainerStatus{
		Name: "main", ContainerID: "fake://4", Ready: true, Started: &yes, RestartCount: 4,
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	})
	if c, _ = r.Container("main"); !c.Ready || !c.Started || c.ID != "fake://4" || r.Status.Phase != v1.PodFailed {
		t.Errorf("%+v, phase %s", c, r.Status.Phase)
	}
}

// status.md 3.7, 9.4: the end of a container that waits belongs to the
// run its restart count names; a guess, and what a restart of all containers ended, to
// the run before it.
func TestEndBelongsToTheRunItsCountNames(t *testing.T) {
	for _, tc := range []struct {
		state  v1.ContainerState
		reason string
		want   int32
	}{
		{v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, "Error", 2},
		{v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}, "Error", 2},
		{v1.ContainerState{Running: &v1.ContainerStateRunning{}}, "Error", 1},
		{v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}, "ContainerStatusUnknown", 1},
		{v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}, "RestartingAllContainers", 1},
	} {
		r := &checkpoint.Record{UID: "a"}
		r.Observe(&v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
			Name: "main", ContainerID: "fake://new", RestartCount: 2, State: tc.state,
			LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "fake://old", Reason: tc.reason}},
		}}}, 1)
		if end, ok := r.EndOf("main", "fake://old"); !ok || end.RestartCount != tc.want {
			t.Errorf("%+v after %s: run %d, want %d", tc.state, tc.reason, end.RestartCount, tc.want)
		}
	}
}
