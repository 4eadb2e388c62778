package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// drainPeriod is the time between two looks for pods that have finished while others have not.
const drainPeriod = time.Second

// drainRounds is how often a drain looks again for what is left: a runtime may go on to list what it has removed.
const drainRounds = 3

// drainRetries is how often a drain tries again what has failed: more often than a pod that has just been stopped, and whose
// sandbox lists lack, has no status (spec/pleg.md R15).
const drainRetries = 6

// drainReadLimit is how long a drain waits for the runtime to describe a pod, and drainStartLimit how long, once all that
// it knows is stopped, for the agent's start to find out what else runs.
const (
	drainReadLimit  = 10 * time.Second
	drainStartLimit = time.Minute
)

// ErrKept says that every pod is stopped, but the remains of some were kept.
var ErrKept = errors.New("all pods are stopped, but the remains of some are kept")

// StoppableWorkers end with all their pods; [podworkers.Workers] are such workers.
type StoppableWorkers interface {
	Snapshot() []podworkers.Explanation
	Stop(ctx context.Context, mode podworkers.StopMode) error
}

// Opening is the part of an agent's start that ends when it is known what the runtime has and what is remembered of it;
// [recovery.Recovery] is.
type Opening interface {
	// OpenedC is closed when that is known; until then Gate returns what is missing.
	OpenedC() <-chan struct{}
	Gate() error
}

// PodReader reads a pod past the cache; [pleg.Generator] does.
type PodReader interface {
	ReadNow(ctx context.Context, uid types.UID) (*runtime.PodStatus, error)
}

// PodRemover removes pods from the node; [pods.Manager] does.
type PodRemover interface {
	KillPod(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, graceOverride *int64) error
	RemovePod(ctx context.Context, uid types.UID) error
	RemovePodDir(ctx context.Context, uid types.UID) error
}

// Drain terminates all pods and removes what is left of them.
type Drain struct {
	Workers StoppableWorkers
	Runtime PodLister
	Reader  PodReader
	Pods    PodRemover
	Start   Opening
	// Kill returns how to stop a pod without a worker: as it is remembered, with what is left of
	// its grace (IN7).
	Kill func(pod *runtime.Pod) podworkers.UpdateOptions
	// Forget drops the memory of a pod that ended only because of the drain.
	Forget func(uid types.UID)
	// Permit asks everything that may object to a removal (IN11). What it forbids stays and is
	// named in the error; the drain waits for the removal rate. Pods are stopped without asking:
	// that is what a drain is for.
	Permit Permit
	Clock  clock.WithTicker
}

// Run terminates all pods and removes their remains: the pods that the workers know, and those that
// only the runtime knows because no source has named them yet. It ends with ctx, also if a call for a
// pod does not, which holds up no other pod; the error names the pods that are left. The error is an
// [ErrKept] if all pods are stopped and nothing failed. No new pod may come meanwhile.
func (d Drain) Run(ctx context.Context) error {
	run := draining{
		Drain: d, known: map[types.UID]bool{}, begun: map[types.UID]*ending{},
		removals: timing.Batch{Clock: d.Clock}, left: map[types.UID]error{},
	}
	run.Permit = d.Permit.inTurn()
	return run.all(ctx)
}

// draining is a drain under way. Only the goroutine of Run uses it, except for left.
type draining struct {
	Drain
	// known are the pods of workers, begun those that the drain itself stops or removes.
	known    map[types.UID]bool
	begun    map[types.UID]*ending
	removals timing.Batch
	// listedAt is when the runtime had listed its pods, starting whether the agent's start was not over before that.
	listedAt time.Time
	starting bool
	under    sync.WaitGroup

	mu   sync.Mutex
	left map[types.UID]error
}

// ending is what the drain does with a pod; done is closed when that is over.
type ending struct {
	pod  *runtime.Pod
	done chan struct{}
}

