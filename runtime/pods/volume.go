package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// VolumeManager makes the volumes that the engine does not make itself: CSI volumes,
// network file systems, block devices. It may also replace the engine for volumes that
// it does make (emptyDir, hostPath, image, configMap, secret, downwardAPI, projected).
//
// It is called from many goroutines at once, but never concurrently for one pod.
// Every method may be called again after a crash or an error and then continues from
// what it finds on the node; a call that has nothing to do succeeds. Calls may block,
// and must return soon after ctx ends. Pods and volumes are only read.
type VolumeManager interface {
	// Handles reports whether the manager makes this volume. It is asked before
	// the engine's own makers and must not block.
	Handles(pod *v1.Pod, volume *v1.Volume) bool
	// SetUp makes the volume ready. It is called before every start of a container
	// that uses the volume. Its error keeps the pod's containers waiting and appears
	// in events, so it must not contain secrets.
	SetUp(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (MountedVolume, error)
	// TearDown undoes SetUp for all volumes of a pod whose containers have
	// stopped. The pod's manifest may be gone by then, and the engine may have been
	// restarted. It fails while something is still mounted; the engine tries again.
	TearDown(ctx context.Context, uid types.UID) error
	// Mounted names the volumes of a pod that are or may be mounted. While it
	// names one, or fails, the pod's directory is kept (spec/cleanup.md OD2).
	Mounted(ctx context.Context, uid types.UID) ([]string, error)
}

// MountedVolume is a volume that is ready for containers.
type MountedVolume struct {
	// HostPath is where the volume is on the node; absolute. Empty for block
	// devices and images.
	HostPath string
	// DevicePath is the node of a block device; absolute. Empty for file systems.
	DevicePath string
	// Image is the reference of an image that the runtime itself mounts,
	// read-only. Empty for everything else.
	Image string
	// ReadOnly makes every mount of the volume read-only, and the device too.
	ReadOnly bool
	// SELinuxRelabel: the volume supports SELinux and has the container's label
	// put on its files when it, or a part of it, is mounted (spec/runtime.md 12.3).
	SELinuxRelabel bool
	// FSGroup: the engine gives the files to the pod's fsGroup, as the pod's
	// fsGroupChangePolicy says, once before the pod first uses the volume.
	FSGroup bool
	// Groups are supplemental groups that users of the volume need
	// (spec/runtime.md 14.8).
	Groups []int64
	// SizeLimit is how many bytes the pod may keep in the volume, 0 for no
	// limit. The kernel limits memory; eviction watches disk.
	SizeLimit int64
}
