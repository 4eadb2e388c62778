package podwright

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/node"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// AddSource adds a source to the engine, before or while it runs (spec/syncloop.md R4). policy, at most one, says
// what its pods may do; without it the policy of the empty name in [Admission.Sources] applies. Nothing is removed
// until the source has delivered. ctx bounds the call, not the source. The error says what is wrong with the source
// or its policy, or that the engine has ended.
func (e *Engine) AddSource(ctx context.Context, s syncloop.Source, policy ...admission.SourcePolicy) error {
	if s == nil {
		return errors.New("podwright: source is nil")
	}
	select {
	case e.adding <- struct{}{}:
		defer func() { <-e.adding }()
	case <-ctx.Done():
		return fmt.Errorf("podwright: the source was not added: %w", ctx.Err())
	}
	known := slices.ContainsFunc(e.loop.Sources(), func(other syncloop.SourceStatus) bool { return other.Name == s.Name() })
	if !known && len(policy) > 0 { // a known name is refused, and its source keeps its policy
		if len(policy) > 1 {
			return fmt.Errorf("podwright: source %q has %d policies: give it one", s.Name(), len(policy))
		}
		if err := e.policies.Set(s.Name(), &policy[0]); err != nil {
			return fmt.Errorf("podwright: %w", err)
		}
	}
	added, err := e.remembering(s)
	if err == nil {
		err = e.loop.AddSource(ctx, added)
	}
	if err != nil && !known {
		_ = e.policies.Set(s.Name(), nil) // no policy is nothing that could be wrong
	}
	if err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	return nil
}

// Object names an object of the API that pods refer to; see [Engine.ObjectChanged]. Its fields:
//
//	Kind            string // ConfigMap, Secret, PersistentVolumeClaim, RuntimeClass or Service
//	Namespace, Name string // a RuntimeClass has no namespace; a Service without a name: all of the namespace
type Object = podinfo.Object

// ObjectChanged tells the engine that an object was created, changed or deleted (IN15): every desired
// pod that refers to it is synced at once. Without this call a pod that waits for the object is
// synced every 10 to 15 s (Config.Pods.ObjectRetry and jitter). It never blocks, and redundant calls do no harm.
func (e *Engine) ObjectChanged(o Object) { e.wakes.ObjectChanged(o) }

// Refresh tells the engine that something these pods use has changed, such as a config map
// or a token (IN15): they are synced at once, and their volumes are written again. A pod whose step is
// under way follows when the step ends, or when it waits for a pull. UIDs of pods that are not desired or
// have not been started are ignored. It never blocks, and redundant calls do no harm.
func (e *Engine) Refresh(uids ...types.UID) { e.wakes.Changed(uids...) }

// EvictOptions says how [Engine.EvictPod] stops a pod.
type EvictOptions struct {
	// Grace is the longest time that its containers get to stop, rounded up to seconds. 0: the pod's own. Negative: an error.
	Grace time.Duration
	// Reason is a CamelCase word of at most 128 characters for the pod's status, and none that other ends
	// have (Preempting, Terminated, NodeShutdown). Empty: Evicted.
	Reason string
	// Message explains it in a sentence of at most 1,024 bytes. Empty: that it was asked for.
	Message string
}

// EvictPod stops a pod for good, as the kubelet's eviction does (spec/syncloop.md OC1): it becomes Failed
// with the condition DisruptionTarget, and stays so after a restart; a static pod comes back (IN14). It
// returns nil once no container of the pod runs. If ctx ends first, or the pod does not stop in time
// (podworkers.ErrKillTimeout), the stop continues. The error's class (cri.Class) is ErrNotFound for an
// unknown pod, ErrInvalid for bad options, ErrFailedPrecondition for a critical pod and one that has not begun.
func (e *Engine) EvictPod(ctx context.Context, uid types.UID, options EvictOptions) error {
	if !e.running() {
		return ErrNotRunning
	}
	return e.onePod.Evict(ctx, uid, node.EvictOptions(options))
}

// RestartOptions says what [Engine.RestartPod] restarts, and why.
type RestartOptions struct {
	// Containers to restart, by name: app containers and sidecars. Empty: all running ones.
	Containers []string
	// Message says why in a sentence of at most 1,024 bytes, for the pod's event and status. Empty: a default.
	Message string
}

// RestartPod stops the running containers of a pod, with their grace and hooks, and starts them again at once, in the
// same sandbox (spec/syncloop.md OC2): without back-off or init containers, and restart counts grow by one. A restart that
// is already under way serves this call too. It returns nil once the new runs have begun. If ctx ends first the restart
// continues, even in the next agent, unless it was not on the disk yet. The error's class (cri.Class) is ErrNotFound for an unknown pod
// or container, ErrInvalid for bad options, ErrFailedPrecondition for a pod that has ended, is being stopped or
// has not begun, and for containers that are not running or whose restart policy is Never; it then does nothing.
func (e *Engine) RestartPod(ctx context.Context, uid types.UID, options RestartOptions) error {
	if !e.running() {
		return ErrNotRunning
	}
	return e.restarts.Restart(ctx, uid, node.RestartOptions(options))
}

// Exec runs a command in a running container. A runtime in this program (cri.DirectStreamer) connects ends, and Exec
// returns when the command or ctx ends; an exit code other than 0 is an error with ExitStatus() int. A runtime with its
// own server (cri.Streamer) is asked for a URL that serves the command once, with the streams of ends that
// are set. The error's class is ErrNotFound, ErrFailedPrecondition if nothing runs, ErrUnimplemented if there are no streams.
func (e *Engine) Exec(ctx context.Context, uid types.UID, container string, cmd []string, ends cri.Streams) (url string, err error) {
	return e.streams.Exec(ctx, uid, container, cmd, ends)
}