func (d *draining) all(ctx context.Context) error {
	var remains []*runtime.Pod
	for _, p := range d.Workers.Snapshot() {
		d.known[p.UID] = true
		remains = append(remains, podOfWorker(p))
	}
	var problems, kept []error
	if err := d.stopWorkers(ctx); err != nil {
		problems = append(problems, fmt.Errorf("not every pod could be stopped: %w", err))
	}
	d.starting = !timing.Ended(d.Start.OpenedC())
	listed, err := list(ctx, d.Runtime, d.Clock)
	if err != nil {
		problems = append(problems, fmt.Errorf("look for pods that still run: %w", err))
	}
	d.listedAt = d.Clock.Now()
	d.endAll(ctx, append(append(remains, listed...), d.again(ctx, listed)...))
	if err := d.lookAgain(ctx); err != nil {
		problems = append(problems, fmt.Errorf("look for pods that the runtime did not list: %w", err))
	}
	for _, uid := range slices.Sorted(maps.Keys(d.left)) {
		if err := d.left[uid]; errors.Is(err, errNotAllowed) && ctx.Err() == nil {
			kept = append(kept, err)
		} else {
			problems = append(problems, err)
		}
	}
	if len(problems) == 0 && len(kept) > 0 {
		return fmt.Errorf("%w:\n%w", ErrKept, errors.Join(kept...))
	}
	return errors.Join(append(problems, kept...)...)
}

// endAll stops and removes pods, those first that run: they never had a worker, or the workers failed to stop them.
func (d *draining) endAll(ctx context.Context, pods []*runtime.Pod) {
	for _, p := range pods {
		if p.Running() {
			d.begin(ctx, p)
		}
	}
	slices.SortStableFunc(pods, func(a, b *runtime.Pod) int { return cmp.Compare(a.UID, b.UID) })
	for _, p := range pods {
		d.begin(ctx, p)
	}
	d.under.Wait()
}

func podOfWorker(p podworkers.Explanation) *runtime.Pod {
	return &runtime.Pod{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
}

// stopWorkers ends the workers with their pods. While that takes long, because a pod has a long grace or
// cannot be stopped, it already stops the pods without a worker, and removes those that have finished: one
// pod must not hold up the others (IN1).
func (d *draining) stopWorkers(ctx context.Context) error {
	meanwhile, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- d.Workers.Stop(ctx, podworkers.Terminate) }()
	var orphans chan []*runtime.Pod
	ticker := d.Clock.NewTicker(drainPeriod)
	defer ticker.Stop()
	for {
		select {
		case err := <-stopped:
			return err
		case <-ticker.C():
			if orphans == nil {
				orphans = make(chan []*runtime.Pod, 1)
				d.under.Go(func() {
					listed, _ := list(meanwhile, d.Runtime, d.Clock) // a failure is told by the list that follows
					orphans <- listed
				})
			}
			for _, p := range d.Workers.Snapshot() {
				if p.State.Finished() {
					d.begin(ctx, podOfWorker(p))
				}
			}
		case listed := <-orphans:
			for _, p := range listed {
				if p.Running() && !d.known[p.UID] {
					d.begin(ctx, p)
				}
			}
		}
	}
}

// again returns what failed while the workers stopped, so that it is tried again, and does the same for what is
// over and yet listed: the runtime may have been away, or just restarted, and then its lists lack pods for a while.
func (d *draining) again(ctx context.Context, listed []*runtime.Pod) (failed []*runtime.Pod) {
	if ctx.Err() != nil {
		return nil
	}
	failed = d.takeLeft(func(error) bool { return true })
	for _, p := range listed {
		if e := d.begun[p.UID]; e != nil && timing.Ended(e.done) {
			delete(d.begun, p.UID)
		}
	}
	return failed
}

// takeLeft returns the pods that were left for such a reason, so that they are tried again: those that may still run as they
// were seen, because a list that lacks them now does not show that they have stopped.
func (d *draining) takeLeft(why func(err error) bool) (pods []*runtime.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, err := range d.left {
		if why(err) {
			pod := d.begun[uid].pod
			if !errors.As(err, new(notStoppedError)) {
				pod = &runtime.Pod{UID: uid, Namespace: pod.Namespace, Name: pod.Name}
			}
			pods = append(pods, pod)
			delete(d.left, uid)
			delete(d.begun, uid)
		}
	}
	return pods
}

