package runtime_test

import (
	"testing"
	"time"

	"github.com/podwright/podwright/runtime"
)

// TestStartAborted: HI8: a start that was given up before the container had a task does not
// count as a run. Any other failed start does.
func TestStartAborted(t *testing.T) {
	said := "failed to create containerd task: failed to create shim task: context canceled: unknown"
	exited := runtime.ContainerStatus{State: runtime.Exited, ExitCode: 128, Reason: "StartError", Message: said}
	for name, tc := range map[string]struct {
		change func(*runtime.ContainerStatus)
		want   bool
	}{
		"aborted":         {func(*runtime.ContainerStatus) {}, true},
		"before the shim": {func(s *runtime.ContainerStatus) { s.Message = "failed to create containerd task: context canceled" }, true},
		"with its shim": {func(s *runtime.ContainerStatus) {
			s.Message = "failed to create containerd task: failed to start shim: start failed: : signal: killed: unknown"
		}, true},
		"no shim": {func(s *runtime.ContainerStatus) {
			s.Message = "failed to create containerd task: failed to start shim: exec: not found"
		}, false},
		"running":       {func(s *runtime.ContainerStatus) { s.State = runtime.Running }, false},
		"it had begun":  {func(s *runtime.ContainerStatus) { s.StartedAt = time.Unix(1, 0) }, false},
		"another end":   {func(s *runtime.ContainerStatus) { s.Reason = "Error" }, false},
		"a bad command": {func(s *runtime.ContainerStatus) { s.Message = "failed to create containerd task: exec: not found" }, false},
		"out of time": {func(s *runtime.ContainerStatus) {
			s.Message = "failed to create containerd task: context deadline exceeded"
		}, false},
		"given up at the end": {func(s *runtime.ContainerStatus) { s.Message = "failed to start containerd task: context canceled" }, false},
	} {
		s := exited
		tc.change(&s)
		if got := s.StartAborted(); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
