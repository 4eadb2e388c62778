package pods

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/podorder"
	"github.com/podwright/podwright/internal/rule"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
	"github.com/podwright/podwright/runtime/pods/internal/sweep"
)

// GCPolicy says which dead containers and sandboxes may be removed.
type GCPolicy struct {
	// MinAge keeps containers that ended less than this long ago; where the end is
	// not known, those that were created less than this long ago. One that was
	// created and never started is kept for a minute in any case. Negative is
	// invalid.
	MinAge time.Duration
	// FinishedAt returns when a container ended, zero if that is not known.
	// Asked only if there is a MinAge; must not block. Nil: never known.
	FinishedAt func(uid types.UID, id runtime.ContainerID) time.Time
	// NeverRan reports whether an exited container never ran, because its start was
	// aborted ([runtime.ContainerStatus.StartAborted]): it does not count as one that is
	// kept. It must not block. Nil: that is not known of any.
	NeverRan func(uid types.UID, id runtime.ContainerID) bool
	// MaxPerContainer is how many dead containers are kept per pod and
	// container name. Zero takes the default of 1; for none use KeepNone.
	// Negative means no limit.
	MaxPerContainer int
	// KeepNone makes MaxPerContainer 0.
	KeepNone bool
	// MaxContainers bounds all dead containers. Zero and negative mean no limit. A
	// limit may remove the last record of a container. A container that must run only
	// once then runs again, unless the caller's own records say that it has run.
	MaxContainers int

	// SourcesReady is the guard: while false, no pod counts as removed
	// (spec/cleanup.md SG2).
	SourcesReady bool
	// Pressure also removes what RuntimeShouldBeRemoved allows.
	Pressure bool
	// ContentShouldBeRemoved reports whether nothing of the pod is needed any
	// more. Nil: never.
	ContentShouldBeRemoved func(uid types.UID) bool
	// RuntimeShouldBeRemoved reports whether the pod has ended, though it may
	// still be desired. Nil: never.
	RuntimeShouldBeRemoved func(uid types.UID) bool

	// Hold keeps a new life of a pod from starting while something is removed because the pod
	// is gone; podworkers.Workers.Hold is one. ok is false if a life is under way: then only
	// what it no longer needs is removed. Nil: no pod is held.
	Hold func(ctx context.Context, uid types.UID, reason string) (held context.Context, release func(), ok bool)
	// Permits is asked right before each removal; what it refuses stays until a later run.
	// Done is called with the outcome of each removal. They are never called concurrently;
	// they may wait, which delays only this run. Nil: everything is permitted, no call.
	Permits func(GCAction) bool
	Done    func(GCAction, error)
}

// GCAction is the decision about one container that does not run, or one sandbox.
type GCAction struct {
	// Sandbox is true for a sandbox, false for a container.
	Sandbox bool
	// ID is the runtime's. Container is the container's name, empty for a sandbox.
	ID, Container string
	// Namespace, Pod and PodUID name its pod.
	Namespace, Pod string
	PodUID         types.UID
	// Age since it was created.
	Age time.Duration
	// Reason says why it is removed; Kept is the rule of spec/cleanup.md that keeps
	// it. One of them is empty.
	Reason string
	Kept   rule.Denial
}

// choice returns the policy in the form that package sweep takes.
func (p *GCPolicy) choice() sweep.Policy {
	out := sweep.Policy{MinAge: p.MinAge, NeverRan: p.NeverRan, MaxPerContainer: p.MaxPerContainer, MaxContainers: p.MaxContainers}
	switch {
	case p.KeepNone:
		out.MaxPerContainer = 0
	case p.MaxPerContainer == 0:
		out.MaxPerContainer = 1
	}
	if out.MaxContainers == 0 {
		out.MaxContainers = -1
	}
	if p.MinAge > 0 && p.FinishedAt != nil {
		out.FinishedAt = p.FinishedAt
	}
	out.Gone = func(uid types.UID) bool {
		switch {
		case !p.SourcesReady:
			return false
		case p.ContentShouldBeRemoved != nil && p.ContentShouldBeRemoved(uid):
			return true
		}
		return p.Pressure && p.RuntimeShouldBeRemoved != nil && p.RuntimeShouldBeRemoved(uid)
	}
	return out
}

// kind says whether the decision is about a sandbox or a container.
func (a GCAction) kind() string {
	if a.Sandbox {
		return "sandbox"
	}
	return "container"
}

