package pods_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// tells reports whether some event has the text in it.
func (e *events) tells(text string) bool {
	return slices.ContainsFunc(e.list(), func(s string) bool { return strings.Contains(s, text) })
}

// Identical events are passed on with doubling counts; one that differs in anything
// is always passed on, and after a quiet time an event is news again.
func TestEventsAggregated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		broken := newPod(func(p *v1.Pod) { p.Spec.Containers[0].Image = "Not An Image" })
		failures := func() (out []string) {
			for _, e := range w.events.list() {
				if text, ok := strings.CutPrefix(e, "Warning Failed spec.containers{app} Error: InvalidImageName"); ok {
					out = append(out, text)
				}
			}
			return out
		}
		for range 9 {
			w.sync(broken)
			pass(second)
		}
		if got, want := failures(), []string{"", " (x2 over 1s)", " (x4 over 3s)", " (x8 over 7s)"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		other := newPod(func(p *v1.Pod) { p.UID = "uid-2"; p.Spec.Containers[0].Image = "Not An Image" })
		w.sync(other)
		if got := failures(); len(got) != 5 || got[4] != "" {
			t.Errorf("another pod's event: %q", got)
		}
		broken.Spec.Containers[0].Image = "Not An Image Either"
		w.sync(broken)
		if !w.events.tells("Not An Image Either") {
			t.Errorf("a changed text is lost: %q", w.events.list())
		}
		pass(10 * time.Minute)
		w.sync(broken)
		if got := failures(); got[len(got)-1] != "" {
			t.Errorf("after a quiet time: %q", got)
		}
	})
}

// A recorder that counts itself gets every event.
func TestEveryEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(o *pods.Options) { o.EveryEvent = true })
		pod := newPod(func(p *v1.Pod) { p.Spec.Containers[0].Image = "Not An Image" })
		for range 5 {
			w.sync(pod)
		}
		n := 0
		for _, e := range w.events.list() {
			if strings.HasPrefix(e, "Warning Failed ") {
				n++
			}
		}
		if n != 5 {
			t.Errorf("%d of 5 events", n)
		}
	})
}

// spec/runtime.md 8.2: neither events nor reasons hold a container's ID, known or
// not; a digest is none.
func TestNoIDsInEvents(t *testing.T) {
	id, digest := strings.Repeat("0123456789abcdef", 4), "sha256:"+strings.Repeat("fedcba9876543210", 4)
	problem := fmt.Errorf("container %q of image %s: %w", id, digest, runtime.ErrFailedPrecondition)
	for name, script := range map[string]fake.Script{
		"create": {CreateErr: problem},
		"start":  {StartErr: problem},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(fake.Launch) fake.Script { return script })
				pod := newPod()
				r := w.sync(pod)
				if !w.events.tells(`container "app" of image `+digest) || w.events.tells(id) {
					t.Errorf("8.2: %q", w.events.list())
				}
				if strings.Contains(starts(r)[0].Message, id) || !strings.Contains(starts(r)[0].Message, digest) {
					t.Errorf("8.2: message %q", starts(r)[0].Message)
				}
			})
		})
	}
	t.Run("kill", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			pod := newPod()
			w.syncAll(pod)
			status := w.read(pod)
			own := status.Container("app").ID.ID
			w.fake.Inject(fake.Fault{
				Match: fake.Match{Method: fake.StopContainer}, Times: 1,
				Effect: fake.Effect{Err: errors.New("no shim for " + own)},
			})
			if err := w.m.KillPod(t.Context(), pod, status, nil); err == nil {
				t.Fatal("no error")
			}
			if !w.events.tells("no shim for app") || w.events.tells(own) {
				t.Errorf("8.2: %q", w.events.list())
			}
		})
	})
}

// spec/runtime.md 22.1, 22.2: the reasons of the latest 1000 failures are kept,
// and each says when the next attempt is due.
func TestReasonCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		uid := func(i int) types.UID { return types.UID(fmt.Sprint("uid-", i)) }
		fail := func(i int) {
			w.m.SyncPod(t.Context(), newPod(func(p *v1.Pod) { p.UID = uid(i); p.Spec.Containers[0].Image = "Not An Image" }), nil)
		}
		for i := range 1000 {
			fail(i)
		}
		fail(0) // noted again: now 1 is the oldest
		fail(1000)
		kept := 0
		for i := range 1001 {
			reasons := w.m.WaitingReasons(uid(i))
			if kept += len(reasons); len(reasons) > 0 && reasons["app"].Reason != "InvalidImageName" {
				t.Fatalf("22.1: %+v", reasons)
			}
		}
		if kept != 1000 || len(w.m.WaitingReasons(uid(1))) != 0 {
			t.Errorf("22.2: %d reasons are kept, those of the oldest: %v", kept, w.m.WaitingReasons(uid(1)))
		}
		w.m.Forget(uid(0))
		if len(w.m.WaitingReasons(uid(0))) != 0 {
			t.Error("a forgotten pod has reasons")
		}
	})
}
