package status

import (
	"cmp"
	"path"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
)

// kind says which list of the spec a container is in.
type kind uint8

const (
	app kind = iota
	initial
	ephemeral
)

// generator is one run of Generate.
type generator struct {
	in  *Input
	pod *v1.Pod
	// old is never nil.
	old *v1.PodStatus
	// sandbox is the latest sandbox, readySandbox the latest ready one; each is empty if there is
	// none.
	sandbox, readySandbox string
	restart               restartAll
}

// containers fills one list of container statuses, in the order of the spec
// (spec/status.md 3).
func (g *generator) containers(k kind, old []v1.ContainerStatus) []v1.ContainerStatus {
	switch k {
	case initial:
		return g.list(k, len(g.pod.Spec.InitContainers), old, func(i int) *v1.Container { return &g.pod.Spec.InitContainers[i] })
	case ephemeral:
		return g.list(k, len(g.pod.Spec.EphemeralContainers), old, func(i int) *v1.Container {
			return (*v1.Container)(&g.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		})
	default:
		return g.list(k, len(g.pod.Spec.Containers), old, func(i int) *v1.Container { return &g.pod.Spec.Containers[i] })
	}
}

func (g *generator) list(k kind, n int, old []v1.ContainerStatus, spec func(int) *v1.Container) []v1.ContainerStatus {
	if n == 0 {
		return nil
	}
	out := make([]v1.ContainerStatus, n)
	for i := range out {
		c := spec(i)
		g.container(k, c, statusOf(old, i, c.Name), &out[i])
	}
	return out
}

// container fills in the status of one container, except started and ready.
func (g *generator) container(k kind, c *v1.Container, old, out *v1.ContainerStatus) {
	record, previous := g.records(c.Name)
	if record == nil {
		g.start(c, old, out)
	}
	switch {
	case record != nil:
		g.observed(c, old, record, previous, out)
	case k == initial && out.State.Waiting != nil && g.completed(c):
		// Its record was lost after it had done its work (3.5).
		out.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: reasonCompleted}}
	case old != nil && old.State.Running != nil && g.staysEnded(k, c, exitUnknown, reasonUnknown):
		// It ran and is gone without a trace, and does not run twice (HI8), unless a restart of all
		// containers removed it.
		out.State = lost(old.ContainerID)
	case old != nil && old.State.Running != nil && out.LastTerminationState == (v1.ContainerState{}):
		// It ran and is gone without a trace (3.4).
		out.LastTerminationState = lost(old.ContainerID)
		if !g.ending() {
			out.RestartCount++
		}
	}
	if k == app || k == initial && (record != nil || !g.completed(c)) {
		g.restart.container(old, record, out)
	}
	g.waiting(k, c, old, record, out)
}

// start sets what holds even without a record in the runtime (3.1, 3.2).
func (g *generator) start(c *v1.Container, old, out *v1.ContainerStatus) {
	if old != nil && old.State.Terminated != nil {
		*out = *old
		return
	}
	reason := reasonCreating
	if len(g.pod.Spec.InitContainers) > 0 {
		reason = reasonInitial
	}
	if old != nil && old.State.Waiting != nil && old.State.Waiting.Reason == reasonRestartAll {
		reason = reasonRestartAll // until it is started (3.8)
	}
	if old != nil {
		// Keep the restart count, the last state, and what belongs to the last run, although the
		// runtime has forgotten it: a field is empty only if it never had a value.
		*out = *old
	}
	if out.ContainerID == "" {
		out.Image = c.Image
	}
	out.Name = c.Name
	out.State = v1.ContainerState{Waiting: waitingState(old, reason, "")}
}

// records returns the two newest runtime records of a container.
func (g *generator) records(name string) (newest, previous *runtime.ContainerStatus) {
	if g.in.Runtime == nil {
		return nil, nil
	}
	for _, c := range g.in.Runtime.Containers {
		if !sameName(c.Name, name) {
			continue
		}
		if newest != nil {
			return newest, c
		}
		newest = c
	}
	return newest, nil
}

