package enginetest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// TestHiddenPodAndOneFailedReading: R15. An agent's lists lack whole pods for a while, and after a few of them the runtime
// once does not describe a container. That does not mean that it is gone, because it was described the list before.
func TestHiddenPodAndOneFailedReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFirstListWorld(t, 3)
		w.hide(time.Now().Add(20*time.Second), firstListGaps(w)["the whole pod"])
		began := time.Now()
		w.rt.Inject(fake.Fault{Match: fake.Match{Func: func(c fake.Call) bool {
			d := time.Since(began)
			return c.Method == fake.ContainerStatus && d > 6500*time.Millisecond && d < 7500*time.Millisecond
		}}, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		w.next()
		<-time.After(3 * time.Minute)
		synctest.Wait()
		if err := w.unharmed(); err != nil {
			t.Error(err)
		}
	})
}

// TestGateWithASlowPod: R15. One pod that the runtime describes slowly, and of which the list lacks a container, does not
// keep the gate closed.
func TestGateWithASlowPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFirstListWorld(t, 6)
		slow := ""
		list, err := w.rt.ListContainers(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			if c.Metadata.Name == "other" {
				slow = c.Id
			}
		}
		w.hide(time.Now().Add(5*time.Minute), firstListGaps(w)["one container"])
		w.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.ContainerStatus, Func: func(c fake.Call) bool { return c.ContainerID == slow }}, Effect: fake.Effect{Delay: 1200 * time.Millisecond}})
		w.next()
		<-time.After(time.Minute)
		synctest.Wait()
		if _, open := w.engine.Recovery(); !open {
			t.Errorf("the gate is closed: %v", w.engine.Problems())
		}
		<-time.After(6 * time.Minute)
		synctest.Wait()
		if err := w.unharmed(); err != nil {
			t.Error(err)
		}
	})
}

// TestRunningContainerWithoutItsSandbox: R15. The first list has only the earlier sandbox of a pod. Its container is not in
// that one, which has ended.
func TestRunningContainerWithoutItsSandbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFirstListWorld(t, 1)
		w.next()
		<-time.After(10 * time.Second)
		old := map[string]bool{}
		sandboxes, err := w.rt.ListPodSandbox(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		containers, err := w.rt.ListContainers(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sandboxes {
			old[s.Id] = true
			if err := w.rt.FailSandbox(s.Id); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range containers {
			old[c.Id] = true
		}
		<-time.After(time.Minute)
		before := w.rt.Facts(w.pods[0].UID, "main")
		now := w.listed()
		if !strings.Contains(now[w.pods[0].UID], sandboxes[0].Id) || before.Running != 1 {
			t.Fatalf("%+v, %v, %v", before, now, sandboxes[0].Id)
		}
		w.stop()
		w.hide(time.Now().Add(3500*time.Millisecond), func(id string) bool { return old[id] })
		w.next()
		<-time.After(time.Minute)
		synctest.Wait()
		if err := w.rt.Doubled(); err != nil {
			t.Error(err)
		}
		if after := w.rt.Facts(w.pods[0].UID, "main"); after.Started != before.Started || after.Running != 1 {
			t.Errorf("%+v became %+v", before, after)
		}
	})
}
