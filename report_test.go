package podwright_test

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

// TestLaggingLists: a runtime that lists a container only 50 ms after it was made
// leads to no second one, although the pod is synced again in that time
// (spec/pleg.md D7).
func TestLaggingLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		var mu sync.Mutex
		first := map[string]time.Time{}
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ListContainers}, Effect: fake.Effect{Keep: func(id string) bool {
			mu.Lock()
			defer mu.Unlock()
			if _, seen := first[id]; !seen {
				first[id] = time.Now()
			}
			return time.Since(first[id]) >= 50*time.Millisecond
		}}})
		// Enough is enough: without an end the test would never end either.
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, From: 10, Effect: fake.Effect{Err: errors.New("too many")}})
		r := newRig(t, rt, t.TempDir()).start()
		r.set()
		<-r.engine.Ready()
		for i := range 5 {
			p := newPod("web")
			p.Labels = map[string]string{"edition": fmt.Sprint(i)}
			r.set(p)
			<-time.After(10 * time.Millisecond)
		}
		r.phase("uid-web", v1.PodRunning, 10*time.Second)
		<-time.After(5 * time.Second)
		synctest.Wait()
		if f := rt.Facts("uid-web", "main"); f.Created != 1 || f.Running != 1 {
			t.Errorf("%+v, want one container", f)
		}
		if err := rt.Doubled(); err != nil {
			t.Error(err)
		}
	})
}
