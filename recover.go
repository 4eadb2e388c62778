package podwright

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
)

// Recovery is what an engine found at its start: its records compared with what
// the runtime has (spec/cleanup.md CK9). It encodes as JSON. UIDs are sorted.
type Recovery struct {
	// At is when the comparison was made, Rebooted whether records are from before
	// the machine was started.
	At       time.Time `json:"at"`
	Rebooted bool      `json:"rebooted"`
	// Records is how many records could be used.
	Records int `json:"records"`
	// Resumed pods go on: something of them runs.
	Resumed []types.UID `json:"resumed,omitempty"`
	// Ended pods have a terminal phase or are finished, and stay so.
	Ended []types.UID `json:"ended,omitempty"`
	// Stopping pods were asked to stop before, and something of them still runs.
	Stopping []types.UID `json:"stopping,omitempty"`
	// Lost pods had been started and nothing of them runs.
	Lost []types.UID `json:"lost,omitempty"`
	// Waiting pods had been admitted and not started.
	Waiting []types.UID `json:"waiting,omitempty"`
	// Unknown pods are in the runtime, and there is no record of them.
	Unknown []types.UID `json:"unknown,omitempty"`
	// Bad is what was found among the records and could not be used.
	Bad []checkpoint.Bad `json:"bad,omitempty"`
}

// String is one line for a log or an event.
func (r Recovery) String() string {
	text := fmt.Sprintf("%d pod records: %d pods resumed, %d ended, %d stopping, %d lost, %d waiting; %d without record",
		r.Records, len(r.Resumed), len(r.Ended), len(r.Stopping), len(r.Lost), len(r.Waiting), len(r.Unknown))
	if r.Rebooted {
		text += "; the machine was restarted"
	}
	if len(r.Bad) > 0 {
		names := make([]string, len(r.Bad))
		for i, b := range r.Bad {
			names[i] = b.String()
		}
		text += "; unusable: " + strings.Join(names, ", ")
	}
	return text
}

// Recovery returns what the engine found at its start, false until the runtime has
// been read completely. Before that nothing is started, stopped or removed.
func (e *Engine) Recovery() (Recovery, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.recovery == nil {
		return Recovery{}, false
	}
	return *e.recovery, true
}

// compare sorts what is remembered by what runs.
func compare(records []*checkpoint.Record, inRuntime map[types.UID]bool, bootID string) Recovery {
	out := Recovery{Records: len(records)}
	known := map[types.UID]bool{}
	for _, r := range records {
		known[r.UID] = true
		runs, listed := inRuntime[r.UID]
		out.Rebooted = out.Rebooted || rebooted(r, bootID)
		switch {
		case r.Finished, r.Terminal() && !runs:
			out.Ended = append(out.Ended, r.UID)
		case r.Termination != nil:
			out.Stopping = append(out.Stopping, r.UID)
		case runs:
			out.Resumed = append(out.Resumed, r.UID)
		case !r.StartedAt.IsZero() || listed:
			out.Lost = append(out.Lost, r.UID)
		default:
			out.Waiting = append(out.Waiting, r.UID)
		}
	}
	for uid := range inRuntime {
		if !known[uid] {
			out.Unknown = append(out.Unknown, uid)
		}
	}
	for _, list := range [][]types.UID{out.Resumed, out.Ended, out.Stopping, out.Lost, out.Waiting, out.Unknown} {
		slices.Sort(list)
	}
	return out
}

// rebooted reports whether the machine was started anew since a record was
// written.
func rebooted(r *checkpoint.Record, bootID string) bool {
	return bootID != "" && r.BootID != "" && r.BootID != bootID
}

// readBootID names this boot of the machine, "" if the machine does not say.
func readBootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// load takes over what is remembered: first of all, before anything is asked or
// done (spec/status.md 9.5). Statuses are known from then on, and what a sink has
// not acknowledged is sent.
func (e *Engine) load(ctx context.Context) error {
	loaded, err := e.journal.keeper.Load(ctx)
	if err != nil {
		return fmt.Errorf("the checkpoints cannot be read; pods stay as they are until they can: %w", err)
	}
	for _, r := range loaded.Records {
		if r.Status == nil {
			continue
		}
		acked := map[string]status.Acked{}
		for _, a := range r.Acks {
			acked[a.Sink] = status.Acked{Version: a.Version, Target: a.Target}
		}
		e.status.Restore(status.Restored{
			Pod: podOf(r), Status: r.Remembered(rebooted(r, e.journal.bootID)), Version: r.Version, Finished: r.Finished, Acked: acked,
		})
		e.restoreProbes(r)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loaded, e.badRecords, e.found = true, loaded.Bad, map[types.UID]bool{}
	for _, r := range loaded.Records {
		e.found[r.UID] = true
	}
	return nil
}

// podOf is the pod a record is about, as far as it is remembered.
func podOf(r *checkpoint.Record) *v1.Pod {
	if r.Pod != nil {
		return r.Pod
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: r.UID, Namespace: r.Namespace, Name: r.Name, Generation: r.Generation,
		Annotations: map[string]string{podinfo.AnnotationSource: r.Source, podinfo.AnnotationHash: r.ConfigHash},
	}}
}

var errNotLoaded = errors.New("the checkpoints have not been read yet")

