package pods

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// target is a container to stop.
type target struct {
	podUID   types.UID
	id       string
	name     string
	kind     meta.Kind
	index    int
	state    runtime.State
	preStop  *v1.LifecycleHandler
	ports    []v1.ContainerPort
	podIP    string
	grace    int64 // see terminationGrace
	ref      *v1.ObjectReference
	message  string
	why      string // for Doing, after the container's name
	finished chan struct{}
	activity *activity // while it is being stopped
	// keeper, if there is one, keeps a sidecar up until its turn. restarted is true
	// if the keeper had to start it again.
	keeper    *keeper
	restarted bool
}

// newTarget describes a container by its definition.
func newTarget(pod *v1.Pod, c member, id string, state runtime.State) *target {
	t := &target{
		podUID: pod.UID, id: id, name: c.spec.Name, kind: c.kind, index: c.index, state: state,
		ports: c.spec.Ports, ref: containerRef(pod, c),
		message: "Stopping container " + c.spec.Name, finished: make(chan struct{}),
	}
	if c.spec.Lifecycle != nil {
		t.preStop = c.spec.Lifecycle.PreStop
	}
	return t
}

// stop stops one container: event, hook, turn, stop (spec/runtime.md 16.2, 16.3).
// The time spent before the stop is taken off its grace. It succeeds if the
// container is gone.
func (m *Manager) stop(ctx context.Context, t *target, turn *turn) error {
	m.options.Events.Eventf(t.ref, v1.EventTypeNormal, "Killing", "%s", t.message)
	t.activity = &activity{what: "stopping container " + t.name + t.why, limit: timing.Seconds(t.grace), grace: true}
	defer m.doing.begin(t.podUID, t.activity)()
	left := t.grace
	if t.preStop != nil && left > 0 && t.state == runtime.Running {
		began := m.options.Clock.Now()
		// A hook that takes too long ends with its container at the latest.
		defer m.preStop(ctx, t)()
		left -= int64(m.options.Clock.Since(began) / time.Second)
	}
	if turn != nil && left > 0 {
		m.doing.at(t.activity, "which waits for its turn")
		left -= int64(m.awaitTurn(ctx, t, turn, timing.Seconds(left)) / time.Second)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stop container %s: %w", t.name, err)
	}
	m.doing.at(t.activity, "")
	return m.signal(ctx, t, left)
}

// awaitTurn waits until the container may be stopped, at most limit, and returns
// how long that took.
func (m *Manager) awaitTurn(ctx context.Context, t *target, turn *turn, limit time.Duration) time.Duration {
	if t.keeper != nil {
		return t.keeper.await(ctx, t, turn, limit)
	}
	return turn.wait(ctx, m.options.Clock, limit)
}

// signal tells the container to stop and waits until it has (spec/runtime.md 16.2,
// 16.6).
func (m *Manager) signal(ctx context.Context, t *target, left int64) error {
	atLeast, first := m.beginSignal(t.podUID, t.id)
	err := m.runtime.StopContainer(ctx, t.id, stopTimeout(left, atLeast, t.restarted))
	if err != nil && !cri.IsNotFound(err) {
		if first && cri.Class(err) == runtime.ErrUnavailable {
			// It may not have reached the container, which two seconds more do not harm.
			m.changeNote(t.podUID, t.id, func(n *stopNote) { n.signalled = time.Time{} })
		}
		return fmt.Errorf("stop container %s: %w", t.name, err)
	}
	m.forgetStop(t.podUID, t.id)
	return nil
}

// preStop runs the hook once, within the grace period. wait returns once the hook's
// goroutine has ended. If another kill of the container is running the hook, this one
// waits for it: a hook that was cut off with its kill has not run, and runs again within
// what is left of this grace (spec/runtime.md 15.3).
func (m *Manager) preStop(ctx context.Context, t *target) (wait func()) {
	m.doing.at(t.activity, "its preStop hook runs")
	over := m.options.Clock.NewTimer(timing.Seconds(t.grace))
	defer over.Stop()
	began := m.options.Clock.Now()
	for {
		run, mine := m.beginPreStop(t.podUID, t.id)
		if mine {
			return m.runPreStop(ctx, t, run, timing.Seconds(t.grace)-m.options.Clock.Since(began))
		}
		select {
		case <-run.over:
		case <-over.C():
			return func() {}
		case <-ctx.Done():
			return func() {}
		}
		if run.ran {
			return func() {}
		}
	}
}

// runPreStop runs the hook, for at most limit.
func (m *Manager) runPreStop(ctx context.Context, t *target, run *hookRun, limit time.Duration) (wait func()) {
	if limit <= 0 {
		m.endPreStop(t.podUID, t.id, run, false)
		return func() {}
	}
	wait, err := m.runHookWithin(ctx, limit, hook{
		podUID: t.podUID, handler: t.preStop, containerID: t.id, ports: t.ports, podIP: t.podIP,
		event: func(eventtype, reason, format string, args ...any) {
			ref := *t.ref
			ref.FieldPath = ""
			m.options.Events.Eventf(&ref, eventtype, reason, format, args...)
		},
	})
	if err != nil && ctx.Err() != nil {
		wait() // it never runs twice at once
		m.endPreStop(t.podUID, t.id, run, false)
		return func() {}
	}
	if err != nil {
		m.options.Events.Eventf(t.ref, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed%s", refusal(err))
		m.options.Logger.Info("PreStop hook failed", "podUID", t.podUID, "container", t.name, "error", err.Error())
	}
	// The runtime runs only commands: a hook that was not sent to it never reached the container, nor did an httpGet
	// hook whose pod's address could not be read.
	m.endPreStop(t.podUID, t.id, run, cri.Class(err) != runtime.ErrUnavailable || t.preStop.Exec != nil && cri.MayHaveActed(err))
	return wait
}
