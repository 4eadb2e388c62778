package runtime

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// State is the state of a container or sandbox. For a sandbox, Running means
// ready and Exited means not ready.
type State uint8

// States. The zero value is Unknown, which is also what an unrecognised runtime
// state becomes.
const (
	Unknown State = iota
	Created
	Running
	Exited
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case Created:
		return "created"
	case Running:
		return "running"
	case Exited:
		return "exited"
	default:
		return "unknown"
	}
}

// ContainerID names a container at a runtime, in the form Kubernetes statuses
// use: "containerd://4f2a…".
type ContainerID struct {
	// Runtime is the runtime's name, as its Version call reports it.
	Runtime string
	// ID is the runtime's own ID, unique at that runtime.
	ID string
}

// String returns "runtime://id", or "" for the zero ContainerID.
func (c ContainerID) String() string {
	if c == (ContainerID{}) {
		return ""
	}
	return c.Runtime + "://" + c.ID
}

// IsZero reports whether c names no container.
func (c ContainerID) IsZero() bool { return c == ContainerID{} }

// ParseContainerID is the inverse of String. The empty string gives the zero
// ContainerID; anything without "://" and an ID is an error.
func ParseContainerID(s string) (ContainerID, error) {
	if s == "" {
		return ContainerID{}, nil
	}
	name, id, ok := strings.Cut(s, "://")
	if !ok || id == "" {
		return ContainerID{}, fmt.Errorf("container ID %q: want runtime://id", s)
	}
	return ContainerID{Runtime: name, ID: id}, nil
}

// Pod is what the runtime lists for one pod: its sandboxes and containers, dead
// ones included. A Pod has at least one of either. It is a snapshot; holders
// must treat it as read-only.
type Pod struct {
	UID       types.UID
	Name      string
	Namespace string

	// Sandboxes, latest first: by attempt, then creation, then ID.
	Sandboxes []*Sandbox
	// Containers, newest first by creation; of one name the latest run first,
	// whatever the clock said.
	Containers []*Container
	// Stamp was drawn before the list was read.
	Stamp Stamp
}

// Running reports whether the pod has a running container or a ready sandbox.
func (p *Pod) Running() bool {
	for _, s := range p.Sandboxes {
		if s.State == Running {
			return true
		}
	}
	for _, c := range p.Containers {
		if c.State == Running {
			return true
		}
	}
	return false
}

// Sandbox is a listed sandbox.
type Sandbox struct {
	ID        string
	State     State
	Attempt   uint32
	CreatedAt time.Time
}

// Container is a listed container.
type Container struct {
	ID ContainerID
	// Name is empty if only a record has named the container; see [Container.Recalled].
	Name      string
	SandboxID string
	State     State
	Attempt   uint32
	CreatedAt time.Time
	// Annotations as written at creation. Read-only.
	Annotations map[string]string
}

// Recalled reports that only a record has named the container: no list and no reading has shown it yet. It may have ended,
// or be one of another pod or owner, so it must not be stopped (spec/pleg.md R15).
func (c *Container) Recalled() bool { return c.Name == "" }

// PodStatus is one full reading of a pod at the runtime. It is shared between
// readers: treat it and everything it points to as read-only.
type PodStatus struct {
	UID       types.UID
	Name      string
	Namespace string

	// IPs of the latest sandbox if it is ready, primary first; nil otherwise.
	// A pod on the host network has none here.
	IPs []string
	// Sandboxes, latest first.
	Sandboxes []*SandboxStatus
	// Containers of all sandboxes, newest first by creation; of one name the latest
	// run first, whatever the clock said.
	Containers []*ContainerStatus

	// Stamp was drawn before the reading began: the status is at least as new.
	Stamp Stamp
	// ObservedAt is the wall time at which the reading began, for display.
	ObservedAt time.Time
}