// Pauses between attempts to read the checkpoints.
const (
	loadRetryMin = time.Second
	loadRetryMax = time.Minute
)

// keep runs the keeper of the records, once they could be read.
func (e *Engine) keep(ctx context.Context) error {
	for delay := loadRetryMin; !e.isLoaded(); delay = backoff.Next(loadRetryMin, loadRetryMax, delay) {
		timer := e.config.Clock.NewTimer(delay)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		if err := e.load(ctx); err != nil {
			e.config.Observe.Logger.Error(err, "no pod is set up", "retryAfter", backoff.Next(loadRetryMin, loadRetryMax, delay).String())
		}
	}
	return e.journal.keeper.Run(ctx)
}

func (e *Engine) isLoaded() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.loaded
}

// recovered reports whether the engine knows what there is: records are loaded and
// the runtime was read. The first time it is, it says so.
func (e *Engine) recovered() bool {
	e.mu.Lock()
	done, loaded := e.recovery != nil, e.loaded
	e.mu.Unlock()
	if done || !loaded || !e.pleg.Synced() {
		return done
	}
	inRuntime := map[types.UID]bool{}
	for _, p := range e.pleg.Dump().Pods {
		if view, err := e.pleg.Get(p.UID); err == nil && view != nil && len(view.Sandboxes)+len(view.Containers) > 0 {
			inRuntime[p.UID] = view.Running()
		}
	}
	records := slices.DeleteFunc(e.journal.keeper.All(), func(r *checkpoint.Record) bool { return !e.found[r.UID] })
	report := compare(records, inRuntime, e.journal.bootID)
	report.At = e.config.Clock.Now()
	e.mu.Lock()
	report.Bad = e.badRecords
	first := e.recovery == nil
	if first {
		e.recovery = &report
	}
	e.mu.Unlock()
	if first {
		e.announceRecovery(report)
	}
	return true
}

// announceRecovery tells people what was found.
func (e *Engine) announceRecovery(report Recovery) {
	e.config.Observe.Logger.Info("recovered", "report", report.String())
	kind := v1.EventTypeNormal
	if len(report.Bad) > 0 {
		kind = v1.EventTypeWarning
	}
	e.config.Observe.Events.Eventf(podinfo.NodeReference(e.config.Node.Name),
		kind, "Recovered", "%s", report.String())
}

// sight completes an update before the workers get it. The first time the pod is
// handed over in this process, what is remembered of it counts: a pod that has
// ended stays so (CK4), one that had to stop goes on stopping, with what is left
// of its grace (CK6).
func (e *Engine) sight(options podworkers.UpdateOptions) []podworkers.UpdateOptions {
	all := []podworkers.UpdateOptions{options}
	pod := options.Pod
	if pod == nil || !e.journal.meet(pod) {
		return all
	}
	e.status.Adopt(pod)
	r := e.journal.keeper.Get(pod.UID)
	if r == nil {
		return all
	}
	if r.Finished && !r.Terminal() || begunAnew(pod, r) {
		// It was removed, has ended and is back, or ended because the node did: a new
		// life.
		e.journal.keeper.Delete(pod.UID)
		e.journal.forget(pod.UID)
		e.status.Forget(pod.UID)
		e.journal.meet(pod)
		return all
	}
	if r.Terminal() && !podinfo.Terminal(pod.Status.Phase) {
		ended := *pod
		ended.Status = *r.Status
		all[0].Pod = &ended
	}
	if r.Termination == nil || options.Type == podworkers.Kill || r.Finished {
		return all
	}
	kill := all[0]
	kill.Type, kill.Kill = podworkers.Kill, &podworkers.KillOptions{Evict: r.Termination.Evicted}
	if left := r.Termination.RemainingGrace(e.config.Clock.Now()); left > 0 {
		kill.Kill.GracePeriodSeconds = &left
	}
	if !r.Terminal() && !r.Termination.Evicted && podinfo.Static(pod) && pod.DeletionTimestamp == nil {
		// It was removed and has come back: its next life begins after this end.
		again := all[0]
		again.Type = podworkers.Create
		return []podworkers.UpdateOptions{kill, again}
	}
	return []podworkers.UpdateOptions{kill}
}

// orphan is the update for a pod that runs and nobody wants: with the pod as it was
// last desired if that is remembered, because it ends better that way: with its own grace,
// or with what is left of it if it was to stop before.
func (e *Engine) orphan(pod *runtime.Pod) podworkers.UpdateOptions {
	options := podworkers.UpdateOptions{Type: podworkers.Kill, RunningPod: pod, StartTime: e.config.Clock.Now()}
	r := e.journal.keeper.Get(pod.UID)
	if r == nil || r.Pod == nil {
		return options
	}
	e.journal.remember(r.Pod)
	options.Pod, options.Kill = r.Pod, &podworkers.KillOptions{}
	if r.Termination != nil {
		grace := max(1, r.Termination.RemainingGrace(e.config.Clock.Now()))
		options.Kill.GracePeriodSeconds = &grace
	}
	return options
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
	return &rememberedSource{
		Source: s, journal: e.journal, clock: e.config.Clock, standIn: !e.config.Storage.ForgetDesired,
		loopReady: func() bool { return e.loop.Ready() }, turn: make(chan struct{}, 1),
	}
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
