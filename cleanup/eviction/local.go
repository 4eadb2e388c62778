package eviction

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/internal/timing"
)

const (
	// localPeriod is the time between two rounds of measurements for the limits of single pods.
	localPeriod = time.Minute
	// maxMeasured is how many pods are measured at once, not counting those that take long.
	maxMeasured = 32
	// storageWait bounds one call of [Options.Storage], walkLimit the walks through one pod's folders.
	storageWait = 10 * time.Second
	walkLimit   = 10 * time.Minute
)

// locals measures pods for their own limits beside the passes: what it asks may hang, and a folder with
// millions of files takes minutes. A pod whose measurement goes on, or ended less time ago than it took,
// is left out of the next rounds.
type locals struct {
	options Options
	calls   *foreign.Calls

	// Used only by the goroutine of Run: when the next round begins, and what closes when the latest
	// has begun all measurements.
	next  time.Time
	round chan struct{}

	under sync.WaitGroup
	slots *turns // of measurements
	walks *turns // one at a time: together they use at most one CPU

	mu    sync.Mutex
	busy  map[types.UID]bool
	found []finding
	// failing has why pods cannot be measured completely, as it was logged.
	failing map[types.UID]string
}

// finding is a pod that was above a limit of its own.
type finding struct {
	uid          types.UID
	signal, text string
	at           time.Time
	started      *metav1.Time // the life it was about
}

func newLocals(o Options, calls *foreign.Calls) *locals {
	return &locals{options: o, calls: calls, slots: newTurns(o.Clock, maxMeasured), walks: newTurns(o.Clock, 1), busy: map[types.UID]bool{}, failing: map[types.UID]string{}}
}

// due reports whether there is something to do for the goroutine of Run.
func (l *locals) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beginsNow() || len(l.found) > 0
}

func (l *locals) beginsNow() bool {
	return !l.options.Clock.Now().Before(l.next) && (l.round == nil || timing.Ended(l.round))
}

// begin begins a round if it is time.
func (l *locals) begin(ctx context.Context, pods []*v1.Pod) (begun bool) {
	if !l.beginsNow() {
		return false
	}
	l.next = l.options.Clock.Now().Add(localPeriod)
	l.forget(pods)
	done := make(chan struct{})
	l.round = done
	l.under.Go(func() {
		defer close(done)
		l.measureAll(ctx, pods)
	})
	return true
}

// measureAll measures pods, usually one after the other.
func (l *locals) measureAll(ctx context.Context, pods []*v1.Pod) {
	batch := timing.Batch{Clock: l.options.Clock}
	for _, pod := range pods {
		if !l.claim(pod.UID) {
			continue
		}
		give, err := l.slots.take(ctx)
		if err != nil {
			return
		}
		done := make(chan struct{})
		l.under.Go(func() {
			begin := l.options.Clock.Now()
			signal, text := l.measured(ctx, pod)
			give()
			now := l.options.Clock.Now()
			if text != "" {
				l.note(finding{pod.UID, signal, text, now, pod.Status.StartTime})
			}
			close(done)
			_ = timing.Sleep(ctx, l.options.Clock, now.Sub(begin)) // large folders do not take a whole CPU
			l.release(pod.UID)
		})
		batch.Add(ctx, done)
	}
	batch.Wait(ctx)
}

// tell logs why a pod cannot be measured completely when that is new, and when it is over.
func (l *locals) tell(pod *v1.Pod, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	l.mu.Lock()
	last := l.failing[pod.UID]
	if l.failing[pod.UID] = text; text == "" {
		delete(l.failing, pod.UID)
	}
	l.mu.Unlock()
	switch {
	case text == last:
	case err != nil:
		l.options.Logger.Error(err, "Not all of a pod's storage can be measured", "namespace", pod.Namespace, "name", pod.Name)
	default:
		l.options.Logger.Info("A pod's storage can be measured again", "namespace", pod.Namespace, "name", pod.Name)
	}
}

// forget drops what is remembered of other pods than these.
func (l *locals) forget(pods []*v1.Pod) {
	still := map[types.UID]bool{}
	for _, pod := range pods {
		still[pod.UID] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.failing, func(uid types.UID, _ string) bool { return !still[uid] })
}

// claim reports whether the pod is not being measured already.
func (l *locals) claim(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[uid] {
		return false
	}
	l.busy[uid] = true
	return true
}

