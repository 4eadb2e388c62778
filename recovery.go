package podwright

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/recovery"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/syncloop"
)

// Recovery is what an engine found at its start: its records compared with what the
// runtime has (spec/cleanup.md CK9). It encodes as JSON. UIDs are sorted.
type Recovery = recovery.Report

// Recovery returns what the engine found at its start, false until the runtime has
// been read completely. Before that nothing is started, stopped or removed.
func (e *Engine) Recovery() (Recovery, bool) { return e.recovery.Report() }

// buildJournal makes what writes down what must survive the agent.
func (e *Engine) buildJournal(meter metric.Meter) {
	c := e.config
	o := c.Checkpoints
	o.Meter = meter
	e.journal = recovery.NewJournal(recovery.JournalOptions{
		Checkpoints: o, BootID: c.Node.BootID, End: e.endOf, Written: e.recordWritten,
		Clock: c.Clock, Logger: c.Observe.Logger.WithName("checkpoint"),
	})
	e.probeMemory = recovery.NewProbeMemory(e.journal)
}

// buildRecovery makes what takes the engine from its start to its first pod.
func (e *Engine) buildRecovery() {
	c := e.config
	e.recovery = recovery.New(recovery.Options{
		Journal: e.journal, Runtime: knownRuntime{e.pleg}, Statuses: e.status, Probes: e.probes,
		NodeName: c.Node.Name, Events: c.Observe.Events, Opened: func() { e.loop.GateChanged() },
		Clock: c.Clock, Logger: c.Observe.Logger,
	})
}

// pruner makes what removes records that are of no more use.
func (e *Engine) pruner() *recovery.Pruner {
	return recovery.NewPruner(recovery.PrunerOptions{
		Journal: e.journal, Desired: e.loop.Store(), Workers: e.workers, Undecided: e.loop.Undecided,
		View: e.pleg.Get, TellEnd: e.syncer.PublishEnd, Forget: e.status.RemoveOrphanedStatuses, Sinks: e.status.Sinks(),
		Clock: e.config.Clock, Logger: e.config.Observe.Logger,
	})
}

// knownRuntime shows recovery the cache of what the runtime has.
type knownRuntime struct{ *pleg.Generator }

func (k knownRuntime) Known() []types.UID {
	pods := k.Dump().Pods
	uids := make([]types.UID, len(pods))
	for i, p := range pods {
		uids[i] = p.UID
	}
	return uids
}

// recordWritten lets go on what waited for a pod's record: its status, and its
// worker, whose own back-off may be minutes by now.
func (e *Engine) recordWritten(uid types.UID, waiting *v1.Pod) {
	e.status.Persisted(uid)
	if waiting != nil {
		e.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: waiting, StartTime: e.config.Clock.Now()})
	}
}

// endOf returns a container with the message it ended with, nil if the runtime
// does not have it.
func (e *Engine) endOf(ctx context.Context, uid types.UID, id runtime.ContainerID) (*runtime.ContainerStatus, error) {
	c, err := freshReader{e.pleg}.exitOf(ctx, uid, id)
	if err != nil || c == nil {
		return nil, err
	}
	if text := e.pods.TerminationMessage(c); text != "" && text != c.Message {
		changed := *c
		changed.Message = text
		c = &changed
	}
	return c, nil
}

// sources wraps the configured sources, so that what is remembered stands in for
// those that do not answer.
func (e *Engine) sources() []syncloop.Source {
	out := make([]syncloop.Source, len(e.config.Sources))
	for i, s := range e.config.Sources {
		out[i] = e.remembering(s)
	}
	return out
}

func (e *Engine) remembering(s syncloop.Source) syncloop.Source {
	return e.journal.Remembering(s, !e.config.Storage.ForgetDesired, func() bool { return e.loop.Ready() })
}

// AddSource adds a source to the engine, before or while it runs (spec/syncloop.md
// R4). Until the source has been heard nothing is removed. ctx bounds the call, not
// the source. The error says what is wrong with the source, or that the engine has
// ended.
func (e *Engine) AddSource(ctx context.Context, s syncloop.Source) error {
	if s == nil {
		return errors.New("podwright: source is nil")
	}
	if err := e.loop.AddSource(ctx, e.remembering(s)); err != nil {
		return fmt.Errorf("podwright: %w", err)
	}
	return nil
}

// couldRun reports whether a container of the pod may run. A worker that cannot
// write down the end of its pod stays where it is (CK4); what the runtime shows
// counts then, so that the end is told in time all the same (spec/status.md 9.11).
func (e *Engine) couldRun(uid types.UID) bool {
	if !e.workers.CouldHaveRunningContainers(uid) {
		return false
	}
	if e.journal.Durable(uid, false) {
		return true
	}
	view, err := e.pleg.Get(uid)
	return err != nil || !e.pleg.Synced() || view.ContainersRunning()
}