// sameName is a == b for names of containers. The names in one pod often differ only in the last
// letter; comparing that first avoids nearly all full comparisons.
func sameName(a, b string) bool {
	n := len(a)
	return n == len(b) && (n == 0 || a[n-1] == b[n-1]) && a == b
}

// observed sets what the newest record shows (3.3, 3.7, 3.9).
func (g *generator) observed(c *v1.Container, old *v1.ContainerStatus, record, previous *runtime.ContainerStatus, out *v1.ContainerStatus) {
	sameID := old != nil && isID(old.ContainerID, record.ID)
	out.Name = c.Name
	out.Image = record.Image
	out.ImageID = record.ImageRef
	if sameID {
		out.ContainerID = old.ContainerID
	} else {
		out.ContainerID = record.ID.String()
	}
	out.RestartCount = restartCount(old, record, previous)
	out.LastTerminationState = g.lastState(old, sameID, record, previous)
	out.State = g.state(old, sameID, record, out)
	if len(c.Resources.Requests) > 0 {
		out.AllocatedResources = c.Resources.Requests
	}
	out.Resources = g.resources(c, old, record, out.State.Running != nil, sameID)
	out.VolumeMounts = g.volumeMounts(c, old, record)
	out.User, out.StopSignal = user(old, record), stopSignal(old, record)
}

// restartCount returns the number of the newest run (3.7). A container that is only created has not
// run: if it never does, another container takes its place and its number, so until it starts the
// number is that of the run before it.
func restartCount(old *v1.ContainerStatus, record, previous *runtime.ContainerStatus) int32 {
	n := record.RestartCount
	if record.State == runtime.Created {
		switch {
		case previous != nil:
			n = min(n, previous.RestartCount)
		case old != nil:
			n = min(n, int(old.RestartCount))
		}
	}
	if old != nil {
		n = max(n, int(old.RestartCount))
	}
	return int32(n)
}

// state translates the newest record (3.3).
func (g *generator) state(old *v1.ContainerStatus, sameID bool, record *runtime.ContainerStatus, out *v1.ContainerStatus) v1.ContainerState {
	switch record.State {
	case runtime.Running:
		return v1.ContainerState{Running: runningState(old, record.StartedAt)}
	case runtime.Exited:
		return v1.ContainerState{Terminated: terminatedState(old, record)}
	case runtime.Unknown:
		if old != nil && old.State.Running != nil {
			out.RestartCount = max(out.RestartCount, old.RestartCount+1)
			return lost(out.ContainerID)
		}
		// The end of this run may already be known; the container does not come back because the
		// runtime has since lost it.
		if sameID && old.State.Terminated != nil {
			return old.State
		}
		if old != nil && isID(terminatedID(&old.LastTerminationState), record.ID) {
			return old.LastTerminationState
		}
	}
	return v1.ContainerState{Waiting: waitingState(old, "", "")}
}

// lastState returns the end of the run before the one in record: as the runtime has it, or as the
// engine saw it before the runtime removed it.
func (g *generator) lastState(old *v1.ContainerStatus, sameID bool, record, previous *runtime.ContainerStatus) v1.ContainerState {
	if previous != nil && previous.State == runtime.Exited {
		return v1.ContainerState{Terminated: terminatedState(old, previous)}
	}
	switch {
	case old == nil:
		return v1.ContainerState{}
	case old.State.Terminated != nil && !sameID:
		return old.State
	case isID(terminatedID(&old.LastTerminationState), record.ID):
		// The container waits after this very run, whose end is not the end of the run before.
		return v1.ContainerState{}
	}
	return old.LastTerminationState
}

// completed reports whether a regular init container must have done its work: an
// app container was created after it, in the same sandbox (3.5), and no restart
// removes records to run it again.
func (g *generator) completed(c *v1.Container) bool {
	return !restartpolicy.IsSidecar(c) && !g.restart.going && g.appCreatedIn(g.sandbox)
}

// appCreatedIn reports whether an app container was created in this sandbox.
func (g *generator) appCreatedIn(sandbox string) bool {
	if sandbox == "" {
		return false
	}
	for _, r := range g.in.Runtime.Containers {
		if r.SandboxID != sandbox {
			continue
		}
		for i := range g.pod.Spec.Containers {
			if g.pod.Spec.Containers[i].Name == r.Name {
				return true
			}
		}
	}
	return false
}

