package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
)

// Why the gate is closed.
var (
	ErrNotLoaded = errors.New("the checkpoints have not been read yet")
	ErrNotRead   = errors.New("the runtime has not been read completely yet")
)

// Pauses between attempts to read the checkpoints.
const (
	loadRetryMin = time.Second
	loadRetryMax = time.Minute
)

// relistRetry is the pause before another list, which the generator of lists logs if it fails.
const relistRetry = time.Second

// startWait is how long the start waits for the first load. After that, the engine continues as
// after a failed load.
const startWait = 10 * time.Second

// Runtime is what recovery reads of the container runtime.
type Runtime interface {
	// SyncedC is closed once every pod has been read.
	SyncedC() <-chan struct{}
	// Known returns the pods that the runtime has.
	Known() []types.UID
	// Get returns what the runtime has of a pod; an error means that this is not known.
	Get(uid types.UID) (*runtime.PodStatus, error)
	// Recall says which containers a pod had. They are read even if lists lack them.
	Recall(uid types.UID, containers ...string)
	// Relist lists the runtime, and returns once what has changed and what was recalled was read.
	Relist(ctx context.Context) error
}

// Statuses is the status manager.
type Statuses interface {
	Restore(r status.Restored)
	Adopt(pod *v1.Pod)
	Forget(uid types.UID)
	SetContainerStartup(uid types.UID, id runtime.ContainerID, started bool)
	SetContainerReadiness(uid types.UID, id runtime.ContainerID, ready bool)
}

// Probes is the probe manager.
type Probes interface {
	Status(kind probe.Kind, pod *v1.Pod, container string, id runtime.ContainerID) probe.Result
}

// Options configures a [Recovery]. All fields except Logger are required.
type Options struct {
	Journal  *Journal
	Runtime  Runtime
	Statuses Statuses
	Probes   Probes
	// NodeName is the name of the node that the report is about.
	NodeName string
	Events   podinfo.EventRecorder
	// Rival says whether the engine with this folder, which has made sandboxes with this engine's
	// owner, is running right now: then it returns an error that names that engine.
	Rival func(rootDir string) error
	// Opened is called once, when the gate opens. It must not block.
	Opened func()
	Clock  clock.WithTickerAndDelayedExecution
	Logger logr.Logger
}

// Recovery takes an agent from its start to the point where it may set up pods.
type Recovery struct {
	options Options
	journal *Journal
	// opened is closed once the records have been compared with the runtime.
	opened chan struct{}
	// first is the load that Start began; nil before. late: Start did not wait for its end, or it failed.
	first *firstLoad
	late  bool

	mu sync.Mutex
	// began is when Load was first called.
	began time.Time
	// found holds the pods that had a record at the start, bad the entries that were not usable records.
	found map[types.UID]bool
	bad   []checkpoint.Bad
	// rebooted: records were from before the machine was started.
	rebooted bool
	report   Report
}

// New returns a recovery that has not done anything yet.
func New(options Options) *Recovery {
	return &Recovery{options: options, journal: options.Journal, opened: make(chan struct{})}
}

// Run takes the steps of the start and then returns; it also returns when ctx ends. Loading is
// retried until it succeeds; until then, and until the runtime has been read, the gate stays closed
// and no pod is set up. It is an error if another running engine has made sandboxes with
// this engine's owner; then the gate stays closed.
func (r *Recovery) Run(ctx context.Context) error {
	defer r.first.end()
	if !r.first.wait(ctx) || !r.retryLoad(ctx) || !r.readRuntime(ctx) {
		return nil
	}
	if err := r.rival(); err != nil {
		return err
	}
	report := r.compare()
	r.publish(report)
	r.open()
	return nil
}

// KeepRecords writes changes of the records to the disk until ctx ends. It begins once they are
// loaded.
func (r *Recovery) KeepRecords(ctx context.Context) error {
	select {
	case <-r.journal.loaded:
	case <-ctx.Done():
		if !timing.Ended(r.journal.loaded) { // otherwise what is left is still written
			return nil
		}
	}
	return r.journal.keeper.Run(ctx)
}

// firstLoad is a load in progress, or its end.
type firstLoad struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // valid then
}

