package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// ErrShuttingDown says that the node is shutting down, or has shut down.
var ErrShuttingDown = errors.New("the node is shutting down already")

const (
	// flushTimeout is how long a shutdown waits for the sinks.
	flushTimeout = 5 * time.Second
	// noteTimeout is how long it waits for the record of its begin, and for that of its end.
	noteTimeout = 2 * time.Second
	// removeTimeout is how long it then waits for the removal of containers, of all pods together.
	removeTimeout = 10 * time.Second
)

// PodStopper stops pods and waits for their end; [podworkers.Workers] does.
type PodStopper interface {
	UpdatePod(update podworkers.UpdateOptions) podworkers.Outcome
	KillPod(ctx context.Context, pod *v1.Pod, kill podworkers.KillOptions) error
	WaitFinished(ctx context.Context, uid types.UID) error
	IsPodKnownTerminated(uid types.UID) bool
}

// FinalStatuses sends the statuses of pods; [status.Manager] does.
type FinalStatuses interface {
	Get(uid types.UID) (v1.PodStatus, bool)
	// Flush returns when every sink has the newest statuses.
	Flush(ctx context.Context) error
}

// Shutdown stops all pods because the node is about to stop (spec/syncloop.md 16). Every
// field must be set before Run is called.
type Shutdown struct {
	// File keeps the times of the last shutdown.
	File      string
	Residents *Residents
	Stopper   PodStopper
	// Runtime lists the pods that run, and Start knows those that have no worker yet.
	Runtime  PodLister
	Start    Start
	Statuses FinalStatuses
	// Acknowledged reports whether every sink has the newest status of a pod.
	Acknowledged func(uid types.UID) bool
	// RemovePod removes the containers of a pod from the runtime. It is called for several pods at once.
	RemovePod func(ctx context.Context, uid types.UID) error
	// Changed is called when a shutdown has begun, or was cancelled.
	Changed func()
	// Stopped is closed when the engine's run has ended; then a shutdown ends with ErrStopped.
	Stopped    <-chan struct{}
	ErrStopped error
	Clock      clock.WithTickerAndDelayedExecution
	Logger     logr.Logger

	mu     sync.Mutex
	active bool
	// notes are the writes of File under way.
	notes *foreign.Calls
}

// Active reports whether the node is shutting down or has shut down, so that no new pod may come.
func (s *Shutdown) Active() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// Err returns an error while the node shuts down.
func (s *Shutdown) Err() error {
	if s.Active() {
		return errShuttingDown
	}
	return nil
}

// Run stops the pods group by group. It returns [ErrShuttingDown] for a second call. The shutdown is
// cancelled, and Run returns why, if the engine's run ends (ErrStopped), if ctx ends (its cause), or if
// it cannot be found out which pods run. A pod's trouble is only in the report.
func (s *Shutdown) Run(ctx context.Context, plan shutdown.Plan) (shutdown.Report, error) {
	select {
	case <-s.Stopped:
		return shutdown.Report{}, s.ErrStopped
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		select {
		case <-s.Stopped:
			cancel(s.ErrStopped)
		case <-ctx.Done():
		}
	})
	return s.run(ctx, plan, cancel)
}

func (s *Shutdown) run(ctx context.Context, plan shutdown.Plan, end context.CancelCauseFunc) (shutdown.Report, error) {
	if !s.begin() {
		return shutdown.Report{}, ErrShuttingDown
	}
	report := shutdown.Report{Began: s.Clock.Now()}
	s.note(ctx, report)
	s.Logger.Info("The node shuts down", "groups", len(plan.Groups))
	var err error
	report.Pods, err = s.newStopping(plan, end).run(ctx)
	if ctx.Err() == nil && (err == nil || len(report.Pods) > 0) {
		s.complete(ctx, &report)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.cancelled(err)
		return report, err
	}
	report.Ended = s.Clock.Now()
	s.note(ctx, report)
	s.Logger.Info("All pods were stopped", "pods", len(report.Pods))
	return report, nil
}

// begin refuses new pods from now on; it returns false if they are already refused.
func (s *Shutdown) begin() bool {
	s.mu.Lock()
	if s.active {
		s.mu.Unlock()
		return false
	}
	s.active = true
	if s.notes == nil {
		s.notes = foreign.New(s.Clock)
	}
	s.mu.Unlock()
	s.Changed()
	return true
}

// cancelled accepts new pods again.
func (s *Shutdown) cancelled(why error) {
	s.mu.Lock()
	s.active = false
	s.mu.Unlock()
	s.Changed()
	s.Logger.Info("The shutdown of the node was cancelled", "reason", why.Error())
}

// complete waits for the sinks, fills in what became of each pod, and removes the containers of
// static pods that will run again.
func (s *Shutdown) complete(ctx context.Context, report *shutdown.Report) {
	limited, cancel := timing.WithTimeout(ctx, s.Clock, flushTimeout)
	defer cancel()
	err := s.Statuses.Flush(limited)
	var again []*shutdown.PodReport
	for i := range report.Pods {
		p := &report.Pods[i]
		final, _ := s.Statuses.Get(p.UID)
		p.Phase = final.Phase
		p.Acknowledged = p.Released && (err == nil || s.Acknowledged(p.UID))
		if p.Released && !p.Acknowledged {
			p.Problem = fmt.Sprintf("a sink has not taken the final status: %v", err)
		}
		if pod, ok := s.Residents.Desired.Get(p.UID); ok && p.Released && podinfo.Static(pod) && shutdown.Ended(&final) {
			again = append(again, p)
		}
	}
	s.remove(ctx, again)
}

// remove removes the containers of pods, all at once: the power may fail soon, and a runtime that hangs
// must not hold the shutdown, nor write to its report when it answers late.
func (s *Shutdown) remove(ctx context.Context, pods []*shutdown.PodReport) {
	ctx, cancel := timing.WithTimeout(ctx, s.Clock, removeTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range pods {
		wg.Go(func() {
			uid := p.UID
			err := attempt(ctx, s.Clock, "RemovePod", func(ctx context.Context) error { return s.RemovePod(ctx, uid) })
			if err != nil {
				p.Problem = fmt.Sprintf("its containers could not be removed: %v", err)
			}
		})
	}
	wg.Wait()
}

// note records when the shutdown began and ended; what became of pods is in their records. A disk that
// hangs must not hold the shutdown: while a write goes on, no other is made.
func (s *Shutdown) note(ctx context.Context, report shutdown.Report) {
	report.Pods = nil
	call := foreign.Call{Kind: problem.Record, Name: "the record of the shutdown"}
	_, err := foreign.Ask(context.WithoutCancel(ctx), s.notes, call, foreign.Limits{Wait: noteTimeout}, func(context.Context) (struct{}, error) {
		text, err := json.Marshal(report)
		if err == nil {
			err = durable.WriteFile(s.File, text)
		}
		return struct{}{}, err
	})
	if err != nil {
		s.Logger.Error(err, "The times of the shutdown cannot be kept")
	}
}

// Last returns when the last recorded shutdown began and ended, or zero. It does not include pods.
func (s *Shutdown) Last() (shutdown.Report, error) {
	var report shutdown.Report
	text, err := os.ReadFile(s.File)
	if errors.Is(err, os.ErrNotExist) {
		return report, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		return shutdown.Report{}, fmt.Errorf("the times of the last shutdown: %w", err)
	}
	return report, nil
}
