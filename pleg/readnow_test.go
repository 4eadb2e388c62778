package pleg

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/runtime"
)

// ReadNow reads after it is called, publishes, and believes what it finds, also
// that the pod is gone.
func TestReadNowBelievesWhatItFinds(t *testing.T) {
	for _, manual := range []bool{true, false} {
		t.Run(fmt.Sprintf("manual=%v", manual), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Options{})
				b.pod("p", "c")
				b.relist()
				b.events()
				if !manual {
					defer b.run()()
					synctest.Wait()
				}
				b.container("p", "c", sExited, 137)
				after := b.Stamp()
				s, err := b.ReadNow(t.Context(), "p")
				if err != nil || s.Containers[0].ExitCode != 137 || s.Stamp <= after {
					t.Fatalf("ReadNow: %+v, %v", s, err)
				}
				if got, _ := b.Get("p"); got != s {
					t.Error("not published")
				}
				b.expect("read", "p: Died [p/c]")
				if _, err := b.ReadNow(t.Context(), "p"); err != nil {
					t.Error(err)
				}
				b.expect("nothing new")
				b.remove("p")
				s, err = b.ReadNow(t.Context(), "p")
				if err != nil || s.UID != "p" || len(s.Containers) != 0 {
					t.Errorf("gone: %+v, %v", s, err)
				}
				b.expect("gone", "p: Died|Removed [p/s0]")
				s, err = b.ReadNow(t.Context(), "never")
				if err != nil || s.UID != "never" {
					t.Errorf("unknown: %+v, %v", s, err)
				}
			})
		})
	}
}

// ReadNow hands the error of the reading to its caller and ends with its context
// or with Run.
func TestReadNowReturnsTheErrorOfItsReading(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		boom := errors.New("boom")
		for _, method := range []string{"ListContainers", "ContainerStatus"} {
			b.fail(failing(method, "p", boom))
			if _, err := b.ReadNow(b.t.Context(), "p"); !errors.Is(err, boom) {
				b.t.Errorf("%s fails: %v", method, err)
			}
		}
		b.fail(hanging("ListContainers", "p", false, nil))
		start := time.Now()
		if _, err := b.ReadNow(ctxFor(b.t, 3*time.Second), "p"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			b.t.Errorf("own deadline: %v after %v", err, time.Since(start))
		}
		start = time.Now()
		if _, err := b.ReadNow(b.t.Context(), "p"); !errors.Is(err, runtime.ErrDeadline) {
			b.t.Errorf("time limit: %v after %v", err, time.Since(start))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		stop := b.run()
		synctest.Wait()
		b.fail(hanging("ListContainers", "p", false, nil))
		got := make(chan error)
		go func() { _, err := b.ReadNow(t.Context(), "p"); got <- err }()
		synctest.Wait()
		stop()
		if err := <-got; !errors.Is(err, ErrStopped) {
			t.Errorf("Run ended: %v", err)
		}
	})
}

// B9, C7: a pushed status is published like a reading, and only if it is newer.
func TestPushedStatusIsPublishedIfNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		b.relist()
		b.events()
		b.container("p", "c", sExited, 9)
		s, err := b.view.Read(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		if !b.Publish(s) {
			t.Fatal("a newer status was refused")
		}
		b.expect("published", "p: Died [p/c]")
		if b.Publish(s) {
			t.Error("the same status is no news")
		}
		calls := b.statusCalls()
		b.relist()
		b.expect("the list says the same")
		if b.statusCalls() != calls {
			t.Error("a published state was inspected again")
		}

		old, err := b.view.Read(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		b.remove("p", "c")
		b.relist()
		b.expect("removed", "p: Removed")
		if b.Publish(old) {
			t.Error("an older status was taken")
		}
		b.expect("refused")
		if b.Publish(nil) || b.Publish(&runtime.PodStatus{}) {
			t.Error("nonsense was taken")
		}
	})
}
