package status

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
)

// ask calls the sink and waits for it as long as ctx lasts. A call that ignores the end of its
// context takes no slot from other pods (IN1); until it has returned, the sink is not called again
// for its pod.
func ask[T any](ctx context.Context, s *sender, uid types.UID, method string, f func(ctx context.Context) (T, error)) (T, error) {
	call := foreign.Call{Kind: problem.Sink, Name: s.name + "." + method, UID: uid, Patience: problem.SendLimit}
	return foreign.Ask(ctx, s.manager.calls, call, foreign.Limits{Wait: 2 * s.manager.options.SendTimeout}, f)
}

// send does one send as spec/status.md 8.3-8.6 describe it: find out whom the status is for, read
// what is there, merge, store what differs, delete what is finished.
func (s *sender) send(ctx context.Context, j job) outcome {
	if !j.entry.forgotten.IsZero() {
		return s.sayGone(ctx, j)
	}
	if hold := s.manager.holdFor(j); hold > 0 {
		return outcome{outside: true, hold: hold}
	}
	target, ok := s.target(j)
	if !ok {
		return outcome{outside: true} // no mirror pod: skipped and kept (8.2)
	}
	base, known, o := s.base(ctx, j, target)
	if o != nil {
		return *o
	}
	couldRun := s.manager.options.CouldHaveRunningContainers
	m := merge(base.status, j.status, s.reader != nil, !j.restored && couldRun != nil && couldRun(j.entry.uid), s.now())
	if s.reader != nil {
		keepEnds(j.pod, base.status, m.status)
	}
	if m.held && j.endedBefore && !known {
		return outcome{outside: true} // holding the phase back now would undo what the sink may already have (IN8)
	}
	result := outcome{stored: m.status, target: target.UID, acked: !m.held, outside: m.held}
	// A sink without [PodReader] has to be told that a pod is finished.
	untold := s.reader == nil && j.finished != j.told
	if known && !untold && equalStatus(base.status, m.status, messageLimit(j.pod)) {
		result.stored = base.status
		if j.version > j.acked && !m.held {
			result.result = "skipped"
		}
	} else {
		u := Update{PodRef: target, Version: j.version, Status: m.status, Finished: j.finished}
		if known {
			u.Base = base.status
		}
		stored, err := ask(ctx, s, target.UID, "Store", func(ctx context.Context) (StoreResult, error) { return s.sink.Store(ctx, u) })
		if err != nil {
			return outcome{err: fmt.Errorf("store status of %s at %s: %w", target, s.name, err)}
		}
		result.result = stored.String()
		switch stored {
		case Stored, Unchanged:
		case Gone:
			return gone(j)
		case Recreated:
			return outcome{result: result.result, acked: true}
		case Conflict:
			return outcome{err: fmt.Errorf("store status of %s at %s: %w", target, s.name, errConflict)}
		default:
			return outcome{err: fmt.Errorf("store status of %s at %s: the sink answered %s", target, s.name, stored)}
		}
	}
	return s.delete(ctx, j, target, base.deleting, result)
}

// gone returns the outcome for a pod that the sink does not know. The sink is asked again unless no
// more status of the pod will come: an API knows each UID only once (8.3).
func gone(j job) outcome {
	over := j.finished && !podinfo.Static(j.pod)
	return outcome{result: Gone.String(), acked: over, outside: !over}
}

// errConflict: the pod changed between read and write.
var errConflict = errors.New("changed meanwhile")

// target returns whom the status goes to: the pod itself or, at an API, the mirror of a static pod.
// It returns false if there is none.
func (s *sender) target(j job) (PodRef, bool) {
	if s.reader == nil || !podinfo.Static(j.pod) {
		return refOf(j.pod), true
	}
	if s.manager.options.Mirrors == nil {
		return PodRef{}, false
	}
	mirror := s.manager.options.Mirrors.MirrorOf(j.pod)
	if mirror == nil {
		return PodRef{}, false
	}
	return refOf(mirror), true
}

func refOf(pod *v1.Pod) PodRef {
	return PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
}

// atSink is what a sink has of a pod.
type atSink struct {
	status   *v1.PodStatus
	deleting bool
}

// base finds what the sink has; known is false if that is not certain. A non-nil end ends the
// round.
func (s *sender) base(ctx context.Context, j job, target PodRef) (base atSink, known bool, end *outcome) {
	deleting := j.pod.DeletionTimestamp != nil
	if s.reader == nil {
		if j.stored != nil && j.target == target.UID {
			return atSink{status: j.stored, deleting: deleting}, true, nil
		}
		return atSink{status: &j.pod.Status, deleting: deleting}, false, nil
	}
	pod, err := ask(ctx, s, target.UID, "ReadPod", func(ctx context.Context) (*v1.Pod, error) { return s.reader.ReadPod(ctx, target) })
	switch {
	case err != nil:
		return atSink{}, false, &outcome{err: fmt.Errorf("read %s at %s: %w", target, s.name, err)}
	case pod == nil:
		over := gone(j)
		return atSink{}, false, &over
	case pod.UID != target.UID && podinfo.Static(j.pod):
		// The mirror pod was replaced meanwhile; the next look finds the new one.
		return atSink{}, false, &outcome{result: Gone.String(), outside: true}
	case pod.UID != target.UID:
		// The pod was replaced: the status of the old one is dropped (8.3).
		return atSink{}, false, &outcome{result: Recreated.String(), acked: true}
	}
	return atSink{status: &pod.Status, deleting: deleting || pod.DeletionTimestamp != nil}, true, nil
}

// delete deletes a pod that is finished in every respect (8.6).
func (s *sender) delete(ctx context.Context, j job, target PodRef, deleting bool, result outcome) outcome {
	if s.deleter == nil || !deleting || !j.finished || podinfo.Static(j.pod) || !podinfo.Terminal(result.stored.Phase) {
		return result
	}
	if journal := s.manager.options.Journal; journal != nil && !journal.Durable(j.entry.uid, true) {
		if hold := s.manager.options.HoldTerminal - s.manager.options.Clock.Since(j.changed); hold > 0 {
			result.outside, result.hold = true, hold
			return result
		}
	}
	if _, err := ask(ctx, s, target.UID, "DeletePod", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.deleter.DeletePod(ctx, target)
	}); err != nil {
		result.err = fmt.Errorf("delete %s at %s: %w", target, s.name, err)
		return result
	}
	result.deleted = true
	return result
}
