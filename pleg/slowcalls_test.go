package pleg

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// slow is a hook that makes calls take their time.
func slow(took map[string]time.Duration) func(context.Context, string, string) error {
	return func(ctx context.Context, method, _ string) error {
		select {
		case <-time.After(took[method]):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// B3: what is limited is a single call. A runtime that takes long for each of them is read all the same, lists and pods with
// many containers, and one that stops answering in the middle is given up as if that were its first call.
func TestManySlowCallsAreNoTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		took map[string]time.Duration
		read time.Duration // 0: not at all
		hung time.Duration // when the reading is given up; 0: it is not
	}{
		"lists":             {took: map[string]time.Duration{"Version": 20 * time.Second, "ListPodSandbox": 20 * time.Second, "ListContainers": 25 * time.Second}, read: 65 * time.Second},
		"statuses":          {took: map[string]time.Duration{"PodSandboxStatus": 9 * time.Second, "ContainerStatus": 9 * time.Second}, read: 36 * time.Second},
		"no answer":         {took: map[string]time.Duration{"PodSandboxStatus": time.Hour}, hung: 10 * time.Second},
		"no further answer": {took: map[string]time.Duration{"PodSandboxStatus": 9 * time.Second, "ContainerStatus": time.Hour}, hung: 19 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Options{})
				b.pod("p", "c", "d", "e")
				b.fail(slow(c.took))
				defer b.run()()
				at := max(c.read, c.hung)
				pass(at - 10*time.Millisecond)
				if b.expect("early"); len(b.Health().Hung) != 0 {
					b.t.Errorf("early: %+v", b.Health())
				}
				pass(20 * time.Millisecond)
				synctest.Wait()
				if hung := len(b.Health().Hung) == 1; hung != (c.hung > 0) {
					b.t.Errorf("hung is %v: %+v", hung, b.Health())
				}
				if events := b.events(); len(events) == 1 != (c.read > 0) {
					b.t.Errorf("read: %v", events)
				}
				if !b.Synced() {
					b.t.Error("the first list is not over")
				}
			})
		})
	}
}

// B1: a runtime that answers, however slowly, gets no more readings at once than there are places.
func TestSlowAnswersKeepTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		for i := range 40 {
			b.pod(types.UID(fmt.Sprintf("p%02d", i)), "c", "d", "e")
		}
		var mu sync.Mutex
		asked, most := 0, 0
		ask := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			asked += n
			most = max(most, asked)
		}
		b.fail(func(ctx context.Context, method, _ string) error {
			if method != "PodSandboxStatus" && method != "ContainerStatus" {
				return nil
			}
			ask(1)
			defer ask(-1)
			pass(300 * time.Millisecond)
			return nil
		})
		defer b.run()()
		pass(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if most != 8 {
			b.t.Errorf("%d readings at once, want 8", most)
		}
		if n := len(b.events()); n != 40 {
			b.t.Errorf("%d pods were read, want 40", n)
		}
	})
}
