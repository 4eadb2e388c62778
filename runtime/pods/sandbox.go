package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/podorder"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/crashloop"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
)

// createSandbox makes the pod's folders and its sandbox and learns its addresses.
func (s *podSync) createSandbox(ctx context.Context) bool {
	m := s.m
	if s.held || !s.configureSandbox(ctx) {
		return false
	}
	if err := m.makeDirs(s.pod); err != nil {
		s.fail(stepCreateSandbox, s.pod.Name, reasonCreatePodSandboxError, err)
		m.podEvent(s.pod, v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
		return false
	}
	s.result.Acted = true
	id, err := s.runSandbox(ctx)
	if err != nil && ctx.Err() != nil {
		// The pod is to end; that is no failure of the sandbox (7.1).
		s.stopped(ctx.Err())
		return false
	}
	m.metrics.sandbox(ctx, err)
	if err != nil {
		s.fail(stepCreateSandbox, s.pod.Name, reasonCreatePodSandboxError, err)
		m.podEvent(s.pod, v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
		return false
	}
	m.tried(crashloop.Key{Pod: s.pod.UID})
	s.sandboxID = id
	if m.options.Allocations != nil {
		m.options.Allocations.noteGivenPod(s.pod.UID, criconfig.PodTotals(s.pod))
	}
	s.done(stepCreateSandbox, s.pod.Name, "", "")
	sandbox, err := m.sandboxStatus(ctx, id)
	if err != nil {
		if ctx.Err() != nil {
			s.stopped(ctx.Err())
			return false
		}
		s.fail(stepCreateSandbox, s.pod.Name, reasonCreatePodSandboxError, err)
		m.podEvent(s.pod, v1.EventTypeWarning, "FailedPodSandBoxStatus", "Unable to get pod sandbox status: %v", err)
		return false
	}
	latest := []*runtime.SandboxStatus{sandbox}
	s.podIPs = podorder.Addresses(latest)
	if m.options.SandboxReady != nil && !NeedsSandbox(s.pod, &runtime.PodStatus{Sandboxes: latest}) {
		m.options.SandboxReady(ctx, s.pod.UID, s.podIPs)
	}
	return true
}

// makeDirs makes the pod's directory and its log directory.
func (m *Manager) makeDirs(pod *v1.Pod) error {
	if err := m.dirs.Make(pod.UID); err != nil {
		return err
	}
	return m.makeLogDir(nil, logDirName(pod))
}

// sandboxStatus reads a new sandbox.
func (m *Manager) sandboxStatus(ctx context.Context, id string) (*runtime.SandboxStatus, error) {
	response, err := m.runtime.PodSandboxStatus(ctx, id, false)
	if err != nil {
		return nil, err
	}
	if response.GetStatus() == nil {
		return nil, errors.New("the runtime returned none")
	}
	return cri.NewSandboxStatus(response.GetStatus()), nil
}

// renames bounds how often a create moves on to the next number because its name is
// taken by something that the runtime does not list.
const renames = 3

// runSandbox creates the sandbox. After a call whose outcome is unknown it looks at what
// exists: it takes over a ready sandbox of this attempt and removes a dead one. It
// leaves the attempt that was used in config.
func (s *podSync) runSandbox(ctx context.Context) (string, error) {
	m, config := s.m, s.sandboxConfig
	for try := 0; ; try++ {
		var id string
		err := s.makes(ctx, "RunPodSandbox", "", func() (err error) {
			id, err = m.runtime.RunPodSandbox(ctx, config, s.handler)
			return err
		})
		if err == nil || !outcomeUnknown(err) || ctx.Err() != nil {
			return id, err
		}
		found, lookErr := m.findSandbox(ctx, config)
		if lookErr != nil {
			return "", errors.Join(err, lookErr)
		}
		switch {
		case found != nil && found.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY:
			m.options.Logger.Info("Took over a sandbox whose creation had not been answered",
				"podUID", config.Metadata.Uid, "sandbox", found.GetId())
			return found.GetId(), nil
		case found != nil:
			if err := m.removeSandbox(ctx, found.GetId()); err != nil {
				return "", err
			}
		case nameTaken(err):
			// The runtime reserves the name for something that it does not list, perhaps
			// indefinitely.
			if err := m.awaitName(s.pod.UID, "", config.Metadata.Attempt, err); err != nil {
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

// outcomeUnknown reports whether the object may exist in spite of the error.
func outcomeUnknown(err error) bool {
	return cri.MayHaveActed(err) || nameTaken(err)
}

// nameTaken reports whether the name is in use. containerd says so only in its text.
func nameTaken(err error) bool {
	return cri.Class(err) == runtime.ErrAlreadyExists || strings.Contains(err.Error(), "is reserved for")
}

// findSandbox looks for the sandbox of exactly this attempt.
func (m *Manager) findSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig) (*runtimeapi.PodSandbox, error) {
	list, err := m.runtime.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{runtime.LabelPodUID: config.Metadata.Uid},
	})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	for _, s := range list {
		if s.GetMetadata().GetAttempt() == config.Metadata.Attempt && m.view.Owns(s.GetLabels()) {
			return s, nil
		}
	}
	return nil, nil
}

// removeSandbox stops and removes a sandbox.
func (m *Manager) removeSandbox(ctx context.Context, id string) error {
	if err := m.runtime.StopPodSandbox(ctx, id); err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	return m.dropSandbox(ctx, id)
}

// dropSandbox removes a sandbox that was stopped.
func (m *Manager) dropSandbox(ctx context.Context, id string) error {
	if err := m.runtime.RemovePodSandbox(ctx, id); err != nil && !cri.IsNotFound(err) {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.stopped, id)
	return nil
}
