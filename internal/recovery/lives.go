package recovery

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/status/checkpoint"
)

// A UID can have several lives, one after the other: a static pod that its source removed
// and wants again keeps it.

// Renew begins a new life of a UID: its record is replaced by one that knows only that
// there was an earlier life. That happens in one write, so that an agent that is killed
// meanwhile does not take what is left of that life for the pod.
func (j *Journal) Renew(uid types.UID) {
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		pod := r.Pod
		*r = checkpoint.Record{EarlierLife: true}
		if pod != nil {
			describe(r, pod)
		}
		return checkpoint.Durable
	})
	j.forget(uid)
}

// EarlierLife reports whether the runtime may still have containers of an earlier life of
// the UID, whose ends do not count for the pod.
func (j *Journal) EarlierLife(uid types.UID) bool {
	r := j.keeper.Get(uid)
	return r != nil && r.EarlierLife
}

// EarlierLifeGone notes that they are removed. That is on the disk before the first
// container of the new life starts, which must not be taken for one of the earlier life.
func (j *Journal) EarlierLifeGone(ctx context.Context, uid types.UID) error {
	j.keeper.Update(uid, func(r *checkpoint.Record) checkpoint.Class {
		r.EarlierLife = false
		return checkpoint.Durable
	})
	return j.keeper.Sync(ctx, uid)
}

// staysStopped reports whether there is an exit after which a container of the pod is not
// run again.
func staysStopped(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool {
		return restartpolicy.Effective(pod, &c) != v1.RestartPolicyAlways
	})
}

// Drained removes the record of a pod that was stopped by a drain, so that it starts
// again when the node returns. The record of a pod that had ended by itself stays.
func (j *Journal) Drained(uid types.UID) {
	if r := j.keeper.Get(uid); r != nil && !r.Terminal() {
		j.Delete(uid)
	}
}
