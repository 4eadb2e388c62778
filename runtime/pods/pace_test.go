package pods_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// attempts syncs a pod whenever it may be tried again, n times, and returns the pauses
// in between.
func (w *world) attempts(n int, attempt func() pods.Result) []time.Duration {
	w.t.Helper()
	var out []time.Duration
	last := time.Now()
	for len(out) < n {
		r := attempt()
		if r.Acted {
			out = append(out, time.Since(last))
			last = time.Now()
			continue
		}
		if r.Err == nil || !r.RetryAt.After(time.Now()) {
			w.t.Fatalf("held without an end: %v, %v", r.Err, r.RetryAt)
		}
		<-time.After(time.Until(r.RetryAt))
	}
	return out
}

func wantPauses(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	for i, w := range want {
		if got[i] != w*time.Second {
			t.Errorf("pause %d is %v, want %v", i, got[i], w*time.Second)
		}
	}
}

// A container whose starts fail is tried at once with another image: the pauses were about the one before.
func TestAnotherImageIsTriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StartContainer}, Times: 5, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		pod := newPod()
		w.attempts(5, func() pods.Result { return w.sync(pod) })
		if r := w.sync(pod); r.Acted || !r.RetryAt.After(time.Now()) {
			t.Fatalf("it does not wait: %+v", r)
		}
		pod.Spec.Containers[0].Image = "example.com/app:2"
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Times: 3, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		wantPauses(t, w.attempts(4, func() pods.Result { return w.sync(pod) }), 0, 0, 1, 2)
		w.wantState(pod, "app:running")
	})
}

// A container the runtime does not start is tried again with growing pauses, and
// keeps the reason it waits for.
func TestStartsThatFailHavePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StartContainer}, Times: 5, Effect: fake.Effect{Err: runtime.ErrUnavailable}})
		pod := newPod()
		got := w.attempts(6, func() pods.Result {
			r := w.sync(pod)
			if reason := w.m.WaitingReasons(pod.UID)["app"].Reason; reason != "RunContainerError" && r.Err != nil {
				t.Errorf("waits for %q", reason)
			}
			return r
		})
		wantPauses(t, got, 0, 0, 1, 2, 4, 8)
		w.wantState(pod, "app:running")
	})
}

// A sandbox that dies as soon as it is made is made again with growing pauses; a
// sandbox that lasted is replaced at once.
func TestSandboxesThatDieHavePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		lost := func() pods.Result {
			r := w.sync(pod)
			if r.Acted {
				if err := w.fake.StopPodSandbox(t.Context(), w.read(pod).Sandboxes[0].ID); err != nil {
					t.Fatal(err)
				}
			}
			return r
		}
		wantPauses(t, w.attempts(5, lost), 0, 0, 1, 2, 4)
		<-time.After(2 * time.Minute)
		wantPauses(t, w.attempts(2, lost), 0, 0)
	})
}
