package podwright

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// ErrShuttingDown: the node shuts down already, or has.
var ErrShuttingDown = errors.New("the node is shutting down already")

var errShuttingDown = errors.New("the node is shutting down")

// ShutdownReport is what a shutdown of the node did. It encodes as JSON.
type ShutdownReport struct {
	Began time.Time `json:"began"`
	// Ended is zero while pods are being stopped, and if the shutdown was cancelled.
	Ended time.Time `json:"ended,omitzero"`
	// Pods in the order of their groups, then by namespace and name.
	Pods []PodShutdown `json:"pods,omitempty"`
}

// PodShutdown is how one pod ended.
type PodShutdown struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Group is the priority of its group, Grace what it had, in seconds.
	Group int32 `json:"group"`
	Grace int64 `json:"grace"`
	// Phase it ended in.
	Phase v1.PodPhase `json:"phase,omitempty"`
	// Stopped: no container of it runs. Released: nor is a volume mounted.
	// Acknowledged: every sink has its final status.
	Stopped      bool `json:"stopped"`
	Released     bool `json:"released"`
	Acknowledged bool `json:"acknowledged"`
	// Problem says why one of those is missing; empty otherwise.
	Problem string `json:"problem,omitempty"`
}

// Shutdown stops all pods because the node is about to stop (spec/syncloop.md 16): in
// groups by priority, lowest first, each pod with the time that its own grace and its
// group leave it. It returns when the containers have stopped, or the time of the last
// group is over, and the sinks have the final statuses, or ctx has ended. Pods that have
// not succeeded are Failed with the reason Terminated.
//
// From then on new pods are refused with the reason NodeShutdown, until Run ends. If
// ctx ends before that, the shutdown is cancelled: new pods are welcome again, and
// Shutdown may be called again; pods that were told to stop do. Static pods begin anew
// when the engine is started the next time.
//
// The error is [ErrNotRunning], [ErrShuttingDown], what is wrong with the plan, or the
// cause of ctx; a pod's trouble is in the report alone.
func (e *Engine) Shutdown(ctx context.Context, plan shutdown.Plan) (ShutdownReport, error) {
	if err := plan.Validate(); err != nil {
		return ShutdownReport{}, err
	}
	if err := e.beginShutdown(); err != nil {
		return ShutdownReport{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		select {
		case <-e.stopped:
			cancel(ErrNotRunning)
		case <-ctx.Done():
		}
	})
	report := ShutdownReport{Began: e.config.Clock.Now()}
	e.noteShutdown(report)
	e.config.Observe.Logger.Info("The node shuts down", "groups", len(plan.Groups))
	for _, batch := range plan.Batches(e.stoppable()) {
		report.Pods = append(report.Pods, e.stopBatch(ctx, batch)...)
	}
	if ctx.Err() == nil {
		e.settle(ctx, &report)
	}
	if ctx.Err() != nil {
		e.endShutdown()
		return report, context.Cause(ctx)
	}
	report.Ended = e.config.Clock.Now()
	e.noteShutdown(report)
	e.config.Observe.Logger.Info("All pods were stopped", "pods", len(report.Pods))
	return report, nil
}

// beginShutdown closes the door.
func (e *parts) beginShutdown() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.stopped:
		return ErrNotRunning
	default:
	}
	switch {
	case !e.started:
		return ErrNotRunning
	case e.down:
		return ErrShuttingDown
	}
	e.down = true
	e.hooks.Changed()
	return nil
}

// endShutdown opens it again.
func (e *parts) endShutdown() {
	e.mu.Lock()
	e.down = false
	e.mu.Unlock()
	e.hooks.Changed()
	e.tidy()
	e.config.Observe.Logger.Info("The shutdown of the node was cancelled")
}

// shuttingDown reports whether no new pod may come.
func (e *parts) shuttingDown() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.down
}

// open returns why the loop should hand no pod to its worker now.
func (e *parts) open() error {
	if e.shuttingDown() {
		return errShuttingDown
	}
	return e.usable()
}

