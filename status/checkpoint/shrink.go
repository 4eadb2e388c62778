package checkpoint

import (
	v1 "k8s.io/api/core/v1"
)

// messageSteps are the lengths that messages are cut to, one after the other, while a record is too
// large.
var messageSteps = [...]int{2048, 256, 0}

// shrink returns a smaller copy of a record, the smaller the higher the step, or nil if nothing can
// be left out any more. Messages are cut first; if that is not enough, the pod goes, and messages
// are cut only if they do not fit even then (spec/status.md 9.11).
func shrink(r *Record, step int) *Record {
	if step < len(messageSteps) {
		return cutMessages(r, messageSteps[step])
	}
	step -= len(messageSteps)
	if r.Pod == nil || step > len(messageSteps) {
		return nil
	}
	c := r.Clone()
	c.Pod = nil
	if step == 0 {
		return c
	}
	return cutMessages(c, messageSteps[step-1])
}

// cutMessages returns a copy in which no message is longer than limit.
func cutMessages(r *Record, limit int) *Record {
	c := r.Clone()
	for i := range c.Containers {
		ends := make([]End, len(c.Containers[i].Ends))
		for j, e := range c.Containers[i].Ends {
			e.Message = cut(e.Message, limit)
			ends[j] = e
		}
		c.Containers[i].Ends = ends
	}
	if t := c.Termination; t != nil && t.Decision != nil {
		shorter, decision := *t, *t.Decision
		decision.Message = cut(decision.Message, limit)
		shorter.Decision, c.Termination = &decision, &shorter
	}
	if c.Status == nil {
		return c
	}
	s := c.Status.DeepCopy()
	s.Message = cut(s.Message, limit)
	for i := range s.Conditions {
		s.Conditions[i].Message = cut(s.Conditions[i].Message, limit)
	}
	for _, list := range [...][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			for _, state := range [...]*v1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
				if state.Terminated != nil {
					state.Terminated.Message = cut(state.Terminated.Message, limit)
				}
				if state.Waiting != nil {
					state.Waiting.Message = cut(state.Waiting.Message, limit)
				}
			}
		}
	}
	c.Status = s
	return c
}

// cut keeps the end of a text, which holds the reason of a failure.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[len(s)-limit:]
}
