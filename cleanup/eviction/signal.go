package eviction

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// Signal names an amount that is available on a node.
type Signal string

// Signals. Memory and file systems count bytes; the others count pieces.
const (
	MemoryAvailable   Signal = "memory.available"
	NodeFsAvailable   Signal = "nodefs.available"
	NodeFsInodesFree  Signal = "nodefs.inodesFree"
	ImageFsAvailable  Signal = "imagefs.available"
	ImageFsInodesFree Signal = "imagefs.inodesFree"
	PIDAvailable      Signal = "pid.available"
)

// Observation is one reading of a signal, in its unit: bytes or pieces.
type Observation struct {
	Available, Capacity uint64
}

// Usage is what a pod uses. What could not be read is 0.
type Usage struct {
	Memory uint64 // bytes that cannot be dropped: without unused file pages
	Disk   uint64 // bytes of its volumes, logs and container layers
	Inodes uint64
	PIDs   uint64
}

// Stats reads what is available and what pods use. It is called by one goroutine at a
// time and should end with its context.
type Stats interface {
	// Node returns the signals that can be read now. A missing signal decides
	// nothing; the error, which may come along with readings, says what is missing.
	Node(ctx context.Context) (map[Signal]Observation, error)
	// Pod returns what the pod uses of what the signal is about; other fields may
	// be 0. It is asked only when a limit is due.
	Pod(ctx context.Context, pod *v1.Pod, signal Signal) (Usage, error)
}

// kind is what a signal is about.
type kind struct {
	condition v1.NodeConditionType
	// resource is its name in messages, and in requests if pods have any.
	resource v1.ResourceName
	// urgency orders limits that are due together.
	urgency int
	// disk: space can be reclaimed without stopping pods.
	disk bool
	// bytes says how amounts are printed.
	bytes bool
	used  func(Usage) uint64
}

// kinds returns what the signals are about.
func kinds() map[Signal]kind {
	memory := func(u Usage) uint64 { return u.Memory }
	disk := func(u Usage) uint64 { return u.Disk }
	inodes := func(u Usage) uint64 { return u.Inodes }
	return map[Signal]kind{
		MemoryAvailable:   {v1.NodeMemoryPressure, v1.ResourceMemory, 0, false, true, memory},
		PIDAvailable:      {v1.NodePIDPressure, "pids", 1, false, false, func(u Usage) uint64 { return u.PIDs }},
		NodeFsAvailable:   {v1.NodeDiskPressure, v1.ResourceEphemeralStorage, 2, true, true, disk},
		NodeFsInodesFree:  {v1.NodeDiskPressure, "inodes", 3, true, false, inodes},
		ImageFsAvailable:  {v1.NodeDiskPressure, v1.ResourceEphemeralStorage, 4, true, true, disk},
		ImageFsInodesFree: {v1.NodeDiskPressure, "inodes", 5, true, false, inodes},
	}
}

func (s Signal) kind() kind { return kinds()[s] }
