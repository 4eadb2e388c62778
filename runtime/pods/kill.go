package pods

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// KillPod stops every container and every sandbox of a pod and returns nil once
// the runtime shows nothing running (spec/runtime.md 16). Nothing is removed.
//
// status is what the runtime showed; nil means that the manager asks the runtime.
// graceOverride, in seconds, wins over every grace period of the pod. Without a
// pod, labels and annotations say how to stop it. KillPod may be called again while an
// earlier call for the same pod still runs, with another grace.
//
// It is an error if pod and status are both nil.
func (m *Manager) KillPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus, graceOverride *int64) error {
	var k podKill
	if m.options.KeepSidecars && status == nil && pod != nil && hasSidecar(pod) {
		// Keeping its sidecars up takes more than the lists show.
		var err error
		if status, err = m.view.Read(ctx, pod.UID); err != nil {
			return fmt.Errorf("kill pod: %w", err)
		}
	}
	switch {
	case status != nil:
		k = killOfStatus(pod, status)
	case pod != nil:
		listed, err := m.view.ListPod(ctx, pod.UID)
		if err != nil {
			return fmt.Errorf("kill pod: %w", err)
		}
		k = podKill{uid: pod.UID, pod: pod}
		if listed != nil {
			k = killOfListed(pod, listed)
		}
	default:
		return errors.New("kill pod: neither a pod nor a status is given")
	}
	k.status = status
	return m.killAndCheck(ctx, k, graceOverride)
}

// KillRuntimePod is KillPod for a pod that only the runtime knows. Without an
// override it has a grace of 1 s (spec/runtime.md 16.7).
func (m *Manager) KillRuntimePod(ctx context.Context, pod *runtime.Pod, graceOverride *int64) error {
	if graceOverride == nil {
		grace := int64(orphanGrace)
		graceOverride = &grace
	}
	return m.killAndCheck(ctx, killOfListed(nil, pod), graceOverride)
}

// listPatience is how long KillListed waits for the answer of each list call. A runtime that does not describe a pod may
// never answer this call either, and the pod's worker must notice when the runtime recovers (IN1).
const listPatience = 30 * time.Second

// KillListed is KillPod for a pod that the runtime lists but does not describe, or that lists lack: it returns nil once
// every stop has succeeded, without checking again. Sidecars stop in their turn; one that ends earlier is not started
// again. It is an error if only a record names a container: that may be one of another pod, so it is not stopped (spec/pleg.md R15).
func (m *Manager) KillListed(ctx context.Context, pod *v1.Pod, graceOverride *int64) error {
	limited, cancel := timing.WithCallTimeout(ctx, m.options.Clock, listPatience)
	listed, err := m.view.ListPod(limited, pod.UID)
	cancel()
	if err != nil {
		return fmt.Errorf("kill pod: %w", err)
	}
	listed, unread := m.withHidden(listed, pod.UID)
	if listed != nil {
		err = m.kill(ctx, killOfListed(pod, listed), graceOverride)
	}
	if err == nil && unread != "" {
		err = fmt.Errorf("kill pod: the runtime does not list container %s and has not described it yet", unread)
	}
	return err
}

// withHidden returns a listed pod with what runs and the list lacks, nil if there is nothing, and the ID of a container that
// only a record names.
func (m *Manager) withHidden(listed *runtime.Pod, uid types.UID) (pod *runtime.Pod, unread string) {
	if m.options.Hidden == nil {
		return listed, ""
	}
	var pods []*runtime.Pod
	if listed != nil {
		pods = append(pods, listed)
	}
	for _, p := range m.options.Hidden(pods) {
		if p.UID == uid {
			pod = p
		}
	}
	if pod != nil {
		for _, c := range pod.Containers {
			if c.Recalled() {
				unread = c.ID.ID
			}
		}
	}
	return pod, unread
}

// podKill is what has to be stopped of a pod.
type podKill struct {
	uid       types.UID
	name      string
	namespace string
	pod       *v1.Pod // nil for an orphan
	// status is what the runtime showed, for sidecars that are kept up while
	// the pod ends; nil if no sidecar is.
	status     *runtime.PodStatus
	podIP      string
	sandboxes  []string
	containers []killable
	// reasons are why single containers would have to stop even if the pod did not.
	reasons []actions.Kill
	// alive is true if a container may run or a sandbox is ready.
	alive bool
}

// killable is a container that may be running.
type killable struct {
	id          string
	name        string
	state       runtime.State
	annotations map[string]string
}

func (k *podKill) empty() bool { return len(k.sandboxes) == 0 && len(k.containers) == 0 }

// mayRun reports whether a container in this state has to be stopped. One in an
// unknown state may well run.
func mayRun(s runtime.State) bool { return s == runtime.Running || s == runtime.Unknown }

func killOfStatus(pod *v1.Pod, status *runtime.PodStatus) podKill {
	if status == nil {
		return podKill{uid: pod.UID, pod: pod}
	}
	k := podKill{
		uid: status.UID, name: status.Name, namespace: status.Namespace, pod: pod, podIP: firstIP(status.IPs),
	}
	for _, s := range status.Sandboxes {
		k.sandboxes = append(k.sandboxes, s.ID)
		k.alive = k.alive || mayRun(s.State)
	}
	for _, c := range status.Containers {
		if mayRun(c.State) {
			k.containers = append(k.containers, killable{c.ID.ID, c.Name, c.State, c.Annotations})
		}
	}
	k.alive = k.alive || len(k.containers) > 0
	return k
}

