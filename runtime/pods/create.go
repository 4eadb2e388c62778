package pods

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// createContainer creates a container. As with sandboxes, after a call whose outcome is
// unknown it looks at what exists. What another call has made is not taken over: an earlier
// agent may have made it with a ConfigMap or Secret that has changed since. It leaves the
// attempt that was used in config.
func (s *podSync) createContainer(ctx context.Context, config *runtimeapi.ContainerConfig) (string, error) {
	m := s.m
	for try := 0; ; try++ {
		var id string
		err := s.makes(ctx, "CreateContainer", config.Metadata.Name, func() (err error) {
			id, err = m.runtime.CreateContainer(ctx, s.sandboxID, config, s.sandboxConfig)
			return err
		})
		if err == nil || !outcomeUnknown(err) || ctx.Err() != nil {
			return id, err
		}
		found, lookErr := m.findContainer(ctx, s.sandboxID, config)
		if lookErr != nil {
			return "", errors.Join(err, lookErr)
		}
		switch {
		case found != nil && cri.ContainerState(found.GetState()) == runtime.Running:
			return "", fmt.Errorf("a container of this name runs already: %w", err)
		case found != nil && adoptable(found, config) && !nameTaken(err):
			m.options.Logger.Info("Took over a container whose creation had not been answered",
				"podUID", config.Labels[runtime.LabelPodUID], "container", config.Metadata.Name)
			return found.GetId(), nil
		case found != nil:
			if err := s.makeRoom(ctx, found); err != nil {
				return "", err
			}
		case nameTaken(err):
			if err := m.awaitName(s.pod.UID, config.Metadata.Name, config.Metadata.Attempt, err); err != nil {
				return "", err
			}
			config.Metadata.Attempt++
		default:
			return "", err
		}
		if try == renames {
			return "", err
		}
	}
}

// makeRoom removes a container that has the number of the next one. One that has ended has it if a
// reserved name made it skip its own; its exit state is stored first.
func (s *podSync) makeRoom(ctx context.Context, found *runtimeapi.Container) error {
	id := found.GetId()
	if cri.ContainerState(found.GetState()) == runtime.Created {
		return s.m.dropRecord(ctx, found.GetMetadata().GetName(), runtime.ContainerID{ID: id})
	}
	if s.status != nil {
		for _, record := range s.status.Containers {
			if record.ID.ID == id {
				return s.m.removeRecord(ctx, s.pod.UID, record.Name, record.ID)
			}
		}
	}
	return errStartedMeanwhile // the next sync sees it
}

// adoptable reports whether a container that was found has the same definition and
// was never started.
func adoptable(found *runtimeapi.Container, config *runtimeapi.ContainerConfig) bool {
	return cri.ContainerState(found.GetState()) == runtime.Created &&
		found.GetAnnotations()[runtime.AnnotationHash] == config.Annotations[runtime.AnnotationHash]
}

// findContainer looks for the container of exactly this attempt.
func (m *Manager) findContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig) (*runtimeapi.Container, error) {
	list, err := m.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{
		PodSandboxId: sandboxID,
		LabelSelector: map[string]string{
			runtime.LabelPodUID:        config.Labels[runtime.LabelPodUID],
			runtime.LabelContainerName: config.Metadata.Name,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	for _, c := range list {
		if c.GetMetadata().GetAttempt() == config.Metadata.Attempt && m.view.Owns(c.GetLabels()) {
			return c, nil
		}
	}
	return nil, nil
}

// startCreated starts a container. If the call may have taken effect, the container's state
// says whether it did.
func (s *podSync) startCreated(ctx context.Context, name, id string) error {
	err := s.makes(ctx, "StartContainer", name, func() error { return s.m.runtime.StartContainer(ctx, id) })
	if err == nil || !cri.MayHaveActed(err) || ctx.Err() != nil {
		return err
	}
	response, lookErr := s.m.runtime.ContainerStatus(ctx, id, false)
	if lookErr != nil {
		return errors.Join(err, lookErr)
	}
	if response.GetStatus().GetStartedAt() <= 0 {
		return err
	}
	return nil
}

// removeRecord removes a container that does not run, after its exit state is stored.
// Its logs stay.
func (m *Manager) removeRecord(ctx context.Context, uid types.UID, name string, id runtime.ContainerID) error {
	if err := m.storeEnd(ctx, uid, name, id); err != nil {
		return err
	}
	return m.dropRecord(ctx, name, id)
}

// dropRecord removes a container whose exit state is stored.
func (m *Manager) dropRecord(ctx context.Context, name string, id runtime.ContainerID) error {
	if err := m.runtime.RemoveContainer(ctx, id.ID); err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("remove container %s: %w", name, err)
	}
	return nil
}

// storeEnd has the caller store the exit state of a container.
func (m *Manager) storeEnd(ctx context.Context, uid types.UID, name string, id runtime.ContainerID) error {
	if m.options.BeforeRemove == nil {
		return nil
	}
	if err := m.options.BeforeRemove(ctx, uid, name, id); err != nil {
		return fmt.Errorf("container %s is kept: %w", name, err)
	}
	return nil
}
