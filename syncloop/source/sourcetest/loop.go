package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/internal/watchtest"
)

// loop runs the source as the loop of an engine does, and records its deliveries.
type loop struct {
	e      *env
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan error

	// heard receives a value after a delivery.
	heard chan struct{}
	// held receives a value when a delivery waits.
	held chan struct{}

	mu   sync.Mutex
	sets [][]*v1.Pod
	hold chan struct{} // deliveries wait for it unless it is nil
	over bool          // Run has returned
	late int           // deliveries since then
}

var errOver = errors.New("Run has returned")

// run runs the source until end, or the end of the case.
func (e *env) run() *loop {
	ctx, cancel := context.WithCancel(e.ctx)
	l := &loop{e: e, ctx: ctx, cancel: cancel, ended: make(chan error, 1), heard: make(chan struct{}, 1), held: make(chan struct{}, 1)}
	go func() {
		err := e.Source.Run(ctx, l.deliver)
		l.mu.Lock()
		l.over = true
		l.mu.Unlock()
		l.ended <- err
	}()
	e.Cleanup(func() {
		l.end()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.late > 0 {
			e.Errorf("%d deliveries after Run had returned", l.late)
		}
	})
	return l
}

// end cancels the context of Run and waits for Run to return. It may be called again.
func (l *loop) end() {
	l.e.Helper()
	l.cancel()
	timer := l.e.Clock.NewTimer(watchtest.Patience)
	defer timer.Stop()
	select {
	case err := <-l.ended:
		l.ended <- err
	case <-timer.C():
		l.e.Fatalf("Run goes on %v after its context has ended; a loop waits for 5 s", watchtest.Patience)
	}
}

func (l *loop) deliver(ctx context.Context, pods []*v1.Pod) error {
	l.mu.Lock()
	hold := l.hold
	l.mu.Unlock()
	if hold != nil {
		l.tell(l.held)
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		l.late++
		return errOver
	}
	set := make([]*v1.Pod, 0, len(pods))
	for _, p := range pods {
		set = append(set, p.DeepCopy())
	}
	l.sets = append(l.sets, set)
	l.tell(l.heard)
	return nil
}

func (l *loop) tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// stall makes deliveries wait until release is called.
func (l *loop) stall() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hold := make(chan struct{})
	l.hold = hold
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.hold = nil
		close(hold)
	})
}

// all returns every set so far, oldest first.
func (l *loop) all() [][]*v1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sets)
}

// await waits until the newest set has exactly these UIDs, and returns it.
func (l *loop) await(uids ...types.UID) []*v1.Pod {
	l.e.Helper()
	return l.awaitThat(fmt.Sprintf("a set of %v", uids), func(set []*v1.Pod) bool {
		return slices.Equal(sorted(uidsOf(set)), sorted(uids))
	})
}

// awaitThat waits until the newest set satisfies ok, and returns it.
func (l *loop) awaitThat(what string, ok func(set []*v1.Pod) bool) []*v1.Pod {
	l.e.Helper()
	for {
		sets := l.all()
		if n := len(sets); n > 0 && ok(sets[n-1]) {
			return sets[n-1]
		}
		select {
		case <-l.heard:
		case err := <-l.ended:
			l.ended <- err
			l.e.Fatalf("Run ended, with %v, before it delivered %s; delivered so far: %s", err, what, describe(l.all()))
		case <-l.e.ctx.Done():
			l.e.Fatalf("not delivered within %v: %s; delivered so far: %s", l.e.Timeout, what, describe(l.all()))
		}
	}
}

// set makes the origin want these pods. It retries, because some sources accept pods only
// once they run.
func (e *env) set(pods ...*v1.Pod) {
	e.Helper()
	for {
		err := e.Set(e.ctx, pods...)
		if err == nil {
			return
		}
		if timing.Sleep(e.ctx, e.Clock, 250*time.Millisecond) != nil {
			e.Fatalf("Set fails for %v: %v", e.Timeout, err)
		}
	}
}

// breaks makes the origin unreadable, or readable again.
func (e *env) breaks(broken bool) {
	e.Helper()
	if e.Break == nil {
		e.Skip("the subject cannot break its origin")
	}
	if err := e.Break(e.ctx, broken); err != nil {
		e.Fatalf("Break(%v): %v", broken, err)
	}
}

// pod returns a pod that an origin may want.
func pod(name string) *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "test", UID: uid(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "example.com/app:1"}}},
	}
}

func uid(name string) types.UID { return types.UID("uid-" + name) }

func uidsOf(set []*v1.Pod) []types.UID {
	out := make([]types.UID, 0, len(set))
	for _, p := range set {
		out = append(out, p.UID)
	}
	return out
}

func sorted(uids []types.UID) []types.UID {
	out := slices.Clone(uids)
	slices.Sort(out)
	return out
}

func describe(sets [][]*v1.Pod) string {
	if len(sets) == 0 {
		return "nothing"
	}
	var out []string
	for _, set := range sets {
		out = append(out, fmt.Sprint(uidsOf(set)))
	}
	return strings.Join(out, ", ")
}
