package eviction

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// Signal names an amount that is available on a node.
type Signal string

// Signals. Memory and file systems are measured in bytes; the others are counts.
const (
	MemoryAvailable   Signal = "memory.available"
	NodeFsAvailable   Signal = "nodefs.available"
	NodeFsInodesFree  Signal = "nodefs.inodesFree"
	ImageFsAvailable  Signal = "imagefs.available"
	ImageFsInodesFree Signal = "imagefs.inodesFree"
	PIDAvailable      Signal = "pid.available"
)

// Observation is one reading of a signal, in its unit: bytes, a count, or the unit of an [OwnSignal].
type Observation struct {
	Available, Capacity uint64
	// Low is a direct verdict: every limit of the signal is met, whatever the amounts.
	Low bool
	// Message adds to that of the [OwnSignal]; empty: nothing. A message that changes often causes
	// frequent writes of the node's status.
	Message string
}

// Usage is what a pod uses. What could not be read is 0.
type Usage struct {
	Memory uint64 // bytes that cannot be dropped: without unused file pages
	Disk   uint64 // bytes of its volumes, logs and container layers
	Inodes uint64
	PIDs   uint64
}

// Stats reads what is available and what pods use. Its calls should end with their contexts. They
// come one at a time as long as they return soon; otherwise Pod is called for many pods at once.
type Stats interface {
	// Node returns the signals that can be read now. A missing signal decides nothing; the error,
	// which may come together with readings, says what is missing.
	Node(ctx context.Context) (map[Signal]Observation, error)
	// Pod returns the pod's usage of the signal's resource; other fields may be 0. It is called
	// only when a limit is due. In a pass, all calls for pods that may be evicted together have 7 s, and
	// those for pods that are being stopped 3 s; the context ends in time: a usage counts also together
	// with an error, and a pod without one counts as using nothing. A call that has not returned is not
	// made again, and while 1,024 have not, others are made only as long as they return.
	Pod(ctx context.Context, pod *v1.Pod, signal Signal) (Usage, error)
}

// kind describes what a signal is about.
type kind struct {
	condition v1.NodeConditionType
	// resource is the resource's name in messages, and in requests if pods have any.
	resource v1.ResourceName
	// urgency orders limits that are due together.
	urgency int
	// disk: space can be reclaimed without stopping pods.
	disk bool
	// bytes says that amounts are printed as bytes.
	bytes bool
	used  func(Usage) uint64
	// own: the signal is the embedding program's; message says what its condition means.
	own     bool
	message string
}

// kinds returns what each signal is about.
func kinds() map[Signal]kind {
	memory := func(u Usage) uint64 { return u.Memory }
	disk := func(u Usage) uint64 { return u.Disk }
	inodes := func(u Usage) uint64 { return u.Inodes }
	return map[Signal]kind{
		MemoryAvailable:   {condition: v1.NodeMemoryPressure, resource: v1.ResourceMemory, urgency: 0, bytes: true, used: memory},
		PIDAvailable:      {condition: v1.NodePIDPressure, resource: "pids", urgency: 1, used: func(u Usage) uint64 { return u.PIDs }},
		NodeFsAvailable:   {condition: v1.NodeDiskPressure, resource: v1.ResourceEphemeralStorage, urgency: 2, disk: true, bytes: true, used: disk},
		NodeFsInodesFree:  {condition: v1.NodeDiskPressure, resource: "inodes", urgency: 3, disk: true, used: inodes},
		ImageFsAvailable:  {condition: v1.NodeDiskPressure, resource: v1.ResourceEphemeralStorage, urgency: 4, disk: true, bytes: true, used: disk},
		ImageFsInodesFree: {condition: v1.NodeDiskPressure, resource: "inodes", urgency: 5, disk: true, used: inodes},
	}
}

func (s Signal) kind() kind { return kinds()[s] }