// waiting shows a container that is about to be restarted as waiting, with the reason why its last
// start failed (3.5, 3.6).
func (g *generator) waiting(k kind, c *v1.Container, old *v1.ContainerStatus, record *runtime.ContainerStatus, out *v1.ContainerStatus) {
	why, ok := g.in.Waiting[c.Name]
	if !ok && g.asked(record) {
		why, ok = WaitingReason{Reason: reasonRestarting, Message: "It was stopped in order to be started again"}, true
		if g.in.Asked.Requested(record.ID) {
			why = WaitingReason{Reason: reasonRequested, Message: g.in.Asked.Message}
		}
	}
	if !ok || !g.restarts(k, c, record, out) {
		return
	}
	if out.State.Terminated != nil {
		out.LastTerminationState = out.State
	}
	out.State = v1.ContainerState{Waiting: waitingState(old, why.Reason, why.Message)}
}

// asked reports whether a container has ended because it is to be replaced, or before it could be
// replaced (3.10). It is never shown as ended, so that nothing takes it for finished.
func (g *generator) asked(record *runtime.ContainerStatus) bool {
	return record != nil && record.State == runtime.Exited && g.in.Asked.Has(record.ID)
}

// restarts is the restart predicate of spec/runtime.md 6.1, with two exceptions: an init container
// that succeeded, or must have, is left alone (3.5), and an ephemeral container never runs twice.
func (g *generator) restarts(k kind, c *v1.Container, record *runtime.ContainerStatus, out *v1.ContainerStatus) bool {
	switch {
	case g.ending():
		return false
	case record == nil && out.State.Terminated != nil && g.staysEnded(k, c, out.State.Terminated.ExitCode, out.State.Terminated.Reason):
		return false // its end is known, though the runtime has forgotten it
	case record == nil:
		return k != initial || !g.completed(c)
	case record.State == runtime.Running:
		return false
	case record.State != runtime.Exited, g.asked(record):
		return true
	case k == ephemeral, k == initial && !restartpolicy.InitFailed(record.ExitCode, record.Reason):
		return false
	}
	return g.next(k, c, record.ExitCode, record.Reason) != restartpolicy.Stay
}

// next decides what follows an end of a container.
func (g *generator) next(k kind, c *v1.Container, code int32, reason string) restartpolicy.Decision {
	if k == initial {
		return restartpolicy.OnInitExit(g.pod, c, code, reason)
	}
	return restartpolicy.OnExit(g.pod, c, code)
}

// staysEnded reports whether a container that ended like this is never run again, not even by a
// restart of all containers.
func (g *generator) staysEnded(k kind, c *v1.Container, code int32, reason string) bool {
	return !g.restart.possible && g.next(k, c, code, reason) == restartpolicy.Stay
}

// ending reports whether no container of the pod is started any more. The deletionTimestamp shows
// that a pod is being stopped if an API wants it gone; otherwise Terminal does.
func (g *generator) ending() bool { return g.pod.DeletionTimestamp != nil || g.in.Terminal }

// volumeMounts reports the mounts of a container; once set they stay (3.9). The container's record
// says whether a mount is recursively read-only where the spec only asks for it if possible.
func (g *generator) volumeMounts(c *v1.Container, old *v1.ContainerStatus, record *runtime.ContainerStatus) []v1.VolumeMountStatus {
	if old != nil && len(old.VolumeMounts) > 0 {
		return old.VolumeMounts
	}
	if len(c.VolumeMounts) == 0 {
		return nil
	}
	out := make([]v1.VolumeMountStatus, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		mount := &c.VolumeMounts[i]
		out[i] = v1.VolumeMountStatus{Name: mount.Name, MountPath: mount.MountPath, ReadOnly: mount.ReadOnly}
		if !mount.ReadOnly {
			continue
		}
		mode := v1.RecursiveReadOnlyDisabled
		if wanted := mount.RecursiveReadOnly; wanted != nil && (*wanted == v1.RecursiveReadOnlyEnabled ||
			*wanted == v1.RecursiveReadOnlyIfPossible && slices.Contains(record.RecursiveReadOnly, path.Clean("/"+mount.MountPath))) {
			mode = v1.RecursiveReadOnlyEnabled
		}
		out[i].RecursiveReadOnly = &mode
	}
	return out
}