// GarbageCollect reads the runtime and removes dead containers (with their logs) and
// sandboxes by policy, containers first (spec/cleanup.md 6, 7). It never touches a running
// container, a ready sandbox or objects of another owner. One removal that fails or hangs
// does not stop the others; all errors are joined. It also removes links to missing logs. A
// failed run raises one Warning event ContainerGCFailed on the node (CG7).
func (m *Manager) GarbageCollect(ctx context.Context, policy GCPolicy) error {
	err := m.garbageCollect(ctx, policy)
	if err != nil && ctx.Err() == nil {
		node := podinfo.NodeReference(m.options.NodeName)
		m.options.Events.Eventf(node, v1.EventTypeWarning, "ContainerGCFailed", "%s", podinfo.EventText(err))
	}
	return err
}

func (m *Manager) garbageCollect(ctx context.Context, policy GCPolicy) error {
	if policy.MinAge < 0 {
		return fmt.Errorf("garbage collection: MinAge %s is negative", policy.MinAge)
	}
	listing, err := m.view.List(ctx, "")
	if err != nil {
		return fmt.Errorf("garbage collection: %w", err)
	}
	if policy.Permits == nil {
		policy.Permits = func(GCAction) bool { return true }
	}
	if policy.Done == nil {
		policy.Done = func(GCAction, error) {}
	}
	pods, choice, now := m.view.Pods(listing), policy.choice(), m.options.Clock.Now()
	r := &gcRun{m: m, policy: &policy, choice: choice, turn: make(chan struct{}, 1), gonePods: map[types.UID]bool{}, removed: map[string]bool{}}
	r.begun.Clock = m.options.Clock
	choice.Gone = r.chosenAsGone
	for _, c := range sweep.Containers(pods, choice, now) {
		if err := ctx.Err(); err != nil {
			return r.end(err)
		}
		r.remove(ctx, containerAction(c, now), func(ctx context.Context) error { return m.collect(ctx, c.Pod, c.Container) })
	}
	r.begun.Wait(ctx) // a sandbox is removed after its containers
	for _, s := range sweep.Sandboxes(pods, choice.Gone, r.gone()) {
		if err := ctx.Err(); err != nil {
			return r.end(err)
		}
		r.remove(ctx, sandboxAction(s, now), func(ctx context.Context) error { return m.collectSandbox(ctx, s.ID) })
	}
	return r.end(m.sweepLinks(listing.Containers))
}

// PlanGarbageCollect says what GarbageCollect would remove now, and by which rule
// the rest stays, without removing anything (spec/cleanup.md 12). The same code
// decides both (DR2).
func (m *Manager) PlanGarbageCollect(ctx context.Context, policy GCPolicy) ([]GCAction, error) {
	if policy.MinAge < 0 {
		return nil, fmt.Errorf("garbage collection: MinAge %s is negative", policy.MinAge)
	}
	listing, err := m.view.List(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("garbage collection: %w", err)
	}
	pods := m.view.Pods(listing)
	choice, now := policy.choice(), m.options.Clock.Now()
	var out []GCAction
	removed := map[string]bool{}
	for _, c := range sweep.Containers(pods, choice, now) {
		removed[c.ID.ID] = c.Kept.IsZero()
		out = append(out, containerAction(c, now))
	}
	for _, s := range sweep.Sandboxes(pods, choice.Gone, removed) {
		out = append(out, sandboxAction(s, now))
	}
	return out, nil
}

func containerAction(c sweep.Container, now time.Time) GCAction {
	return GCAction{
		ID: c.ID.ID, Container: c.Name, Namespace: c.Pod.Namespace, Pod: c.Pod.Name, PodUID: c.Pod.UID,
		Age: now.Sub(c.CreatedAt), Reason: c.Reason, Kept: c.Kept,
	}
}

func sandboxAction(s sweep.Sandbox, now time.Time) GCAction {
	return GCAction{
		Sandbox: true, ID: s.ID, Namespace: s.Pod.Namespace, Pod: s.Pod.Name, PodUID: s.Pod.UID,
		Age: now.Sub(s.CreatedAt), Reason: s.Reason, Kept: s.Kept,
	}
}

// removalTimeout bounds the removal of one object, so that a runtime that hangs on it
// does not delay the others for longer (spec/cleanup.md HI12).
const removalTimeout = 10 * time.Second

