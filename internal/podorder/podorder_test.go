package podorder_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/podorder"
	"github.com/podwright/podwright/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A status whose objects were added in any order shows the latest first, with the addresses of the latest sandbox.
func TestStatus(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	status := &runtime.PodStatus{
		Sandboxes: []*runtime.SandboxStatus{
			{ID: "old", State: runtime.Exited, IP: "10.0.0.1"}, {ID: "new", Attempt: 1, State: runtime.Running, IP: "10.0.0.2"},
		},
		Containers: []*runtime.ContainerStatus{
			{Name: "c", ID: runtime.ContainerID{ID: "first"}, CreatedAt: at(2)},
			{Name: "c", ID: runtime.ContainerID{ID: "second"}, RestartCount: 1, CreatedAt: at(1)}, // the clock was set back
		},
	}
	podorder.Status(status)
	if status.Sandboxes[0].ID != "new" || status.Containers[0].ID.ID != "second" || len(status.IPs) != 1 || status.IPs[0] != "10.0.0.2" {
		t.Errorf("%+v", status)
	}
}

// A run that goes on is the latest of its name, although one that has ended has a higher restart count: lists lacked that one
// when it was made.
func TestRunningContainerIsTheLatest(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	id := func(s string) runtime.ContainerID { return runtime.ContainerID{ID: s} }
	status := &runtime.PodStatus{Containers: []*runtime.ContainerStatus{
		{Name: "c", ID: id("ended"), State: runtime.Exited, RestartCount: 1, CreatedAt: at(1)},
		{Name: "c", ID: id("goes on"), State: runtime.Running, CreatedAt: at(2)},
		{Name: "d", ID: id("only"), State: runtime.Exited, CreatedAt: at(3)},
	}}
	podorder.Status(status)
	if got := status.Containers[1].ID.ID; got != "goes on" {
		t.Errorf("%q comes first in the status", got)
	}
	pod := &runtime.Pod{Containers: []*runtime.Container{
		{Name: "c", ID: id("goes on"), State: runtime.Running, CreatedAt: at(1)},
		{Name: "c", ID: id("ended"), State: runtime.Exited, Attempt: 1, CreatedAt: at(2)},
	}}
	podorder.Pod(pod)
	if got := pod.Containers[0].ID.ID; got != "goes on" {
		t.Errorf("%q comes first in the list", got)
	}
}
