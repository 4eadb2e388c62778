package runtime

import "strings"

// StartAborted reports whether the runtime gave up the start of a container because its
// caller went away before anything of the container ran. containerd ties a start to the
// call: when the caller is killed, it drops what it was creating and shows the container
// as exited with the reason StartError. This does not count as a run of the container.
//
// Only an error about a task that containerd had not created yet counts: after a start
// that failed later, or in another way, part of the container may have run.
func (s *ContainerStatus) StartAborted() bool {
	if s.State != Exited || !s.StartedAt.IsZero() || s.Reason != "StartError" {
		return false
	}
	why, ok := strings.CutPrefix(s.Message, "failed to create containerd task: ")
	// The shim may be killed with the call, too.
	return ok && (strings.Contains(why, "context canceled") ||
		strings.HasPrefix(why, "failed to start shim: ") && strings.Contains(why, "signal: killed"))
}
