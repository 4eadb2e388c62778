package node

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime/pods"
)

// Contents are what pods leave behind, for the housekeeper. Removals that take too long are
// listed.
type Contents struct {
	*pods.Manager
	Calls *foreign.Calls
}

var (
	_ cleanup.Content = Contents{}
	_ cleanup.Dated   = Contents{}
)

// Changed is when something of a pod was last changed.
func (c Contents) Changed(step cleanup.Step, uid types.UID) time.Time {
	if step == cleanup.StepLogs {
		return c.LogDirChanged(uid)
	}
	return c.PodDirChanged(uid)
}

// watch lists a removal.
func (c Contents) watch(uid types.UID, what string) (done func()) {
	return c.Calls.Watch(foreign.Call{Kind: problem.Removal, Name: what, UID: uid, Object: string(uid), Patience: problem.RemovalLimit})
}

// RemovePod removes what the runtime has of a pod.
func (c Contents) RemovePod(ctx context.Context, uid types.UID) error {
	defer c.watch(uid, "the removal of its containers")()
	return c.Manager.RemovePod(ctx, uid)
}

// RemoveLogs removes a pod's log folder.
func (c Contents) RemoveLogs(ctx context.Context, uid types.UID) error {
	defer c.watch(uid, "the removal of its logs")()
	return c.Manager.RemoveLogs(ctx, uid)
}

// RemovePodDir removes a pod's folder.
func (c Contents) RemovePodDir(ctx context.Context, uid types.UID) error {
	defer c.watch(uid, "the removal of its folder")()
	return c.Manager.RemovePodDir(ctx, uid)
}
