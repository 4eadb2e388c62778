package pleg

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// B15: the list that housekeeping makes during a run advances T, has changed pods read, and delays
// the next relist by a period.
func TestListRunningIsARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		defer b.run()()
		synctest.Wait() // the first relist, at 0 s
		before, lists := b.Dump().Global, 0
		b.lists(&lists)
		<-time.After(600 * time.Millisecond)
		b.container("p", "c", sExited, 3)
		running, err := b.ListRunning(t.Context())
		if err != nil || len(running) != 1 {
			t.Fatalf("ListRunning: %v, %v", running, err)
		}
		synctest.Wait()
		if b.Dump().Global <= before {
			t.Error("ListRunning has not moved T")
		}
		b.want("after ListRunning", "p", "p/c=exited", "p/s0=running")
		if got := b.lists(&lists); got != 2 {
			t.Errorf("%d list calls for ListRunning, want 2", got)
		}
		<-time.After(900 * time.Millisecond) // 1.5 s
		if got := b.lists(&lists); got != 0 {
			t.Errorf("%d list calls within a period after ListRunning, want none", got)
		}
		<-time.After(200 * time.Millisecond) // 1.7 s
		if got := b.lists(&lists); got != 2 {
			t.Errorf("%d list calls a period after ListRunning, want 2", got)
		}
	})
}

// B15: a relist that comes due while housekeeping lists is left out.
func TestRelistDueDuringListRunningIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		defer b.run()()
		synctest.Wait()
		lists := 0
		b.lists(&lists)
		b.fail(func(_ context.Context, method, _ string) error {
			if method == "ListPodSandbox" {
				<-time.After(500 * time.Millisecond)
			}
			return nil
		})
		<-time.After(800 * time.Millisecond)
		if _, err := b.ListRunning(t.Context()); err != nil { // from 0.8 s to 1.3 s
			t.Fatal(err)
		}
		<-time.After(900 * time.Millisecond) // 2.2 s
		if got := b.lists(&lists); got != 2 {
			t.Errorf("%d list calls, want the 2 of ListRunning", got)
		}
		<-time.After(time.Second) // 3.2 s
		if got := b.lists(&lists); got != 2 {
			t.Errorf("%d list calls a period later, want 2", got)
		}
	})
}

// B15: lists of housekeeping may follow each other closely, so they do not confirm that a pod is gone.
func TestListRunningConfirmsNoAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		defer b.run()()
		synctest.Wait()
		b.remove("p")
		for range 5 {
			if _, err := b.ListRunning(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if status, err := b.Get("p"); err != nil || !status.Running() {
			t.Errorf("the pod is believed gone: %v, %v", status, err)
		}
		<-time.After(4 * time.Second)
		if status, err := b.Get("p"); err != nil || status.Running() {
			t.Errorf("the pod is not believed gone: %v, %v", status, err)
		}
	})
}

// B15, R7, B7: housekeeping lists every 2 s, so relists with a longer period would always be left out. While a pod waits
// to be confirmed gone, they are not, and their period is the short one.
func TestSharedListsKeepNoPodFromBeingGone(t *testing.T) {
	for _, c := range []struct{ period, quiet, within time.Duration }{
		{time.Second, 5 * time.Second, 6 * time.Second},
		{3 * time.Second, 0, 12 * time.Second},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Options{Period: c.period, QuietPeriod: c.quiet, Streamer: newTap()})
				b.pod("p", "c")
				defer b.run()()
				house := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); <-time.After(2 * time.Second) {
						if _, err := b.ListRunning(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				house(40 * time.Second) // quiet
				b.events()
				b.remove("p")
				house(c.within)
				b.expect("vanished", "p: Died|Removed [p/s0 p/c]")
				house(20 * time.Second)
				lists := 0
				b.lists(&lists)
				house(time.Minute)
				if got := b.lists(&lists); got != 60 {
					t.Errorf("%d list calls in a quiet minute, want the 60 of housekeeping", got)
				}
			})
		})
	}
}
