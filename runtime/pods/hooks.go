package pods

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/cri"
)

// hook is a lifecycle hook of one container.
type hook struct {
	podUID      types.UID
	handler     *v1.LifecycleHandler
	containerID string
	ports       []v1.ContainerPort
	// podIP is the pod's address if the caller knows it; otherwise the hook looks for it.
	podIP string
	// event raises an event on the pod.
	event func(eventtype, reason, format string, args ...any)
	// answered is set once a server has answered: then the hook has succeeded, whenever it ends.
	answered *atomic.Bool
}

// runHook runs a lifecycle hook to its end (spec/runtime.md 15).
func (m *Manager) runHook(ctx context.Context, h hook) error {
	switch {
	case h.handler.Exec != nil:
		_, _, err := m.runtime.ExecSync(ctx, h.containerID, h.handler.Exec.Command, 0)
		return err
	case h.handler.HTTPGet != nil:
		return m.httpHook(ctx, h)
	case h.handler.Sleep != nil:
		return m.sleepHook(ctx, h.handler.Sleep.Seconds)
	}
	return errors.New("the hook has none of exec, httpGet and sleep")
}

// runHookWithin is runHook for at most limit; 0 means no limit. A hook that takes
// longer is cancelled, and has failed unless its server has answered. The caller must call wait, which returns once the hook's
// goroutine has ended.
func (m *Manager) runHookWithin(ctx context.Context, limit time.Duration, h hook) (wait func(), err error) {
	hookCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.answered = new(atomic.Bool)
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- m.runHook(hookCtx, h)
	}()
	var over <-chan time.Time
	if limit > 0 {
		timer := m.options.Clock.NewTimer(limit)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case err = <-ended:
	case <-over:
		if !h.answered.Load() {
			err = fmt.Errorf("the hook did not end within %s", limit)
		}
	case <-ctx.Done():
		select {
		case err = <-ended:
		default:
			err = ctx.Err()
		}
	}
	return func() { <-done }, err
}

// podAddress returns the address at which the node reaches a pod: that of its newest
// sandbox, or the node's if the sandbox is on the node's network. It asks the runtime,
// because a kill may know nothing of the pod but the IDs of its containers.
func (m *Manager) podAddress(ctx context.Context, uid types.UID) (address string, hostNetwork bool, err error) {
	listed, err := m.view.ListPod(ctx, uid)
	if err != nil {
		return "", false, fmt.Errorf("look for the pod's address: %w", err)
	}
	if listed == nil || len(listed.Sandboxes) == 0 {
		return "", false, errors.New("the pod has no sandbox, and so no address")
	}
	response, err := m.runtime.PodSandboxStatus(ctx, listed.Sandboxes[0].ID, false)
	if err != nil {
		return "", false, fmt.Errorf("look for the pod's address: %w", err)
	}
	sandbox := cri.NewSandboxStatus(response.GetStatus())
	address = sandbox.IP
	if sandbox.HostNetwork {
		address = firstIP(m.options.HostIPs())
	}
	switch {
	case address == "" && sandbox.HostNetwork:
		return "", true, errors.New("the pod is on the node's network, and the node's addresses are not known")
	case address == "":
		return "", false, errors.New("the pod has no address")
	}
	return address, sandbox.HostNetwork, nil
}

func (m *Manager) sleepHook(ctx context.Context, seconds int64) error {
	if seconds < 0 {
		return fmt.Errorf("sleep of %d s", seconds)
	}
	return timing.Sleep(ctx, m.options.Clock, timing.Seconds(seconds))
}
