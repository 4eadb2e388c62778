package podwright

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/containerlog"
	"github.com/podwright/podwright/status"
)

// Pods returns every pod that the engine manages, with its newest status, sorted by namespace and name: the desired
// pods, and those that are being stopped because they no longer are desired (with a deletionTimestamp). The
// pods belong to the caller.
func (e *Engine) Pods() []v1.Pod { return e.shown.All() }

// Pod returns the pod with this UID as [Engine.Pods] returns it, false if the engine does not
// manage it. The UID of a mirror pod finds its static pod. The pod belongs to the caller.
func (e *Engine) Pod(uid types.UID) (*v1.Pod, bool) { return e.shown.Get(uid) }

// PodNamed returns the pod with this name as [Engine.Pods] returns it: the desired one, otherwise
// one that is being stopped. The pod belongs to the caller.
func (e *Engine) PodNamed(namespace, name string) (*v1.Pod, bool) {
	return e.shown.Named(namespace, name)
}

// Watch yields every pod's status and then each change, until ctx ends or Run has returned
// (spec/status.md 11, WA1). A slow reader delays only itself: a [status.ErrGap] tells it that it missed
// changes, and the pods that have changed follow. A pod appears with its first status; a pod
// that is gone is yielded once more, as Forgotten. Statuses are shared: do not modify them.
func (e *Engine) Watch(ctx context.Context) iter.Seq2[status.Change, error] {
	return e.status.Changes(ctx)
}

// ContainerLog writes the log of a container to w, as kubectl logs shows it (spec/runtime.md
// 27.3-27.7); with options.Follow until the container ends or ctx does. The error's class
// (cri.Class) is ErrNotFound for an unknown pod or container, ErrInvalid for bad options,
// ErrFailedPrecondition if there is no log yet. A slow w delays only this call.
func (e *Engine) ContainerLog(ctx context.Context, uid types.UID, container string, options containerlog.Options, w io.Writer) error {
	return e.logs.Copy(ctx, uid, container, options, w)
}

// LocalStorage returns the folders of a pod's logs, files and volumes on this node, which need
// not exist; both are empty for a pod that the engine does not manage.
func (e *Engine) LocalStorage(uid types.UID) (local pods.LocalStorage, mounted map[string]pods.MountedVolume) {
	if pod, ok := e.shown.Get(uid); ok {
		local, mounted = e.pods.LocalStorage(pod), e.pods.MountedVolumes(pod.UID)
	}
	return local, mounted
}

// Explanation says where one pod stands and what it waits for. It encodes as JSON.
type Explanation struct {
	UID       types.UID   `json:"uid"`
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Phase     v1.PodPhase `json:"phase,omitempty"`
	// Reason and Message of the pod's status.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Held says why the pod's setup is held back, empty if it is not.
	Held string `json:"held,omitempty"`
	// Unreadable says that the runtime does not answer questions about this pod, how often it
	// has not, and when it is asked again; empty if it answers. Meanwhile the pod stays as it
	// is, unless it has to stop; other pods are not affected.
	Unreadable string `json:"unreadable,omitempty"`
	// Checkpoint says what is wrong with the pod's record on the disk; empty if nothing is.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Restart says which containers still have to be restarted on request, and why; empty if none.
	Restart string `json:"restart,omitempty"`
	// Calls are the runtime calls that make or start something of the pod and are unanswered
	// or wait for their turn, each with its start.
	Calls []string `json:"calls,omitempty"`
	// Containers in the order of the status, init containers first.
	Containers []ContainerExplanation `json:"containers,omitempty"`
	// Probes of the pod's containers, with their last output and when they run next.
	Probes []probe.Explanation `json:"probes,omitempty"`
	// Worker is the state of the pod's worker; nil if the workers do not know the pod.
	Worker *podworkers.Explanation `json:"worker,omitempty"`
}

// ContainerExplanation says how one container is doing.
type ContainerExplanation struct {
	Name string `json:"name"`
	// State is waiting, running or terminated.
	State string `json:"state"`
	// Reason and Message of the state, such as CrashLoopBackOff.
	Reason       string `json:"reason,omitempty"`
	Message      string `json:"message,omitempty"`
	ExitCode     *int32 `json:"exitCode,omitempty"`
	Ready        bool   `json:"ready"`
	RestartCount int32  `json:"restartCount"`
	// Pull is the image it waits for, nil if it waits for none.
	Pull *PullExplanation `json:"pull,omitempty"`
}

// Explain says where the pod with this UID stands, and whether anything is known about it.
func (e *Engine) Explain(uid types.UID) (Explanation, bool) {
	out := Explanation{UID: uid}
	pod := e.residents.Get(uid)
	if pod != nil {
		out.Namespace, out.Name = pod.Namespace, pod.Name
	}
	st, hasStatus := e.status.Get(uid)
	if hasStatus {
		out.Phase, out.Reason, out.Message = st.Phase, st.Reason, st.Message
		for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
			for i := range list {
				out.Containers = append(out.Containers, explainContainer(&list[i]))
			}
		}
		e.explainPulls(uid, out.Containers)
	}
	for _, call := range e.pods.Work() {
		if call.Pod == uid {
			out.Calls = append(out.Calls, call.String())
		}
	}
	out.Probes = e.probes.Explain(uid)
	worker, hasWorker := e.workers.Explain(uid)
	if hasWorker {
		out.Worker = &worker
		out.Namespace, out.Name = cmp.Or(out.Namespace, worker.Namespace), cmp.Or(out.Name, worker.Name)
	}
	if e.loop.Holds(uid) {
		out.Held = "waiting to be handed to the workers"
		if err := e.open(); err != nil {
			out.Held = err.Error()
		} else if v, open := e.loop.OpenVerdict(uid); open && v.Err != nil {
			out.Held = v.Err.Error()
		}
	} else if why := e.returns.Waits(uid); why != "" {
		out.Held = why
	}
	for _, p := range e.pleg.Health().Hung {
		if p.UID == uid {
			out.Unreadable = fmt.Sprintf("the container runtime did not describe the pod in time, %d times in a row; it is asked again at %s",
				p.Failures, p.Retry.Format(time.RFC3339))
		}
	}
	if err := e.journal.Problem(uid); err != nil {
		out.Checkpoint = err.Error()
	}
	out.Restart = e.journal.Asked(uid).String()
	return out, pod != nil || hasStatus || hasWorker
}

