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