// killOfListed is what has to be stopped of a listed pod, without what only a record names.
func killOfListed(pod *v1.Pod, listed *runtime.Pod) podKill {
	k := podKill{uid: listed.UID, name: listed.Name, namespace: listed.Namespace, pod: pod}
	for _, s := range listed.Sandboxes {
		k.sandboxes = append(k.sandboxes, s.ID)
	}
	for _, c := range listed.Containers {
		if mayRun(c.State) && !c.Recalled() {
			k.containers = append(k.containers, killable{c.ID.ID, c.Name, c.State, c.Annotations})
		}
	}
	return k
}

// killAndCheck kills and then checks whether anything still runs (spec/runtime.md
// 16.8).
func (m *Manager) killAndCheck(ctx context.Context, k podKill, override *int64) error {
	if err := m.kill(ctx, k, override); err != nil {
		if k.pod != nil && ctx.Err() == nil {
			m.killFailed(k, err)
		}
		return err
	}
	running, err := m.stillRunning(ctx, k.uid)
	for _, wait := range checkPauses {
		if err != nil || len(running) == 0 || timing.Sleep(ctx, m.options.Clock, wait) != nil {
			break
		}
		running, err = m.stillRunning(ctx, k.uid)
	}
	if err != nil {
		return fmt.Errorf("look for what still runs of the pod: %w", err)
	}
	if len(running) > 0 {
		return fmt.Errorf("still running after the kill: %v", running)
	}
	return nil
}

// checkPauses are the pauses between checks for what a kill has left running. A runtime
// may answer a stop a moment before it records the end: containerd 2 does so for the
// sandbox of a pod on the node's network.
var checkPauses = [...]time.Duration{10 * time.Millisecond, 40 * time.Millisecond, 200 * time.Millisecond}

// stillRunning names what of the pod still runs.
func (m *Manager) stillRunning(ctx context.Context, uid types.UID) (out []string, err error) {
	note := func(name string, state runtime.State) {
		if state == runtime.Running {
			out = append(out, name)
		}
	}
	if m.options.Reader != nil {
		status, err := m.options.Reader.Read(ctx, uid)
		if err != nil {
			return nil, err
		}
		for _, c := range status.Containers {
			note("container "+c.Name, c.State)
		}
		for _, s := range status.Sandboxes {
			note("sandbox "+s.ID, s.State)
		}
		return out, nil
	}
	pod, err := m.view.ListPod(ctx, uid)
	if err != nil || pod == nil {
		return nil, err
	}
	for _, c := range pod.Containers {
		note("container "+c.Name, c.State)
	}
	for _, s := range pod.Sandboxes {
		note("sandbox "+s.ID, s.State)
	}
	return out, nil
}

// kill stops all containers concurrently, sidecars in their turn, and then every
// sandbox, even if a container would not stop (spec/runtime.md 16.4, 16.5).
func (m *Manager) kill(ctx context.Context, k podKill, override *int64) error {
	targets := make([]*target, len(k.containers))
	for i, c := range k.containers {
		targets[i] = m.targetOf(&k, c, override)
	}
	serial := m.beginKill(k.uid)
	defer m.endKill(k.uid, serial)
	m.keepSidecars(k, k.status, targets, serial)
	problems := m.stopAll(ctx, targets)
	for _, id := range k.sandboxes {
		if ctx.Err() != nil {
			break
		}
		if err := m.stopSandbox(ctx, k.uid, id); err != nil && !cri.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("stop sandbox %s: %w", id, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return ctx.Err()
}

// stopAll stops containers concurrently, sidecars in their turn, and returns what went wrong with each.
func (m *Manager) stopAll(ctx context.Context, targets []*target) []error {
	problems := make([]error, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() {
			defer close(t.finished)
			problems[i] = m.stop(ctx, t, turnOf(t, targets))
		})
	}
	wg.Wait()
	return problems
}

func (m *Manager) stopSandbox(ctx context.Context, uid types.UID, id string) error {
	defer m.doing.begin(uid, &activity{what: "stopping the sandbox"})()
	err := m.runtime.StopPodSandbox(ctx, id)
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.stopped[id] = uid
	}
	return err
}

// wasStopped reports whether a kill has stopped the sandbox.
func (m *Manager) wasStopped(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, stopped := m.stopped[id]
	return stopped
}

// targetOf describes a container by its definition, or by its annotations where
// there is none (spec/runtime.md 2.6, 16.3).
func (m *Manager) targetOf(k *podKill, c killable, override *int64) *target {
	var t *target
	if k.pod != nil {
		if member, ok := memberNamed(k.pod, c.name); ok {
			t = newTarget(k.pod, member, c.id, c.state)
			from := graceSources{override: override, pod: k.pod}
			for _, reason := range k.reasons {
				if reason.Record.ID.ID == c.id {
					from.probe, t.message = probeGrace(reason), killMessage(reason)
				}
			}
			t.grace, t.podIP = terminationGrace(from), k.podIP
			return t
		}
	}
	restored, err := meta.Restore(c.annotations)
	if err != nil {
		m.options.Logger.Error(err, "Container annotations are damaged", "podUID", k.uid, "container", c.name)
	}
	t = &target{
		podUID: k.uid, id: c.id, name: c.name, kind: restored.Kind, index: restored.Index, state: c.state,
		preStop: restored.PreStop, ports: restored.Ports, podIP: k.podIP,
		grace: terminationGrace(graceSources{override: override, pod: k.pod, recorded: restored}),
		ref: &v1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: k.namespace, Name: k.name, UID: k.uid,
		},
		message: "Stopping container " + c.name, finished: make(chan struct{}),
	}
	if k.pod != nil {
		t.ref = podRef(k.pod)
	}
	return t
}