// Container returns the newest status of the container with this name, or nil.
func (s *PodStatus) Container(name string) *ContainerStatus {
	if s == nil {
		return nil
	}
	for _, c := range s.Containers {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Running reports whether the pod has a running container or a ready sandbox.
func (s *PodStatus) Running() bool {
	if s == nil {
		return false
	}
	for _, b := range s.Sandboxes {
		if b.State == Running {
			return true
		}
	}
	return s.ContainersRunning()
}

// ContainersRunning reports whether a container runs.
func (s *PodStatus) ContainersRunning() bool {
	if s == nil {
		return false
	}
	for _, c := range s.Containers {
		if c.State == Running {
			return true
		}
	}
	return false
}

// SandboxStatus is the full status of a sandbox.
type SandboxStatus struct {
	ID        string
	State     State
	Attempt   uint32
	CreatedAt time.Time
	// RuntimeHandler is the handler the sandbox was made with; empty for the default one,
	// and if the runtime does not report it.
	RuntimeHandler string
	// HostNetwork is true if the sandbox shares the node's network namespace.
	HostNetwork bool
	// HasNetwork is true if the runtime reported a network status at all; with
	// HasNetwork and an empty IP the sandbox has lost its address.
	HasNetwork bool
	// IP is the primary address, empty if none; AdditionalIPs the others.
	IP            string
	AdditionalIPs []string
	// Labels and Annotations as written at creation. Read-only.
	Labels      map[string]string
	Annotations map[string]string
}

// ContainerStatus is the full status of a container.
type ContainerStatus struct {
	ID        ContainerID
	Name      string
	SandboxID string
	State     State

	CreatedAt time.Time
	// StartedAt is zero while the container is Created.
	StartedAt time.Time
	// FinishedAt, ExitCode, Reason and Message are set only when Exited.
	FinishedAt time.Time
	ExitCode   int32
	Reason     string
	Message    string

	// Image is the image as the runtime names it; ImageRef what was resolved
	// when the container was created; ImageID the image's ID in the store.
	Image    string
	ImageRef string
	ImageID  string

	// RestartCount and Hash come from the annotations; 0 if absent or malformed.
	RestartCount int
	Hash         uint64
	// LogPath is the absolute path of the log file, empty if unknown.
	LogPath string
	// Labels and Annotations as written at creation. Read-only.
	Labels      map[string]string
	Annotations map[string]string
	// Mounts: container path to host path.
	Mounts map[string]string
	// MountedImages are the images that it has mounted as volumes, by the names or IDs
	// that the runtime was given.
	MountedImages []string
	// RecursiveReadOnly are the container paths of mounts that are read-only with
	// everything mounted below them.
	RecursiveReadOnly []string
	// User is what the container's first process runs as; nil if the runtime does not say.
	User *User
	// StopSignal is the signal that stops the container, such as SIGUSR1; empty if it is
	// the runtime's default, or not reported.
	StopSignal string
	// Resources are what the runtime reports; zero if it does not.
	Resources Resources
}

// User is the identity of a process.
type User struct {
	UID, GID int64
	// Groups are the supplemental groups.
	Groups []int64
}

// Listed returns the pod as a list would show it.
func (s *PodStatus) Listed() *Pod {
	pod := &Pod{UID: s.UID, Name: s.Name, Namespace: s.Namespace, Stamp: s.Stamp}
	for _, sandbox := range s.Sandboxes {
		pod.Sandboxes = append(pod.Sandboxes, sandbox.Listed())
	}
	for _, c := range s.Containers {
		pod.Containers = append(pod.Containers, c.Listed())
	}
	return pod
}

// Listed returns the sandbox as a list would show it.
func (s *SandboxStatus) Listed() *Sandbox {
	return &Sandbox{ID: s.ID, State: s.State, Attempt: s.Attempt, CreatedAt: s.CreatedAt}
}

// Listed returns the container as a list would show it.
func (c *ContainerStatus) Listed() *Container {
	return &Container{
		ID: c.ID, Name: c.Name, SandboxID: c.SandboxID, State: c.State,
		Attempt: uint32(max(c.RestartCount, 0)), CreatedAt: c.CreatedAt, Annotations: c.Annotations,
	}
}