// stoppable returns the pods that have a worker and have not finished, by namespace and
// name.
func (e *parts) stoppable() []*v1.Pod {
	known := e.syncer.Stopping()
	for _, p := range e.loop.Store().Pods() {
		known[p.UID] = p
	}
	var out []*v1.Pod
	for uid, p := range known {
		if _, has := e.workers.Explain(uid); has && !e.workers.ShouldPodBeFinished(uid) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// stopBatch stops the pods of one group at once and waits for them no longer than the
// group's time.
func (e *parts) stopBatch(ctx context.Context, batch shutdown.Batch) []PodShutdown {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := e.config.Clock.AfterFunc(batch.Time, func() {
		cancel(fmt.Errorf("the %v of its group are over", batch.Time))
	})
	defer limit.Stop()
	results := make([]PodShutdown, len(batch.Pods))
	var wg sync.WaitGroup
	for i, pod := range batch.Pods {
		wg.Go(func() { results[i] = e.stopOne(ctx, batch.Group, pod) })
	}
	wg.Wait()
	return results
}

// stopOne stops a pod and waits until what it held is released.
func (e *parts) stopOne(ctx context.Context, group shutdown.Group, pod *v1.Pod) PodShutdown {
	grace := group.Grace(pod)
	r := PodShutdown{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Group: group.Priority, Grace: grace}
	_, err := e.workers.KillPod(ctx, pod, podworkers.KillOptions{GracePeriodSeconds: &grace, StatusFunc: shutdown.Amend})
	if err != nil {
		r.Problem = err.Error()
		return r
	}
	r.Stopped = true
	if err := e.workers.WaitFinished(ctx, pod.UID); err != nil {
		r.Problem = fmt.Sprintf("not everything it held is released: %v", err)
		return r
	}
	r.Released = true
	return r
}

// settle waits for the sinks, fills in what became of each pod, and forgets the ends of
// static pods, which are to run again.
func (e *parts) settle(ctx context.Context, report *ShutdownReport) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := e.config.Clock.AfterFunc(flushTimeout, cancel)
	defer limit.Stop()
	err := e.status.Flush(limited)
	for i := range report.Pods {
		p := &report.Pods[i]
		s, _ := e.status.Get(p.UID)
		p.Phase = s.Phase
		p.Acknowledged = p.Released && (err == nil || e.journal.AcknowledgedBy(p.UID, e.status.Sinks()))
		if p.Released && !p.Acknowledged {
			p.Problem = fmt.Sprintf("a sink has not taken the final status: %v", err)
		}
		if pod, ok := e.loop.Store().Get(p.UID); ok && p.Released && podinfo.Static(pod) && shutdown.Ended(&s) {
			if err := e.pods.RemovePod(ctx, p.UID); err != nil {
				p.Problem = fmt.Sprintf("its containers could not be removed: %v", err)
			}
		}
	}
}

// shutdownFile keeps the times of the last shutdown, below RootDir.
const shutdownFile = "state/shutdown.json"

// noteShutdown writes down when the node's shutdown began and ended; what became of
// pods is in their records.
func (e *parts) noteShutdown(report ShutdownReport) {
	report.Pods = nil
	text, err := json.Marshal(report)
	if err == nil {
		err = durable.WriteFile(filepath.Join(e.config.RootDir, shutdownFile), text)
	}
	if err != nil {
		e.config.Observe.Logger.Error(err, "The times of the shutdown cannot be kept")
	}
}

// LastShutdown returns when the last shutdown of the node in this RootDir began and
// ended, zero if there was none. Pods are not in it.
func (e *Engine) LastShutdown() (ShutdownReport, error) {
	var report ShutdownReport
	text, err := os.ReadFile(filepath.Join(e.config.RootDir, shutdownFile))
	if errors.Is(err, os.ErrNotExist) {
		return report, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		return ShutdownReport{}, fmt.Errorf("the times of the last shutdown: %w", err)
	}
	return report, nil
}