// user reports who the container runs as (3.9).
func user(old *v1.ContainerStatus, record *runtime.ContainerStatus) *v1.ContainerUser {
	u := record.User
	if u == nil {
		return nil
	}
	if old != nil && old.User != nil && old.User.Linux != nil {
		if was := old.User.Linux; was.UID == u.UID && was.GID == u.GID && slices.Equal(was.SupplementalGroups, u.Groups) {
			return old.User
		}
	}
	return &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: u.UID, GID: u.GID, SupplementalGroups: u.Groups}}
}

// stopSignal returns the signal that stops the container, nil for the runtime's default (3.9).
func stopSignal(old *v1.ContainerStatus, record *runtime.ContainerStatus) *v1.Signal {
	if record.StopSignal == "" {
		return nil
	}
	if old != nil && old.StopSignal != nil && string(*old.StopSignal) == record.StopSignal {
		return old.StopSignal
	}
	signal := v1.Signal(record.StopSignal)
	return &signal
}

// lost returns the end of a container whose real end was not seen.
func lost(id string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode:    exitUnknown,
		Reason:      reasonUnknown,
		Message:     "The container could not be located when the pod was looked at",
		ContainerID: id,
	}}
}

// The functions below reuse the old value if it is equal, so that an unchanged status allocates no
// memory.

func waitingState(old *v1.ContainerStatus, reason, message string) *v1.ContainerStateWaiting {
	message = podinfo.Message(message)
	if old != nil && old.State.Waiting != nil && old.State.Waiting.Reason == reason && old.State.Waiting.Message == message {
		return old.State.Waiting
	}
	return &v1.ContainerStateWaiting{Reason: reason, Message: message}
}

func runningState(old *v1.ContainerStatus, started time.Time) *v1.ContainerStateRunning {
	at := wholeSeconds(started)
	if old != nil && old.State.Running != nil && old.State.Running.StartedAt.Time.Equal(at) {
		return old.State.Running
	}
	return &v1.ContainerStateRunning{StartedAt: metav1.Time{Time: at}}
}

func terminatedState(old *v1.ContainerStatus, record *runtime.ContainerStatus) *v1.ContainerStateTerminated {
	started, finished := wholeSeconds(record.StartedAt), wholeSeconds(record.FinishedAt)
	if old != nil {
		for _, t := range [...]*v1.ContainerStateTerminated{old.State.Terminated, old.LastTerminationState.Terminated} {
			if t != nil && isID(t.ContainerID, record.ID) && t.ExitCode == record.ExitCode && t.Reason == record.Reason &&
				t.Message == record.Message && t.StartedAt.Time.Equal(started) && t.FinishedAt.Time.Equal(finished) {
				return t
			}
		}
	}
	return &v1.ContainerStateTerminated{
		ExitCode:    record.ExitCode,
		Reason:      record.Reason,
		Message:     record.Message,
		StartedAt:   metav1.Time{Time: started},
		FinishedAt:  metav1.Time{Time: finished},
		ContainerID: record.ID.String(),
	}
}

// isID reports whether s is the string form of id, without building that string.
func isID(s string, id runtime.ContainerID) bool {
	n := len(id.Runtime)
	return len(s) == n+len("://")+len(id.ID) && s[n+len("://"):] == id.ID && s[:n] == id.Runtime && s[n:n+len("://")] == "://"
}

// terminatedID returns the ID of the container that ended in this state, or "".
func terminatedID(state *v1.ContainerState) string {
	if state.Terminated == nil {
		return ""
	}
	return state.Terminated.ContainerID
}

// wholeSeconds returns t with the precision that statuses carry.
func wholeSeconds(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(t.Unix(), 0).UTC()
}

// sortByName sorts app and ephemeral statuses (3.9). Init statuses keep the order
// of the spec.
func sortByName(list []v1.ContainerStatus) {
	byName := func(a, b v1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(list, byName) {
		slices.SortStableFunc(list, byName)
	}
}
