package podworkers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// calls records when each pod's SyncPod is called; answer decides what the call returns.
type calls struct {
	mu     sync.Mutex
	at     map[types.UID][]time.Duration
	began  time.Time
	answer func(uid types.UID, n int) (podworkers.SyncResult, error)
}

func (c *calls) syncer() podworkers.PodSyncer {
	c.at, c.began = map[types.UID][]time.Duration{}, time.Now()
	return podworkers.PodSyncerFuncs{Sync: func(_ context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
		c.mu.Lock()
		c.at[pod.UID] = append(c.at[pod.UID], time.Since(c.began))
		n := len(c.at[pod.UID])
		c.mu.Unlock()
		return c.answer(pod.UID, n)
	}}
}

func (c *calls) of(uid types.UID) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at[uid])
}

// TestRequeueAt: section 12: a step that succeeds may name the moment of the next one, and does not count as a failure.
func TestRequeueAt(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
		want  time.Duration
		why   string
	}{
		{"soon", 5 * time.Second, 5 * time.Second, "the last step named the time"},
		{"very soon", 10 * time.Millisecond, 10 * time.Millisecond, "the last step named the time"},
		{"passed", -time.Hour, time.Second, "the last step named the time"},
		{"after the resync", time.Hour, time.Minute, "resync"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &calls{answer: func(_ types.UID, n int) (podworkers.SyncResult, error) {
					if n > 3 {
						return podworkers.SyncResult{}, nil
					}
					return podworkers.SyncResult{RequeueAt: time.Now().Add(test.after)}, nil
				}}
				w := podworkers.New(c.syncer(), podworkers.Options{Rand: func() float64 { return 0 }})
				stop := run(t, w)
				w.UpdatePod(create(newPod("a")))
				synctest.Wait()
				e, _ := w.Explain("a")
				if e.Failures != 0 || e.LastError != "" || e.NextWakeUpReason != test.why || time.Until(e.NextWakeUp) != test.want {
					t.Errorf("%d failures, %q, next in %v: %s, waits for %s", e.Failures, e.LastError, time.Until(e.NextWakeUp), e.NextWakeUpReason, e.WaitingFor)
				}
				pass(4*test.want + 30*time.Second)
				stop()
				got := c.of("a")
				for i := range 3 {
					if pause := got[i+1] - got[i]; pause != test.want {
						t.Errorf("pause %d: %v, want %v", i, pause, test.want)
					}
				}
			})
		})
	}
}

// TestRequeueEndsByItself: section 12: an update, a failure and the end of the pod take precedence over the named moment, and
// the result of a failed step names none.
func TestRequeueEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{answer: func(_ types.UID, n int) (podworkers.SyncResult, error) {
			result := podworkers.SyncResult{RequeueAt: time.Now().Add(20 * time.Second)}
			if n == 2 {
				return result, errTest
			}
			return result, nil
		}}
		w := podworkers.New(c.syncer(), podworkers.Options{Rand: func() float64 { return 0 }})
		stop := run(t, w)
		w.UpdatePod(create(newPod("a")))
		pass(7 * time.Second)
		w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: newPod("a")})
		pass(30 * time.Second)
		if got, want := c.of("a"), []time.Duration{0, 7 * time.Second, 8 * time.Second, 28 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("calls at %v, want %v", got, want)
		}
		if err := w.KillPod(t.Context(), newPod("a"), podworkers.KillOptions{}); err != nil {
			t.Error(err)
		}
		pass(time.Hour)
		if n := len(c.of("a")); n != 4 {
			t.Errorf("%d calls", n)
		}
		stop()
	})
}

// TestWake: U14: 100 pods are woken, each many times at once, while they are idle, back off or have a call that hangs. Each
// soon gets another call with the newest pod; no wake counts as a failure, and a pod that is gone gets no call.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := &calls{answer: func(uid types.UID, n int) (podworkers.SyncResult, error) {
			switch {
			case uid == "hangs" && n == 1:
				<-release
			case uid == "fails" && n < 10:
				return podworkers.SyncResult{}, errTest
			}
			return podworkers.SyncResult{}, nil
		}}
		w := podworkers.New(c.syncer(), podworkers.Options{Rand: func() float64 { return 0 }})
		stop := run(t, w)
		names := []string{"hangs", "fails"}
		for i := range 98 {
			names = append(names, fmt.Sprint("p", i))
		}
		for _, name := range names {
			w.UpdatePod(create(newPod(types.UID(name))))
		}
		pass(20 * time.Second) // the failing one has backed off for 1, 2, 4, 8 s, and waits until 31 s
		before := len(c.of("fails"))
		for _, name := range names {
			for range 10 {
				if !w.Wake(types.UID("" + name)) {
					t.Errorf("%s is not known", name)
				}
			}
		}
		pass(time.Millisecond)
		for _, name := range names[2:] {
			if n := len(c.of(types.UID("" + name))); n < 2 || n > 11 { // a wake that arrives after a call has begun asks for another
				t.Errorf("%s: %d calls", name, n)
			}
			if e, _ := w.Explain(types.UID("" + name)); e.Failures != 0 || e.NextWakeUpReason != "resync" {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if n := len(c.of("fails")); n <= before {
			t.Error("the pod that backs off got no look")
		}
		if n := len(c.of("hangs")); n != 1 {
			t.Errorf("the pod whose call hangs: %d calls at once", n)
		}
		close(release)
		synctest.Wait()
		if n := len(c.of("hangs")); n != 2 {
			t.Errorf("the pod whose call hung: %d calls", n)
		}
		if err := w.KillPod(t.Context(), newPod("p0"), podworkers.KillOptions{}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		n := len(c.of("p0"))
		if w.Wake("p0") || w.Wake("unknown") {
			t.Error("a pod that is over, or unknown, was woken")
		}
		pass(time.Minute)
		if got := len(c.of("p0")); got != n {
			t.Errorf("a pod that is over: %d more calls", got-n)
		}
		stop()
		if w.Wake("p1") {
			t.Error("woken after the end")
		}
	})
}

// TestWakeReplacesNoUpdate: U14: a woken pod gets the update that waits for the end of its call.
func TestWakeReplacesNoUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		release := make(chan struct{})
		w := podworkers.New(podworkers.PodSyncerFuncs{Sync: func(_ context.Context, how podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
			if seen = append(seen, fmt.Sprint(how, " ", pod.Labels["version"])); len(seen) == 1 {
				<-release
			}
			return podworkers.SyncResult{}, errors.Join()
		}}, podworkers.Options{})
		stop := run(t, w)
		w.UpdatePod(create(newPod("a")))
		synctest.Wait()
		next := newPod("a")
		next.Labels = map[string]string{"version": "2"}
		w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: next})
		w.Wake("a")
		close(release)
		synctest.Wait()
		w.Wake("a")
		synctest.Wait()
		stop()
		if want := []string{"create ", "update 2", "sync 2"}; !slices.Equal(seen, want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
	})
}
