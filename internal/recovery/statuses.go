package recovery

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status/checkpoint"
)

// Changed records a new status. A pod that has ended has to stop for that reason.
func (j *Journal) Changed(pod *v1.Pod, s *v1.PodStatus, version uint64, finished bool) {
	if j.isDrained(pod.UID) {
		return
	}
	now := j.clock.Now()
	j.keeper.Update(pod.UID, func(r *checkpoint.Record) checkpoint.Class {
		class := r.Observe(s, version)
		if r.Terminal() && r.Termination == nil {
			r.Termination, class = &checkpoint.Termination{RequestedAt: now, Cause: checkpoint.CauseTerminal}, checkpoint.Durable
		}
		if finished && !r.Finished {
			r.Finished, class = true, checkpoint.Durable
		}
		return class
	})
}

// afterReboot makes a record of another boot one of this boot, which says that nothing of its pod is ready or has started
// (spec/status.md 9.7). It keeps its age, because nothing new is known of the pod.
func (j *Journal) afterReboot(record *checkpoint.Record) *checkpoint.Record {
	if !rebooted(record, j.bootID) {
		return record
	}
	now := metav1.NewTime(j.clock.Now())
	j.keeper.Update(record.UID, func(r *checkpoint.Record) checkpoint.Class {
		r.BootID, r.Status = j.bootID, notReady(r.Remembered(true), now)
		for i := range r.Containers {
			c := &r.Containers[i]
			c.Started, c.Ready, c.Probes = false, false, nil
		}
		return checkpoint.Lazy
	})
	return j.keeper.Get(record.UID)
}

// notReady returns a status without the conditions that its pod is ready; nil for nil. They end no earlier than they began: the
// clock may be behind after a boot, and what is older than the API's condition would not count (9.6).
func notReady(s *v1.PodStatus, now metav1.Time) *v1.PodStatus {
	if s == nil {
		return nil
	}
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		if c := &s.Conditions[i]; (c.Type == v1.PodReady || c.Type == v1.ContainersReady) && c.Status == v1.ConditionTrue {
			c.Status, c.Reason, c.Message = v1.ConditionFalse, "ContainersNotReady", ""
			if c.LastTransitionTime.Before(&now) {
				c.LastTransitionTime = now
			}
		}
	}
	return s
}

// Acknowledged records which version of a pod's status a sink has.
func (j *Journal) Acknowledged(uid types.UID, sink string, target types.UID, version uint64) {
	if j.isDrained(uid) {
		return
	}
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		ack := checkpoint.Ack{Sink: sink, Target: target, Version: version}
		if r.Acked(sink) == ack {
			return checkpoint.Unchanged
		}
		r.SetAck(ack)
		return checkpoint.Lazy
	})
}

// AcknowledgedBy reports whether each of these sinks has the newest status of the pod.
func (j *Journal) AcknowledgedBy(uid types.UID, sinks []string) bool {
	r := j.keeper.Get(uid)
	return r != nil && acknowledgedBy(r, sinks)
}

func acknowledgedBy(r *checkpoint.Record, sinks []string) bool {
	for _, sink := range sinks {
		if r.Acked(sink).Version < r.Version {
			return false
		}
	}
	return true
}

// Durable reports whether the pod's terminal phase, or the fact that it is finished, is on the
// disk. A pod without a record waits for nothing, nor does one whose life a drain has ended.
func (j *Journal) Durable(uid types.UID, finished bool) bool {
	r := j.keeper.Get(uid)
	if r == nil || j.keeper.ReadOnly(uid) || j.isDrained(uid) {
		return true
	}
	disk := j.keeper.Stored(uid)
	if disk != nil && disk.Lives != r.Lives {
		return false // the disk has the end of an earlier life
	}
	return disk != nil && (disk.Terminal() || finished && !r.Terminal()) && (!finished || disk.Finished)
}
