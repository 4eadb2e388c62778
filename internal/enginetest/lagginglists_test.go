package enginetest_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/fake"
)

// laggingRuntime lists a container only from lag after the first list that should have shown it.
func laggingRuntime(lag time.Duration) *fake.Runtime {
	rt := fake.New(fake.Options{})
	var mu sync.Mutex
	first := map[string]time.Time{}
	rt.Inject(
		fake.Fault{Match: fake.Match{Method: fake.ListContainers}, Effect: fake.Effect{Keep: func(id string) bool {
			mu.Lock()
			defer mu.Unlock()
			if _, seen := first[id]; !seen {
				first[id] = time.Now()
			}
			return time.Since(first[id]) >= lag
		}}},
		// Creations fail from the tenth on. Otherwise time would stand still for an engine that
		// makes another container in every round, and the test would never end.
		fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, From: 10, Effect: fake.Effect{Err: errors.New("too many")}},
	)
	return rt
}

// TestLaggingListMakesNoSecondContainer: a runtime lists a container only some time after it was
// made. That does not lead to a second container, although the pod is synced in that time
// (spec/pleg.md D7).
func TestLaggingListMakesNoSecondContainer(t *testing.T) {
	for _, lag := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := laggingRuntime(lag)
				r := newRig(t, rt, t.TempDir()).start()
				r.set()
				<-r.engine.Ready()
				for i := range 5 {
					p := newPod("web")
					p.Labels = map[string]string{"edition": fmt.Sprint(i)}
					r.set(p)
					<-time.After(10 * time.Millisecond)
				}
				r.phase("uid-web", v1.PodRunning, 30*time.Second)
				<-time.After(10 * time.Second)
				synctest.Wait()
				if f := rt.Facts("uid-web", "main"); f.Created != 1 || f.Running != 1 {
					t.Errorf("%+v, want one container", f)
				}
			})
		})
	}
}

// TestUnlistedContainerIsNotStopped: a pod does not count as stopped while a container that was
// made for it is not yet listed.
func TestUnlistedContainerIsNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := laggingRuntime(5 * time.Second)
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("web"))
		r.within(time.Second, "a container that is not listed yet", func() error {
			if f := rt.Facts("uid-web", "main"); f.Created != 1 {
				return fmt.Errorf("%+v", f)
			}
			return nil
		})
		r.set()
		r.within(time.Minute, "the container to stop", func() error {
			if n := rt.Running("uid-web", "main"); n != 0 {
				return fmt.Errorf("%d containers run", n)
			}
			return nil
		})
		r.empty(time.Minute)
		if f := rt.Facts("uid-web", "main"); f.Created != 1 {
			t.Errorf("%+v, want one container", f)
		}
	})
}
