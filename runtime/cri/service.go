package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Reader reads what a runtime holds: the part of a [RuntimeService] that a [View]
// needs.
type Reader interface {
	// Version returns the runtime's name and versions. apiVersion is the CRI
	// version the caller speaks, [APIVersion].
	Version(ctx context.Context, apiVersion string) (*runtimeapi.VersionResponse, error)
	// ListPodSandbox returns the sandboxes that match filter, stopped ones
	// included. A nil filter matches all.
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
	// ListContainers returns the containers that match filter, exited ones
	// included. A nil filter matches all.
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
	// PodSandboxStatus returns the sandbox's status, [runtime.ErrNotFound] if it does not exist.
	PodSandboxStatus(ctx context.Context, podSandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error)
	// ContainerStatus returns the container's status, [runtime.ErrNotFound] if it does not exist.
	ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
}

// SandboxManager changes sandboxes.
type SandboxManager interface {
	// RunPodSandbox creates and starts a sandbox and returns its ID.
	RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (string, error)
	// StopPodSandbox stops a sandbox and every container in it. Stopping a
	// stopped or unknown sandbox succeeds.
	StopPodSandbox(ctx context.Context, podSandboxID string) error
	// RemovePodSandbox removes a sandbox and every container in it. Removing
	// an unknown sandbox succeeds.
	RemovePodSandbox(ctx context.Context, podSandboxID string) error
}

// ContainerManager changes containers. For an unknown sandbox or container, a
// method returns [runtime.ErrNotFound] unless it says otherwise.
type ContainerManager interface {
	// CreateContainer creates a container in a sandbox and returns its ID.
	CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
	// StartContainer starts a created container.
	StartContainer(ctx context.Context, containerID string) error
	// StopContainer signals the container to stop and kills it after timeout seconds.
	// It returns once the container has stopped. Stopping a stopped container
	// succeeds; stopping an unknown one may succeed too.
	StopContainer(ctx context.Context, containerID string, timeout int64) error
	// RemoveContainer removes a container, stopping it by force if it runs.
	// Removing an unknown container succeeds.
	RemoveContainer(ctx context.Context, containerID string) error
	// ExecSync runs cmd in the container and waits for it. timeout 0 means no
	// limit. A non-zero exit is an error that implements
	// interface{ ExitStatus() int }, see [runtime.ExitError]; a run over timeout is
	// [runtime.ErrDeadline].
	ExecSync(ctx context.Context, containerID string, cmd []string, timeout time.Duration) (stdout []byte, stderr []byte, err error)
	// ReopenContainerLog makes the runtime reopen the container's log file after a
	// rotation. If the runtime writes no log for a running container, the error is
	// [runtime.ErrNoLog] or [runtime.ErrUnimplemented].
	ReopenContainerLog(ctx context.Context, containerID string) error
}

// RuntimeService is what the engine needs from a container runtime. It is the
// CRI RuntimeService of k8s.io/cri-api/pkg/apis narrowed to what is used.
//
// All methods may be called from any number of goroutines at once, may block, and must return soon after their
// context ends. Arguments belong to the caller: an implementation must not modify them, or retain them after
// returning. Results belong to the caller, which may keep them; but the objects of a list are read-only,
// because several lists may share an object. [Class] should understand the errors.
type RuntimeService interface {
	Reader
	SandboxManager
	ContainerManager

	// Status reports whether the runtime and its network are ready
	// (conditions RuntimeReady and NetworkReady).
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}

// EventStreamer is an optional ability of a [RuntimeService]: a stream of
// container events. Events are hints only, never state; see package pleg.
type EventStreamer interface {
	// GetContainerEvents sends events to containerEventsCh until the stream
	// or ctx ends, and returns why it ended. connectionEstablishedCallback, if
	// not nil, is called once the stream is up. The channel stays the caller's
	// and is not closed.
	GetContainerEvents(ctx context.Context, containerEventsCh chan *runtimeapi.ContainerEventResponse, connectionEstablishedCallback func(runtimeapi.RuntimeService_GetContainerEventsClient)) error
}

// ImageService is what the engine needs from an image store. It is the CRI
// ImageManagerService of k8s.io/cri-api/pkg/apis narrowed to what is used, with
// the concurrency contract of [RuntimeService].
type ImageService interface {
	// ListImages returns the images that match filter; nil means all.
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	// ImageStatus returns the image's status; an absent image has a nil Image
	// and no error.
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	// PullImage fetches an image and returns its reference. auth may be nil.
	PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, podSandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
	// RemoveImage removes an image. Removing an absent image succeeds.
	RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error
}

// APIVersion is the version string sent with Version requests
// (spec/runtime.md 23).
const APIVersion = "0.1.0"