// lookAgain stops and removes what is listed although it is over, or was not listed before: the runtime may have been
// restarted while the drain waited for other pods. What has failed soon is tried again. If the runtime does not answer soon,
// what the drain has done counts, unless the agent's start was not over: what lists lack was not known then.
func (d *draining) lookAgain(ctx context.Context) error {
	if err := d.awaitStart(ctx); err != nil {
		return err
	}
	mustAnswer := d.starting
	for i := 0; i < drainRetries && ctx.Err() == nil; i++ {
		failed := d.takeLeft(d.mayRecover)
		if len(failed) == 0 && i >= drainRounds {
			break
		}
		if len(failed) > 0 {
			_ = timing.Sleep(ctx, d.Clock, drainPeriod) // once ctx has ended, they fail again, and are named
		}
		back, err := d.back(ctx)
		again := append(back, failed...)
		d.endAll(ctx, again)
		if mustAnswer && err != nil {
			return err
		}
		if mustAnswer = false; len(again) == 0 {
			break
		}
	}
	if mustAnswer {
		return context.Cause(ctx)
	}
	return nil
}

// mayRecover reports whether to try again what has failed: soon, apart from the grace of the pod, or because the runtime may
// just have been started.
func (d *draining) mayRecover(err error) bool {
	var stop notStoppedError
	soon := d.Clock.Since(d.listedAt) < drainReadLimit || errors.As(err, &stop) && stop.unread
	return !errors.Is(err, errNotAllowed) && (d.starting || soon)
}

// awaitStart waits until the agent's start is over, for a while.
func (d *draining) awaitStart(ctx context.Context) error {
	if timing.Ended(d.Start.OpenedC()) {
		return nil
	}
	limited, cancel := timing.WithTimeout(ctx, d.Clock, drainStartLimit)
	defer cancel()
	select {
	case <-d.Start.OpenedC():
		return nil
	case <-limited.Done():
		return errors.Join(d.Start.Gate(), context.Cause(ctx))
	}
}

// back returns the pods that are listed, or that lists lack, except those that the drain has failed to stop or to remove.
func (d *draining) back(ctx context.Context) ([]*runtime.Pod, error) {
	ctx, cancel := timing.WithTimeout(ctx, d.Clock, drainReadLimit)
	defer cancel()
	listed, err := list(ctx, d.Runtime, d.Clock)
	listed = slices.DeleteFunc(listed, func(p *runtime.Pod) bool { return d.left[p.UID] != nil })
	for _, p := range listed {
		delete(d.begun, p.UID)
	}
	return listed, err
}

// begin stops a pod if it runs, and removes what is left of it. Those that run are told at the same time
// (IN1). A removal that ends soon holds up the next one; one that hangs does so only for a moment.
func (d *draining) begin(ctx context.Context, p *runtime.Pod) {
	if d.begun[p.UID] != nil {
		return
	}
	done := make(chan struct{})
	d.begun[p.UID] = &ending{p, done}
	d.under.Go(func() {
		defer close(done)
		if err := d.end(ctx, p); err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.left[p.UID] = fmt.Errorf("pod %s (%s): %w", d.nameOf(p), p.UID, err)
		}
	})
	if !p.Running() {
		d.removals.Add(ctx, done)
	}
}

// nameOf returns the namespace and name of a pod; no list may have named it.
func (d *draining) nameOf(p *runtime.Pod) string {
	if p.Name == "" {
		if remembered := d.Kill(p).Pod; remembered != nil {
			return remembered.Namespace + "/" + remembered.Name
		}
	}
	return p.Namespace + "/" + p.Name
}

// errNotAllowed says that a rule keeps what is left of a pod.
var errNotAllowed = errors.New("it is not allowed")

// end stops a pod if it runs, and removes what is left of it.
func (d Drain) end(ctx context.Context, p *runtime.Pod) error {
	if p.Running() {
		there, err := d.stopOne(ctx, p)
		if err != nil || !there {
			return err
		}
	}
	return d.remove(ctx, p)
}