// Attach connects to the main process of a running container, otherwise as [Engine.Exec] does.
func (e *Engine) Attach(ctx context.Context, uid types.UID, container string, ends cri.Streams) (url string, err error) {
	return e.streams.Attach(ctx, uid, container, ends)
}

// PortForward connects conn to one port of a pod, if the runtime is a cri.DirectForwarder, and returns when the pod
// closes the connection or ctx ends. A runtime with its own server is asked for a URL that forwards
// ports once; conn is then not used and may be nil. Errors have the classes of [Engine.Exec].
func (e *Engine) PortForward(ctx context.Context, uid types.UID, conn io.ReadWriter, ports ...int32) (url string, err error) {
	return e.streams.PortForward(ctx, uid, conn, ports)
}

// NodeKnown tells the engine that the Node of [Config.Mirrors] has an answer now, so that the mirror pods
// that wait for it are created at once (MC6). Without this call it takes up to 5 s.
func (e *Engine) NodeKnown() { e.mirrors.NodeKnown() }

// ErrShuttingDown: the node is shutting down, or has shut down.
var ErrShuttingDown = node.ErrShuttingDown

// flushTimeout is how long the end of a run waits for the sinks.
const flushTimeout = 5 * time.Second

// drain is one request to stop all pods.
type drain struct {
	ctx    context.Context
	result chan error // takes one value
}

// ErrKept, wrapped in the error of Drain: all pods are stopped, which is enough to reboot,
// but the leftovers of some were kept.
var ErrKept = node.ErrKept

// Drain stops every pod, each with its own grace period, removes their leftovers from the runtime, and ends Run. It
// returns once Run has returned, nil if every pod is gone. Pods are stopped whatever the sources and the host say. If the
// engine's start is not over, Drain stops what it sees and waits up to 1 min for the rest to be known, otherwise it fails.
// A pod's leftovers are kept if the host objects (Cleanup.Veto), or if a source that could not name all its pods, for
// example because of an unreadable manifest, may want the pod: then the error is an [ErrKept] that names each pod and
// why it was kept. If ctx or Run's context ends first, the remaining pods are left as they are, and the error names
// them. Without a Run under way it returns [ErrNotRunning]. Static pods that a drain has stopped and removed start again at
// the next start of the engine, as they were last desired if their source is silent then; those that it has only stopped
// wait for their source. Pods of an API have ended.
func (e *Engine) Drain(ctx context.Context) error {
	if !e.running() {
		return ErrNotRunning
	}
	d := &drain{ctx: ctx, result: make(chan error, 1)}
	select {
	case e.drains <- d:
	case <-e.stopped:
		return ErrNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	<-e.stopped
	return <-d.result
}

// running reports whether Run was called and has not returned.
func (p *parts) running() bool { return p.started.Load() && !timing.Ended(p.stopped) }

// stopPods terminates all pods and removes their leftovers, until the drain's context or Run's ends.
func (p *parts) stopPods(ctx context.Context, d *drain) error {
	both, cancel := context.WithCancelCause(d.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	return node.Drain{
		Workers: p.workers, Runtime: p.shutdown.Runtime, Reader: p.pleg, Pods: p.pods, Start: p.recovery, Kill: p.recovery.KillOrphan, Permit: p.housekeeper.Permit, Clock: p.config.Clock,
		Forget: func(uid types.UID) { _, wanted := p.loop.Store().Get(uid); p.journal.Drained(uid, wanted) },
	}.Run(both)
}

// flush gives the sinks a moment to take the last statuses.
func (p *parts) flush(ctx context.Context) {
	ctx, cancel := timing.WithTimeout(ctx, p.config.Clock, flushTimeout)
	defer cancel()
	if err := p.status.Flush(ctx); err != nil {
		p.config.Observe.Logger.Info("some statuses did not reach every sink before the end", "error", err.Error())
	}
}

// Shutdown stops all pods because the node is about to stop (spec/syncloop.md 16): in groups by priority, lowest
// first, each pod within its own grace and the time of its group. It returns once the containers have stopped, or
// the time of the last group is up, and the sinks have the final statuses, or once ctx has ended. Pods
// that have not succeeded become Failed with the reason Terminated.
//
// From then on new pods are refused with the reason NodeShutdown, until Run ends. If Shutdown fails, for example
// because ctx ends, it is cancelled: new pods are admitted again, and Shutdown may be called again; pods that were already
// told to stop still stop. Static pods start again at the next start of the engine.
//
// The error is [ErrNotRunning] (also if Run ends first), [ErrShuttingDown], what is wrong with the plan, the cause of ctx,
// or that it is not known which pods run: the runtime's list was not answered within the plan's time. The pods that were
// known have been stopped all the same; others may still run. Problems of single pods are only in the report.
func (e *Engine) Shutdown(ctx context.Context, plan shutdown.Plan) (shutdown.Report, error) {
	if err := plan.Validate(); err != nil {
		return shutdown.Report{}, err
	}
	if !e.running() {
		return shutdown.Report{}, ErrNotRunning
	}
	return e.shutdown.Run(ctx, plan)
}

// LastShutdown returns when the last shutdown of the node in this RootDir began and
// ended, zero if there was none. Pods are not in it.
func (e *Engine) LastShutdown() (shutdown.Report, error) { return e.shutdown.Last() }

// shutdownChanged reacts to a shutdown that began or was cancelled.
func (p *parts) shutdownChanged() {
	p.hooks.Changed()
	p.gateChanged()
	if !p.shutdown.Active() {
		p.tidy()
	}
}

// open returns why the loop should hand no pod to its worker now.
func (p *parts) open() error {
	if err := p.shutdown.Err(); err != nil {
		return err
	}
	return p.usable()
}
