package node

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/runtime/pods"
)

// Contents are what pods leave behind, for the housekeeper.
type Contents struct{ *pods.Manager }

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