// explainContainer condenses a container status.
func explainContainer(c *v1.ContainerStatus) ContainerExplanation {
	out := ContainerExplanation{Name: c.Name, State: "waiting", Ready: c.Ready, RestartCount: c.RestartCount}
	switch {
	case c.State.Running != nil:
		out.State = "running"
	case c.State.Terminated != nil:
		t := c.State.Terminated
		out.State, out.Reason, out.Message, out.ExitCode = "terminated", t.Reason, t.Message, &t.ExitCode
	case c.State.Waiting != nil:
		out.Reason, out.Message = c.State.Waiting.Reason, c.State.Waiting.Message
	}
	return out
}

// Ready is closed once the runtime has been read completely and every source has delivered. From then on Pods is complete, but
// for what a source wants that has not said so: its remembered pods stand in for it ([Storage.ForgetDesired]), it was closed
// first, its time was over (Loop.SourceDeadline), or it cannot name all its pods yet ([syncloop.Undecided]).
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Problem is one thing that waits longer than it should, or fails (IN2). Its String is one
// line that an operator can act on; it encodes as JSON. Its fields:
//
//	Kind, Severity       // texts: pod, runtimeCall, source, sink, record...; unhealthy (it harms all) or listed
//	Name, UID            // namespace/name of a pod, or the name of a source, sink, call or function; the pod's UID
//	Since                // time.Time: when the wait, or the failure, began
//	Waits, Cause, Advice // texts: what it waits for, the newest error, what to do
//	Err                  // the error behind Cause, nil if there is none
type Problem = problem.Problem

// Problems returns everything that has waited longer than it should: pods, calls of the runtime, sources, sinks,
// records, removals, probes, functions of [Config], a stop that does not end. Each says since when, what it waits
// for, and what to do. Sorted by Since, then name; nil if all is well. It changes nothing and calls nothing.
func (e *Engine) Problems() []Problem { return e.problems.List() }

// Healthy returns nil if the engine can do its work, or every reason why not, joined: the [Problem]s of severity
// "unhealthy". For example the runtime does not answer or is not ready, its list is late, the loop or housekeeping is
// stuck, or records cannot be read or written. Only [Engine.Problems] has what harms single pods, sources or sinks.
// Once Run has returned it is no longer an answer: it then says how the end was.
func (e *Engine) Healthy() error { return problem.Health(e.problems.List()) }

// Recovery is what an engine found at its start: its records compared with what the
// runtime has (spec/cleanup.md CK9). It encodes as JSON. UIDs are sorted. Its fields:
//
//	At, Rebooted     // when they were compared; true if records are from before the machine's start
//	Records          // how many records could be used
//	Resumed, Ended   // []types.UID: something of the pod runs; it is over
//	Stopping, Lost   // []types.UID: it was told to stop and still runs; it had been started and nothing of it runs
//	Waiting, Unknown // []types.UID: it was admitted and not started; it has no record
//	Bad              // []checkpoint.Bad: records that could not be used
type Recovery = recovery.Report

// Recovery returns what the engine found at its start, false until the runtime has
// been read completely. Before that nothing is started or cleaned up; a pod that its source removes
// or deletes meanwhile, or that a drain ends, may be stopped already.
func (e *Engine) Recovery() (Recovery, bool) { return e.recovery.Report() }

// NodeConditions returns the node's conditions: MemoryPressure, DiskPressure, PIDPressure and those of own signals,
// if [Config.Eviction] watches the node, and last Ready, which says whether the runtime and its network are usable.
// The list is the caller's; the times of Ready are those of the call.
func (e *Engine) NodeConditions() []v1.NodeCondition { return e.state.Conditions(nil) }

// CleanupPlan says what housekeeping and garbage collection would do now, and the rule behind everything that
// stays, without touching anything. What it could not find out appears in the plan as a rule that forbids, and in
// the error; the rest of the plan is valid. It makes some runtime calls.
func (e *Engine) CleanupPlan(ctx context.Context) (cleanup.Plan, error) {
	plan, err := e.housekeeper.Plan(ctx)
	return plan, errors.Join(err, e.images.AddPlan(ctx, &plan, e.config.Clock.Now()))
}

// PullExplanation is an image that a container waits for.
type PullExplanation struct {
	Image string `json:"image"`
	// Since is when the pull was requested, by this pod or another.
	Since time.Time `json:"since"`
	// Queued is true while other pulls come first.
	Queued bool `json:"queued,omitempty"`
	// Waiters is how many containers wait for this pull, this one included.
	Waiters int `json:"waiters"`
}

// explainPulls adds what the pod's containers wait for.
func (p *parts) explainPulls(uid types.UID, containers []ContainerExplanation) {
	for _, p := range p.pods.Pulling(uid) {
		for i := range containers {
			if c := &containers[i]; c.Name == p.Container && c.State == "waiting" {
				c.Pull = &PullExplanation{Image: p.Image, Since: p.Since, Queued: p.Queued, Waiters: p.Waiters}
			}
		}
	}
}