func (l *locals) release(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, uid)
}

func (l *locals) note(f finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found = append(l.found, f)
}

// take returns the next of these pods that was above its limit less than [localPeriod] ago, in the same
// life, or nil. It forgets the findings before: later rounds measure these pods again.
func (l *locals) take(pods []*v1.Pod) (*v1.Pod, finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.found) > 0 {
		f := l.found[0]
		l.found = l.found[1:]
		i := slices.IndexFunc(pods, func(p *v1.Pod) bool { return p.UID == f.uid && p.Status.StartTime.Equal(f.started) })
		if i >= 0 && l.options.Clock.Since(f.at) < localPeriod {
			return pods[i], f
		}
	}
	return nil, finding{}
}

// open reports whether there may be a finding before the next round.
func (l *locals) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.busy)+len(l.found) > 0
}

// measured is measure, which is left behind if it goes on when ctx has ended: it may be stuck on a mount
// whose server is gone.
func (l *locals) measured(ctx context.Context, pod *v1.Pod) (signal, text string) {
	call := l.call("the measurement of a pod's own limits", pod, walkLimit+problem.FunctionLimit)
	type above struct{ signal, text string }
	got, err := foreign.Ask(ctx, l.calls, call, foreign.Limits{}, func(ctx context.Context) (a above, _ error) {
		a.signal, a.text = l.measure(ctx, pod)
		return a, nil
	})
	if panicked := (*foreign.PanicError)(nil); errors.As(err, &panicked) {
		l.options.Logger.Error(err, "A pod cannot be measured", "namespace", pod.Namespace, "name", pod.Name, "stack", panicked.Trace())
	}
	return got.signal, got.text
}

// call names a call about a pod.
func (l *locals) call(name string, pod *v1.Pod, patience time.Duration) foreign.Call {
	return foreign.Call{Kind: problem.Function, Name: name, UID: pod.UID, Pod: problem.Of(pod.Namespace, pod.Name, pod.UID), Patience: patience}
}

// measure tells which limit of its own a pod is above. text is empty if there is none.
func (l *locals) measure(ctx context.Context, pod *v1.Pod) (signal, text string) {
	walks, cancel := timing.WithTimeout(ctx, l.options.Clock, walkLimit)
	defer cancel()
	signal, text, err := l.fullVolume(walks, pod)
	if text == "" {
		var storageErr error
		signal, text, storageErr = l.fullStorage(walks, pod)
		err = errors.Join(err, storageErr)
	}
	if ctx.Err() == nil { // what was found counts
		l.tell(pod, err)
	}
	return signal, text
}

// fullVolume tells users which volume of a pod is above its limit.
func (l *locals) fullVolume(ctx context.Context, pod *v1.Pod) (signal, text string, err error) {
	if l.options.Volumes == nil {
		return "", "", nil
	}
	for _, v := range l.options.Volumes(pod) {
		used, _, sizeErr := walk{enough: v.Limit, turns: l.walks}.size(ctx, v.Path)
		if text := exceeded(v, used); text != "" {
			return volumeLimit, text, nil
		}
		if sizeErr != nil {
			err = errors.Join(err, fmt.Errorf("volume %s: %w", v.Name, sizeErr))
		}
	}
	return "", "", err
}

// fullStorage tells users which limit of ephemeral storage a pod is above.
func (l *locals) fullStorage(ctx context.Context, pod *v1.Pod) (signal, text string, err error) {
	limit := podinfo.DeclaredLimit(pod, v1.ResourceEphemeralStorage)
	if l.options.Storage == nil || limit.Sign() <= 0 {
		return "", "", nil
	}
	call := l.call("Eviction.Storage", pod, problem.FunctionLimit)
	used, err := foreign.Ask(ctx, l.calls, call, foreign.Limits{Wait: storageWait, Late: usageLate, Bounded: true}, func(ctx context.Context) (Storage, error) {
		return l.options.Storage(ctx, pod)
	})
	var folders uint64
	for _, dir := range used.Folders {
		bytes, _, sizeErr := walk{enough: uint64(limit.Value()), turns: l.walks}.size(ctx, dir)
		err = errors.Join(err, sizeErr)
		folders += bytes
	}
	signal, text = overLimit(pod, used.Containers, folders)
	return signal, text, err
}