// notStoppedError is why a pod may still run. unread: the runtime has answered soon that it cannot describe it.
type notStoppedError struct {
	error
	unread bool
}

func (e notStoppedError) Unwrap() error { return e.error }

// stopOne stops one pod, as it is remembered or as its annotations ask. A pod that the runtime lists
// but does not describe in time is told to stop according to the list (podworkers.md V8), and left.
// It returns false for a pod that only a record has named, and that had ended before the drain: its record stays.
func (d Drain) stopOne(ctx context.Context, p *runtime.Pod) (there bool, err error) {
	limited, cancel := timing.WithTimeout(ctx, d.Clock, drainReadLimit)
	status, unread := answered(limited, d.Clock, "ReadNow", func(ctx context.Context) (*runtime.PodStatus, error) {
		return d.Reader.ReadNow(ctx, p.UID)
	})
	soon := unread != nil && limited.Err() == nil
	cancel()
	switch {
	case unread != nil:
		status = asListed(p)
	case onlyRecalled(p) && len(status.Sandboxes)+len(status.Containers) == 0:
		return false, nil
	}
	how := d.Kill(p)
	var grace *int64
	if how.Kill != nil {
		grace = how.Kill.GracePeriodSeconds
	}
	err = attempt(ctx, d.Clock, "KillPod", func(ctx context.Context) error { return d.Pods.KillPod(ctx, how.Pod, status, grace) })
	if err != nil {
		err = fmt.Errorf("stop: %w", err)
	}
	if err = errors.Join(unread, err); err != nil {
		return true, notStoppedError{err, soon}
	}
	return true, nil
}

// onlyRecalled reports whether no list and no reading has shown anything of the pod.
func onlyRecalled(p *runtime.Pod) bool {
	return len(p.Sandboxes) == 0 && !slices.ContainsFunc(p.Containers, func(c *runtime.Container) bool { return !c.Recalled() })
}

// asListed returns what a list says about a pod, as far as needed to stop it. What only a record has named is left out (pleg.md R15).
func asListed(p *runtime.Pod) *runtime.PodStatus {
	out := &runtime.PodStatus{UID: p.UID, Name: p.Name, Namespace: p.Namespace}
	for _, s := range p.Sandboxes {
		out.Sandboxes = append(out.Sandboxes, &runtime.SandboxStatus{ID: s.ID, State: s.State})
	}
	for _, c := range p.Containers {
		if !c.Recalled() {
			out.Containers = append(out.Containers, &runtime.ContainerStatus{ID: c.ID, Name: c.Name, State: c.State, Annotations: c.Annotations})
		}
	}
	return out
}

// remove removes what is left of a pod that has stopped.
func (d Drain) remove(ctx context.Context, p *runtime.Pod) error {
	if err := d.permit(ctx, p, cleanup.StepContent); err != nil {
		return err
	}
	err := attempt(ctx, d.Clock, "RemovePod", func(ctx context.Context) error { return d.Pods.RemovePod(ctx, p.UID) })
	if err != nil {
		return fmt.Errorf("remove from the runtime: %w", err)
	}
	if err := d.permit(ctx, p, cleanup.StepDirectories); err != nil {
		return err
	}
	err = attempt(ctx, d.Clock, "RemovePodDir", func(ctx context.Context) error { return d.Pods.RemovePodDir(ctx, p.UID) })
	if err != nil {
		return fmt.Errorf("remove its folder: %w", err)
	}
	d.Forget(p.UID)
	return nil
}

// permit asks for permission for one removal.
func (d Drain) permit(ctx context.Context, p *runtime.Pod, step cleanup.Step) error {
	denial := d.Permit.await(ctx, d.Clock, cleanup.Action{
		Step: step, PodUID: p.UID, Object: cleanup.Object{Namespace: p.Namespace, Name: p.Name, ID: string(p.UID)}, Reason: "the node is drained",
	})
	if denial.IsZero() {
		return nil
	}
	return fmt.Errorf("%w to %s: %s", errNotAllowed, step, denial)
}
