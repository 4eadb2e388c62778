package node

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// WorkerViews gives the workers the cache of what the runtime shows.
type WorkerViews struct{ *pleg.Generator }

var (
	_ podworkers.StatusPeeker  = WorkerViews{}
	_ podworkers.RunningLister = WorkerViews{}
)

var errNotSynced = errors.New("the runtime has not been read completely yet")

// Peek returns the newest view of a pod, stamped with the latest look that found the pod unchanged.
func (v WorkerViews) Peek(uid types.UID) (*runtime.PodStatus, error) {
	if !v.Synced() {
		return nil, errNotSynced
	}
	// In this order: a reading in between can only make the status newer.
	asOf := v.AsOf(uid)
	status, err := v.Get(uid)
	if err != nil || status == nil || status.Stamp >= asOf {
		return status, err
	}
	// A pod that relists find unchanged needs no look of its own.
	seen := *status
	seen.Stamp = asOf
	return &seen, nil
}

// Gone reports whether the runtime was seen to have nothing of a pod: its own last step has removed
// everything, or a later list lacks it. What turns up after that is noticed.
func (v WorkerViews) Gone(uid types.UID) bool {
	view, err := v.Get(uid)
	return err == nil && len(view.Sandboxes)+len(view.Containers) == 0
}

// KnownViews shows recovery the cache of what the runtime has.
type KnownViews struct{ *pleg.Generator }

// Known returns the pods that the runtime has.
func (v KnownViews) Known() []types.UID {
	pods := v.Dump().Pods
	uids := make([]types.UID, len(pods))
	for i, p := range pods {
		uids[i] = p.UID
	}
	return uids
}
