package node

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
)

// CgroupTree is an optional ability of what keeps pods' cgroups: it finds cgroups that gone pods
// have left behind.
type CgroupTree interface {
	// List returns the pods that have a cgroup.
	List() ([]types.UID, error)
	// ReduceCPU gives a pod's cgroup the smallest possible weight.
	ReduceCPU(uid types.UID) error
}

// PodVolumes knows which pods have volumes, and removes cgroups.
type PodVolumes interface {
	HasVolumes(ctx context.Context, uid types.UID) (bool, error)
	DestroyCgroup(ctx context.Context, uid types.UID) error
}

// PodCgroupsOf returns what housekeeping sees of cgroups, nil if there are none.
func PodCgroupsOf(cgroups any, volumes PodVolumes) cleanup.Cgroups {
	tree, ok := cgroups.(CgroupTree)
	if !ok {
		return nil
	}
	return PodCgroups{CgroupTree: tree, PodVolumes: volumes}
}

// PodCgroups shows the pods' cgroups to housekeeping.
type PodCgroups struct {
	CgroupTree
	PodVolumes
}

// Destroy removes a pod's cgroup.
func (c PodCgroups) Destroy(ctx context.Context, uid types.UID) error {
	return c.DestroyCgroup(ctx, uid)
}