// Start loads the records, as Load does, and waits for that, but only for 10 s, so that the engine
// still works and answers if the folder does not respond. [Recovery.Run] waits for the rest. The
// end of ctx does not stop the load: what has to be written at the end must be known.
func (r *Recovery) Start(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &firstLoad{cancel: cancel, done: make(chan struct{})}
	r.first = l
	go func() {
		defer close(l.done)
		l.err = r.Load(ctx)
	}()
	timer := r.options.Clock.NewTimer(startWait)
	defer timer.Stop()
	select {
	case <-l.done:
		if l.err != nil {
			r.late = true
			r.options.Logger.Error(l.err, "No pod is set up")
		}
	case <-timer.C():
		r.late = true
		r.options.Logger.Info("The records have not been read yet; until they are, no pod is set up, stopped or removed", "after", startWait.String())
	}
}

// wait waits for the end of the load, if there is one; it returns false if ctx ends first.
func (l *firstLoad) wait(ctx context.Context) bool {
	if l == nil {
		return true
	}
	select {
	case <-l.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// end ends the load and waits for its goroutine.
func (l *firstLoad) end() {
	if l == nil {
		return
	}
	l.cancel()
	<-l.done
}

// Load takes over what is remembered. It is called before anything is asked or done (spec/status.md
// 9.5): from then on statuses are known, and what a sink has not acknowledged is sent. After an
// error, [Recovery.Run] retries.
func (r *Recovery) Load(ctx context.Context) error {
	r.mu.Lock()
	if r.began.IsZero() {
		r.began = r.options.Clock.Now()
	}
	r.mu.Unlock()
	loaded, err := r.journal.keeper.Load(ctx)
	if err != nil {
		return fmt.Errorf("the checkpoints cannot be read; pods stay as they are until they can: %w", err)
	}
	found, reboot := map[types.UID]bool{}, false
	for _, record := range loaded.Records {
		found[record.UID], reboot = true, reboot || rebooted(record, r.journal.bootID)
		record = r.journal.afterReboot(record)
		decided := r.journal.decided(record)
		r.restore(decided, decided != record)
		if ids := containersOf(decided); len(ids) > 0 {
			r.options.Runtime.Recall(record.UID, ids...)
		}
	}
	r.mu.Lock()
	r.found, r.bad, r.rebooted = found, loaded.Bad, reboot
	r.mu.Unlock()
	r.journal.open()
	return nil
}

// retryLoad loads the records unless that has been done, and reports whether they are loaded; if
// not, ctx has ended.
func (r *Recovery) retryLoad(ctx context.Context) bool {
	for delay := loadRetryMin; !timing.Ended(r.journal.loaded); {
		if timing.Sleep(ctx, r.options.Clock, delay) != nil {
			return false
		}
		delay = backoff.Next(loadRetryMin, loadRetryMax, delay)
		if err := r.Load(ctx); err != nil {
			r.options.Logger.Error(err, "No pod is set up", "retryAfter", delay.String())
		}
	}
	return true
}

// restore gives the status manager what was known of a pod. An unconfirmed status is one that no
// agent has sent.
func (r *Recovery) restore(record *checkpoint.Record, unconfirmed bool) {
	if record.Status == nil {
		return
	}
	acked := map[string]status.Acked{}
	for _, a := range record.Acks {
		acked[a.Sink] = status.Acked{Version: a.Version, Target: a.Target}
	}
	r.options.Statuses.Restore(status.Restored{
		Pod: podOf(record), Status: record.Remembered(false), Version: record.Version,
		Finished: record.Finished, Acked: acked, Unconfirmed: unconfirmed,
	})
	r.restoreProbes(record)
}

// restoreProbes updates a remembered status with the remembered probe results, which are written
// first, so that the status sent after a restart is the one that is generated next (spec/probe.md
// 8.8).
func (r *Recovery) restoreProbes(record *checkpoint.Record) {
	if record.Pod == nil || record.Terminal() {
		return
	}
	for _, list := range [...][]v1.ContainerStatus{record.Status.InitContainerStatuses, record.Status.ContainerStatuses} {
		for i := range list {
			id, err := runtime.ParseContainerID(list[i].ContainerID)
			if err != nil || list[i].State.Running == nil {
				continue
			}
			if r.options.Probes.Status(probe.Startup, record.Pod, list[i].Name, id) == probe.Success {
				r.options.Statuses.SetContainerStartup(record.UID, id, true)
			}
			if result := r.options.Probes.Status(probe.Readiness, record.Pod, list[i].Name, id); result != probe.None {
				r.options.Statuses.SetContainerReadiness(record.UID, id, result == probe.Success)
			}
		}
	}
}

// podOf returns the pod that a record is about, as far as it is remembered.
func podOf(r *checkpoint.Record) *v1.Pod {
	if r.Pod != nil {
		return r.Pod
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: r.UID, Namespace: r.Namespace, Name: r.Name, Generation: r.Generation,
		Annotations: map[string]string{podinfo.AnnotationSource: r.Source, podinfo.AnnotationHash: r.ConfigHash},
	}}
}

// readRuntime waits until the runtime has been read completely: before that, it is not known what
// is already running, for example another UID with a pod's name (spec/podworkers.md N6). If the
// records may have come after the first list, it is read again, with what they recall. It returns
// false if ctx ended first.
func (r *Recovery) readRuntime(ctx context.Context) bool {
	select {
	case <-r.options.Runtime.SyncedC():
	case <-ctx.Done():
		return false
	}
	for r.late && r.options.Runtime.Relist(ctx) != nil {
		if timing.Sleep(ctx, r.options.Clock, relistRetry) != nil {
			return false
		}
	}
	return true
}

// rival looks for another engine that works on the same sandboxes: each would stop what the other
// starts (spec/runtime.md 1.10).
func (r *Recovery) rival() error {
	asked := map[string]bool{"": true}
	for _, uid := range r.options.Runtime.Known() {
		view, err := r.options.Runtime.Get(uid)
		if err != nil || view == nil {
			continue // it does not say who made it
		}
		for _, s := range view.Sandboxes {
			dir := s.Annotations[runtime.AnnotationRootDir]
			if asked[dir] {
				continue
			}
			asked[dir] = true
			if err := r.options.Rival(dir); err != nil {
				return fmt.Errorf("sandbox %s of pod %s/%s: %w", s.ID, view.Namespace, view.Name, err)
			}
		}
	}
	return nil
}

// compare compares the records that were found with what the runtime has.
func (r *Recovery) compare() Report {
	inRuntime := map[types.UID]bool{}
	for _, uid := range r.options.Runtime.Known() {
		view, err := r.options.Runtime.Get(uid)
		switch {
		case err != nil:
			inRuntime[uid] = true // it is listed, and nothing says that it has stopped
		case view != nil && len(view.Sandboxes)+len(view.Containers) > 0:
			inRuntime[uid] = view.Running()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	records := slices.DeleteFunc(r.journal.keeper.All(), func(record *checkpoint.Record) bool { return !r.found[record.UID] })
	report := compare(records, inRuntime)
	report.At, report.Rebooted, report.Bad = r.options.Clock.Now(), r.rebooted, r.bad
	return report
}

// publish keeps the report, logs it and, if anything was found, emits an event.
func (r *Recovery) publish(report Report) {
	r.mu.Lock()
	r.report = report
	r.mu.Unlock()
	r.options.Logger.Info("Recovered", "report", report.String())
	if report.Records == 0 && len(report.Unknown) == 0 && len(report.Bad) == 0 {
		return
	}
	kind := v1.EventTypeNormal
	if len(report.Bad) > 0 {
		kind = v1.EventTypeWarning
	}
	r.options.Events.Eventf(podinfo.NodeReference(r.options.NodeName), kind, "Recovered", "%s", report.String())
}

// open allows pods to be set up.
func (r *Recovery) open() {
	close(r.opened)
	r.options.Opened()
}

// Report returns what was found at the start; false until the gate is open.
func (r *Recovery) Report() (Report, bool) {
	if !timing.Ended(r.opened) {
		return Report{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report, true
}

// Problems returns what keeps the gate closed, if that takes too long.
func (r *Recovery) Problems() []problem.Problem {
	err := r.Gate()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || r.began.IsZero() || r.options.Clock.Since(r.began) < problem.RecoveryLimit {
		return nil
	}
	p := problem.Problem{
		Kind: problem.Recovery, Severity: problem.Unhealthy, Name: "start", Since: r.began,
		Waits: "the records to be read", Advice: "look at the disk of the engine's folder; no pod is set up, stopped or removed meanwhile",
	}
	if !errors.Is(err, ErrNotLoaded) {
		p.Waits, p.Advice = "the container runtime to describe every pod", "look at the container runtime's log; no pod is set up meanwhile"
	}
	return []problem.Problem{p}
}

// OpenedC is closed when the gate is open.
func (r *Recovery) OpenedC() <-chan struct{} { return r.opened }

// Gate returns why no pod may be set up yet, nil once the gate is open.
func (r *Recovery) Gate() error {
	switch {
	case !timing.Ended(r.journal.loaded):
		return ErrNotLoaded
	case !timing.Ended(r.opened):
		return ErrNotRead
	}
	return nil
}