// collect removes one dead container with its logs and the link to them. A container
// in an unknown state is stopped first (spec/cleanup.md CG5, CG6).
func (m *Manager) collect(ctx context.Context, pod *runtime.Pod, c *runtime.Container) error {
	ctx, cancel := timing.WithTimeout(ctx, m.options.Clock, removalTimeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("remove container %s: %w", c.Name, err)
	}
	if c.State == runtime.Unknown {
		if err := m.runtime.StopContainer(ctx, c.ID.ID, minimumGrace); err != nil && !cri.IsNotFound(err) {
			return fmt.Errorf("stop container %s: %w", c.Name, err)
		}
	}
	// Until the end is stored, the logs may be its only record (IN16).
	if err := m.storeEnd(ctx, pod.UID, c.Name, c.ID); err != nil {
		return err
	}
	if err := errors.Join(m.removeLogsOf(pod, c), m.unlinkLog(pod, c)); err != nil {
		return err
	}
	return m.dropRecord(ctx, c.Name, c.ID)
}

func (m *Manager) collectSandbox(ctx context.Context, id string) error {
	ctx, cancel := timing.WithTimeout(ctx, m.options.Clock, removalTimeout)
	defer cancel()
	return m.removeSandbox(ctx, id)
}

// removeLogsOf removes a container's log file with its rotated ones. Names come
// from labels and are checked like any other.
func (m *Manager) removeLogsOf(pod *runtime.Pod, c *runtime.Container) error {
	count, ours := podorder.RestartCount(c.Annotations)
	if !ours {
		return nil
	}
	dir := logFolder(pod.Namespace, pod.Name, pod.UID)
	if podinfo.CheckName("log directory", dir) != nil || podinfo.CheckName("container name", c.Name) != nil {
		return nil
	}
	prefix := strconv.Itoa(count) + ".log"
	err := poddir.RemoveFiles(m.options.LogDir, []string{dir, c.Name}, func(name string) bool {
		return name == prefix || strings.HasPrefix(name, prefix+".")
	})
	if err != nil {
		return fmt.Errorf("logs of container %s: %w", c.Name, err)
	}
	return nil
}

// RemovePod removes every container, every sandbox and the log directory of a pod
// that has ended and is no longer desired. It fails, removing nothing, while
// anything of the pod runs. It leaves the pod's directory to
// [Manager.RemovePodDir].
func (m *Manager) RemovePod(ctx context.Context, uid types.UID) error {
	if err := podinfo.CheckName("pod UID", string(uid)); err != nil {
		return fmt.Errorf("remove pod: %w", err)
	}
	pod, err := m.leftOf(ctx, uid)
	if err == nil && pod != nil {
		err = m.removeObjects(ctx, pod)
	}
	if err != nil {
		return fmt.Errorf("remove pod: %w", err)
	}
	return m.removeLogs(ctx, uid)
}

// leftOf returns what the runtime lists of a pod that has ended, nil if there is nothing.
func (m *Manager) leftOf(ctx context.Context, uid types.UID) (*runtime.Pod, error) {
	if m.options.Gone != nil && m.options.Gone(uid) {
		return nil, nil
	}
	return m.view.ListPod(ctx, uid)
}

// RemoveStopped is RemovePod for a pod whose status shows everything that the runtime
// has of it, which saves a list.
func (m *Manager) RemoveStopped(ctx context.Context, status *runtime.PodStatus) error {
	if err := podinfo.CheckName("pod UID", string(status.UID)); err != nil {
		return fmt.Errorf("remove pod: %w", err)
	}
	if err := m.removeObjects(ctx, status.Listed()); err != nil {
		return fmt.Errorf("remove pod: %w", err)
	}
	return m.removeLogs(ctx, status.UID)
}

// removeObjects removes the containers and sandboxes of a pod that does not run.
func (m *Manager) removeObjects(ctx context.Context, pod *runtime.Pod) error {
	if pod.Running() {
		return ErrPodRunning
	}
	var problems []error
	for _, c := range pod.Containers {
		problems = append(problems, m.collect(ctx, pod, c))
	}
	// Removing a sandbox also removes its containers, including any that had to stay.
	if err := errors.Join(problems...); err != nil {
		return err
	}
	for _, s := range pod.Sandboxes {
		remove := m.removeSandbox
		if m.wasStopped(s.ID) {
			remove = m.dropSandbox
		}
		problems = append(problems, remove(ctx, s.ID))
	}
	return errors.Join(problems...)
}

// ErrPodRunning is the error of [Manager.RemovePod] and [Manager.RemovePodDir] for a pod that
// still runs.
var ErrPodRunning = errors.New("the pod still runs")

// PodDirs lists the UIDs that have a directory below RootDir/pods.
func (m *Manager) PodDirs() ([]types.UID, error) { return m.podDirs.List() }
