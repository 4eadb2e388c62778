package toyruntime

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// RunPodSandbox makes a sandbox, which is only a name: processes of the host share everything a sandbox
// is for. Its ID is made of the pod's UID and the attempt, so a second call for the same one fails.
func (r *Runtime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, _ string) (string, error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := fmt.Sprintf("%s_%d", config.GetMetadata().GetUid(), config.GetMetadata().GetAttempt())
	if r.sandboxes[id] != nil {
		return "", fmt.Errorf("sandbox %s: %w", id, runtime.ErrAlreadyExists)
	}
	r.sandboxes[id] = proto.CloneOf(&runtimeapi.PodSandboxStatus{
		Id: id, Metadata: config.GetMetadata(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(), CreatedAt: time.Now().UnixNano(),
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
	})
	return id, nil
}

// StopPodSandbox kills what runs in the sandbox; from then on nothing starts in it.
func (r *Runtime) StopPodSandbox(ctx context.Context, id string) error {
	r.mu.Lock()
	if s := r.sandboxes[id]; s != nil {
		s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	r.mu.Unlock()
	return r.eachContainer(ctx, id, func(c string) error { return r.StopContainer(ctx, c, 0) })
}

// RemovePodSandbox stops the sandbox, then removes its containers and the sandbox.
func (r *Runtime) RemovePodSandbox(ctx context.Context, id string) error {
	if err := r.StopPodSandbox(ctx, id); err != nil {
		return err
	}
	if err := r.eachContainer(ctx, id, func(c string) error { return r.RemoveContainer(ctx, c) }); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sandboxes, id)
	return nil
}

// eachContainer calls f with the ID of each container of a sandbox, until an error.
func (r *Runtime) eachContainer(ctx context.Context, sandbox string, f func(id string) error) error {
	list, err := r.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: sandbox})
	for _, c := range list {
		if err == nil {
			err = f(c.GetId())
		}
	}
	return err
}

// CreateContainer records what is to be started.
func (r *Runtime) CreateContainer(_ context.Context, sandbox string, config *runtimeapi.ContainerConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := fmt.Sprintf("%s_%s_%d", sandbox, config.GetMetadata().GetName(), config.GetMetadata().GetAttempt())
	if _, err := find(r.sandboxes, "sandbox", sandbox); err != nil {
		return "", err
	}
	if err := isHost(config.GetImage()); err != nil {
		return "", err
	}
	switch {
	case r.containers[id] != nil:
		return "", fmt.Errorf("container %s: %w", id, runtime.ErrAlreadyExists)
	case len(config.GetCommand())+len(config.GetArgs()) == 0:
		return "", fmt.Errorf("container %s has no command, and image %s has none either: %w", config.GetMetadata().GetName(), Image, runtime.ErrInvalid)
	}
	config = proto.CloneOf(config)
	r.containers[id] = &container{
		sandbox: sandbox, config: config, ended: make(chan struct{}),
		ContainerStatus: &runtimeapi.ContainerStatus{
			Id: id, Metadata: config.GetMetadata(), State: runtimeapi.ContainerState_CONTAINER_CREATED, CreatedAt: time.Now().UnixNano(),
			Image: config.GetImage(), ImageRef: Image, ImageId: Image, Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
			LogPath: filepath.Join(pod.GetLogDirectory(), config.GetLogPath()),
		},
	}
	return id, nil
}

// RemoveContainer kills the container and removes it.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	if err := r.StopContainer(ctx, id, 0); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
		return fmt.Errorf("container %s was started just now: %w", id, runtime.ErrFailedPrecondition)
	}
	delete(r.containers, id)
	return nil
}
