package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
)

// resets returns every record to remove if some container's exit asks to
// restart all containers, otherwise nil (spec/runtime.md 6.9). Sources go last, and
// the newest record of each name last of its name, so that the next sync completes a
// reset that a crash interrupted.
func resets(in Input) []Reset {
	if in.Status == nil || !anySource(in) {
		return nil
	}
	var out []Reset
	for _, source := range []bool{false, true} {
		for _, list := range [][]v1.Container{in.Pod.Spec.Containers, in.Pod.Spec.InitContainers} {
			for i := range list {
				c := &list[i]
				if isSource(in, c) == source {
					out = appendRecords(out, in, c, source)
				}
			}
		}
	}
	return out
}

func anySource(in Input) bool {
	for i := range in.Pod.Spec.Containers {
		if isSource(in, &in.Pod.Spec.Containers[i]) {
			return true
		}
	}
	for i := range in.Pod.Spec.InitContainers {
		if isSource(in, &in.Pod.Spec.InitContainers[i]) {
			return true
		}
	}
	return false
}

func isSource(in Input, c *v1.Container) bool {
	if len(c.RestartPolicyRules) == 0 {
		return false
	}
	record := in.Status.Container(c.Name)
	return record != nil && record.State == runtime.Exited && !in.Asked.Has(record.ID) && // that exit is not its own
		restartpolicy.OnExit(in.Pod, c, record.ExitCode) == restartpolicy.RestartAll
}

// appendRecords appends the records of one container, oldest first.
func appendRecords(out []Reset, in Input, c *v1.Container, source bool) []Reset {
	newest := in.Status.Container(c.Name)
	for i := len(in.Status.Containers) - 1; i >= 0; i-- {
		if record := in.Status.Containers[i]; record.Name == c.Name {
			out = append(out, Reset{Record: record, Source: source, Newest: record == newest, Spec: c})
		}
	}
	return out
}
