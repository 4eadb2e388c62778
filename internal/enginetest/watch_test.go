package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
)

// table holds what a reader of changes knows.
type table struct {
	mu     sync.Mutex
	phases map[types.UID]v1.PodPhase
	gaps   int
	ended  chan struct{}
}

// watching reads the changes of a rig's engine until ctx ends, with a pause after each.
func watching(ctx context.Context, r *rig, pause time.Duration) *table {
	w := &table{phases: map[types.UID]v1.PodPhase{}, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		for c, err := range r.engine.Watch(ctx) {
			w.take(c, err)
			if pause > 0 {
				<-time.After(pause)
			}
		}
	}()
	return w
}

func (w *table) take(c status.Change, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, status.ErrGap):
		w.gaps++
	case c.Forgotten:
		delete(w.phases, c.UID)
	default:
		w.phases[c.UID] = c.Status.Phase
	}
}

// agrees returns how the table differs from the pods of the engine.
func (w *table) agrees(r *rig) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := r.engine.Pods()
	if len(pods) != len(w.phases) {
		return fmt.Errorf("%d pods are known, of %d", len(w.phases), len(pods))
	}
	for _, p := range pods {
		if w.phases[p.UID] != p.Status.Phase {
			return fmt.Errorf("%s is %s, known as %q", p.Name, p.Status.Phase, w.phases[p.UID])
		}
	}
	return nil
}

// TestWatch: WA1: 100 pods come, change and go under two readers, one of which is slow, on a
// runtime that hangs for one pod. Both end up with the truth, and no pod waits for them. The next
// agent's reader begins with what exists.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, fake.New(fake.Options{}))
		r := h.agent()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		quick, slow := watching(ctx, r, 0), watching(ctx, r, 2*time.Second)
		var pods []*v1.Pod
		for i := range 100 {
			pods = append(pods, newPod(fmt.Sprintf("p%d", i)))
		}
		hung := pods[3].UID
		answer := h.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer, PodUID: hung}, Effect: fake.Effect{Hang: true}})
		r.set(pods...)
		for _, p := range pods {
			if p.UID != hung {
				r.phase(p.UID, v1.PodRunning, time.Minute)
			}
		}
		r.set(pods[:50]...)
		r.within(time.Minute, "the quick reader", func() error { return quick.agrees(r) })
		r.within(30*time.Minute, "the slow reader", func() error { return slow.agrees(r) })
		h.kill(r)
		answer()
		for _, w := range []*table{quick, slow} {
			<-w.ended
		}
		r = h.agent()
		third := watching(ctx, r, 0)
		r.set(pods[:50]...)
		r.phase(pods[0].UID, v1.PodRunning, time.Minute)
		r.within(time.Minute, "the reader of the next agent", func() error { return third.agrees(r) })
	})
}
