package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// inBubble runs f with a running generator in virtual time, after the first
// relist.
func inBubble(t *testing.T, options Options, fill func(*bench), f func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, options)
		if fill != nil {
			fill(b)
		}
		stop := b.run()
		synctest.Wait()
		b.events()
		f(b)
		stop()
	})
}

// D4, D6: a refresh after an own call is published at once, long before the next
// relist, and T stays.
func TestRefreshPublishesAtOnce(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c"); b.pod("q", "c") }, func(b *bench) {
		start, global := time.Now(), b.Dump().Global
		calls := b.count("ContainerStatus q/c")
		b.container("p", "c", sExited, 7)
		b.container("q", "c", sExited)
		after := b.Stamp()
		b.Refresh("p")
		status, err := b.GetNewerThan(b.t.Context(), "p", after)
		if err != nil || status.Containers[0].ExitCode != 7 {
			b.t.Errorf("GetNewerThan: %+v, %v", status, err)
		}
		if took := time.Since(start); took != 0 {
			b.t.Errorf("took %v of virtual time, want none", took)
		}
		b.expect("refresh", "p: Died [p/c]")
		if got := b.Dump().Global; got != global {
			b.t.Error("a refresh moved T")
		}
		if got := b.count("ContainerStatus q/c"); got != calls {
			b.t.Error("a refresh read another pod")
		}
	})
}

// Edge case 18, C8: a refresh of an unchanged pod wakes the worker, costs two
// filtered lists, and is no event.
func TestRefreshOfAnUnchangedPodIsNoEvent(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		calls, start := b.statusCalls(), time.Now()
		after := b.Stamp()
		b.Refresh("p")
		if _, err := b.GetNewerThan(b.t.Context(), "p", after); err != nil {
			b.t.Fatal(err)
		}
		if time.Since(start) != 0 {
			b.t.Error("waited for a relist")
		}
		b.expect("unchanged")
		if got := b.statusCalls() - calls; got != 0 {
			b.t.Errorf("%d status calls", got)
		}
		if b.count("ListPodSandbox p") != 1 {
			b.t.Error("the pod was not listed by itself")
		}
	})
}

// D1, D9, edge case 20: requests for one pod merge; an unknown UID is harmless.
func TestRefreshesOfOnePodMerge(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		block := make(chan struct{})
		b.fail(hanging("ListPodSandbox", "p", true, block))
		for range 10000 {
			b.Refresh("p")
		}
		synctest.Wait()
		close(block)
		synctest.Wait()
		if got := b.count("ListPodSandbox p"); got > 2 {
			b.t.Errorf("%d lists for 10,000 requests, want at most 2", got)
		}
		after := b.Stamp()
		b.Refresh("unknown")
		if s, err := b.GetNewerThan(b.t.Context(), "unknown", after); err != nil || s.UID != "unknown" {
			b.t.Errorf("unknown pod: %+v, %v", s, err)
		}
		pass(1500 * time.Millisecond)
		b.expect("unknown")
		if len(b.Dump().Pods) != 1 {
			b.t.Error("an unknown pod left a record")
		}
	})
}

// D3, edge case 17: a request made before a relist began needs no other reading; one
// made during it gets its own.
func TestRelistAnswersEarlierRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.pod("p", "c")
		b.Refresh("p")
		b.relist()
		if got := b.count("ListPodSandbox p"); got != 0 {
			t.Errorf("request before the relist: %d lists of the pod, want 0", got)
		}
		b.fail(func(_ context.Context, method, id string) error {
			if method == "ListContainers" && id == "" {
				b.Refresh("p")
			}
			return nil
		})
		b.relist()
		b.fail(nil)
		if r := b.pods["p"]; r.request == 0 && b.count("ListPodSandbox p") == 0 {
			t.Error("a request during the list got lost")
		}
	})
}

// D2: a relist in progress delays no refresh. A list that is older than a refresh does not undo it, nor judge the pod.
func TestRelistDelaysNoRefresh(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		block := make(chan struct{})
		b.fail(hanging("ListPodSandbox", "", true, block))
		b.fail(func(ctx context.Context, method, id string) error {
			if method == "PodSandboxStatus" || id != "" {
				return nil
			}
			return hanging("ListContainers", "", true, block)(ctx, method, id)
		})
		pass(time.Second) // the relist begins and hangs with its sandboxes read
		b.sandbox("p", 1, sReady, "10.0.0.2")
		after := b.Stamp()
		b.Refresh("p")
		if s, err := b.GetNewerThan(b.t.Context(), "p", after); err != nil || len(s.Sandboxes) != 2 {
			b.t.Fatalf("refresh behind a hanging list: %v, %v", s, err)
		}
		b.expect("refresh", "p: Started")
		close(block)
		synctest.Wait()
		b.expect("old list")
		if got := len(b.states("p")); got != 3 {
			b.t.Errorf("status has %d objects after the old list, want 3", got)
		}
	})
}

// D5: a refresh that fails to list is only logged, the next relist repairs; one
// that does not find a pod that was alive leaves the judgement to the relists.
func TestFailedRefreshIsRepairedByTheNextRelist(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		b.fail(failing("ListPodSandbox", "p", errors.New("boom")))
		b.container("p", "c", sExited)
		b.Refresh("p")
		synctest.Wait()
		b.expect("failed refresh")
		if _, err := b.Get("p"); err != nil {
			b.t.Errorf("a failed list of one pod is not a status: %v", err)
		}
		pass(1100 * time.Millisecond)
		b.expect("relist", "p: Died [p/c]")

		b.fail(nil)
		b.remove("p")
		b.Refresh("p")
		synctest.Wait()
		b.expect("not found while its sandbox was ready")
	})
}

// Decision "no waiting for the next poll": a pod whose objects had all exited and
// that is removed by an own call is gone with the refresh.
func TestRemovedPodIsGoneWithItsRefresh(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.sandbox("p", 0, sNotReady, ""); b.container("p", "c", sExited) }, func(b *bench) {
		b.remove("p")
		after := b.Stamp()
		b.Refresh("p")
		s, err := b.GetNewerThan(b.t.Context(), "p", after)
		if err != nil || len(s.Sandboxes)+len(s.Containers) != 0 {
			b.t.Errorf("after removal: %+v, %v", s, err)
		}
		b.expect("removed", "p: Removed")
		pass(1100 * time.Millisecond)
		b.expect("relist")
		if len(b.Dump().Pods) != 0 {
			b.t.Error("record left behind")
		}
	})
}

// D8, edge case 19: between Hold and Release nothing of the pod is published,
// neither by a refresh nor by a relist; then one refresh shows the end.
func TestHeldPodIsNotPublished(t *testing.T) {
	inBubble(t, Options{}, nil, func(b *bench) {
		b.Hold("p")
		b.Hold("p")
		after := b.Stamp()
		b.sandbox("p", 0, sReady, "10.0.0.1")
		b.Refresh("p")
		synctest.Wait()
		pass(2500 * time.Millisecond)
		b.container("p", "c", sCreated)
		b.Refresh("p")
		pass(2500 * time.Millisecond)
		b.expect("held")
		if got := b.states("p"); len(got) != 0 {
			b.t.Errorf("published while held: %v", got)
		}
		if b.isFresh("p", after) {
			b.t.Error("a held pod that changed profits from T")
		}
		b.container("p", "c", sRunning)
		b.Release("p")
		synctest.Wait()
		b.expect("one of two holds left")
		calls, start := b.count("ListPodSandbox p"), time.Now()
		b.Release("p")
		s, err := b.GetNewerThan(b.t.Context(), "p", after)
		if err != nil || !s.ContainersRunning() || time.Since(start) != 0 {
			b.t.Errorf("after Release: %v, %v, %v", s, err, time.Since(start))
		}
		b.expect("released", "p: Started")
		if got := b.count("ListPodSandbox p") - calls; got != 1 {
			b.t.Errorf("%d refreshes after Release, want 1", got)
		}
		b.Release("p") // one too many is harmless
	})
}

// D8: a reading under way when the setup begins is not published either.
func TestReadingFromBeforeAHoldIsNotPublished(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		block := make(chan struct{})
		b.fail(hanging("ContainerStatus", "p/", true, block))
		b.container("p", "c", sExited)
		b.Refresh("p")
		synctest.Wait()
		b.Hold("p")
		close(block)
		synctest.Wait()
		b.expect("held")
		b.Release("p")
		synctest.Wait()
		b.expect("released", "p: Died [p/c]")
	})
}

// D7, D8: what was reported counts until a reading that has it is published, so not until one that a hold keeps back.
func TestReportOutlivesAReadingThatIsNotPublished(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		block := make(chan struct{})
		b.fail(hanging("ContainerStatus", "p/", true, block))
		b.container("p", "d", sRunning)
		b.Report("p", "p/c", runtime.Exited)
		b.Refresh("p")
		synctest.Wait()
		b.Hold("p")
		close(block)
		pass(2 * reportDelay)
		b.Release("p")
		synctest.Wait()
		b.container("p", "c", sExited) // the runtime shows it only now
		pass(2 * reportDelay)
		b.expect("released", "p: Started|Died [p/c]")
	})
}

// A hold of a pod that nothing happens to leaves no trace.
func TestHoldOfAQuietPodLeavesNoTrace(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "c") }, func(b *bench) {
		after := b.Stamp()
		b.Hold("p")
		b.Hold("unknown")
		pass(1500 * time.Millisecond)
		if !b.isFresh("p", after) {
			b.t.Error("an unchanged held pod does not profit from T")
		}
		calls := b.count("ListPodSandbox p")
		b.Release("p")
		b.Release("unknown")
		pass(1500 * time.Millisecond)
		if b.count("ListPodSandbox p") != calls {
			b.t.Error("refreshed for nothing")
		}
		if len(b.Dump().Pods) != 1 {
			b.t.Error("record left behind")
		}
	})
}

// D8, R7: the reading after a hold has everything made by the end of the hold, even if a list came
// in the middle and the caller does not report what it makes.
func TestReleaseReadsWhatAListInTheMiddleLacks(t *testing.T) {
	inBubble(t, Options{}, func(b *bench) { b.pod("p", "a") }, func(b *bench) {
		b.Hold("p")
		b.container("p", "b", sRunning)
		pass(1500 * time.Millisecond)
		b.container("p", "c", sRunning)
		after := b.Stamp()
		b.Release("p")
		status, err := b.GetNewerThan(b.t.Context(), "p", after)
		if err != nil {
			b.t.Fatal(err)
		}
		if n := len(status.Containers); n != 3 {
			b.t.Errorf("%d containers of 3 are in a reading that is newer than all of them", n)
		}
	})
}

// D7: a refresh that shows less than the syncer saw is repeated once after 100 ms.
func TestReadingBehindAReportIsRepeated(t *testing.T) {
	for _, tc := range []struct {
		name    string
		report  runtime.State
		shown   func(*bench)
		catchUp func(*bench)
		wait    time.Duration
	}{
		{"less, then caught up", runtime.Running, func(b *bench) { b.container("p", "c", sCreated) }, func(b *bench) { b.container("p", "c", sRunning) }, reportDelay},
		{"less for good", runtime.Running, func(b *bench) { b.container("p", "c", sCreated) }, nil, reportDelay},
		{"not listed yet", runtime.Created, func(*bench) {}, func(b *bench) { b.container("p", "c", sCreated) }, reportDelay},
		{"as reported", runtime.Running, func(b *bench) { b.container("p", "c", sRunning) }, nil, 0},
		{"further than reported", runtime.Running, func(b *bench) { b.container("p", "c", sExited) }, nil, 0},
		{"exited and removed", runtime.Exited, func(*bench) {}, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, Options{}, func(b *bench) { b.pod("p") }, func(b *bench) {
				tc.shown(b)
				b.Report("p", "p/c", tc.report)
				after, start := b.Stamp(), time.Now()
				b.Refresh("p")
				synctest.Wait()
				if tc.catchUp != nil {
					tc.catchUp(b)
				}
				if _, err := b.GetNewerThan(b.t.Context(), "p", after); err != nil {
					b.t.Fatal(err)
				}
				if got := time.Since(start); got != tc.wait {
					b.t.Errorf("published after %v, want %v", got, tc.wait)
				}
				start = time.Now()
				after = b.Stamp()
				b.Refresh("p")
				if _, err := b.GetNewerThan(b.t.Context(), "p", after); err != nil || time.Since(start) != 0 {
					b.t.Errorf("second refresh: %v after %v; a report counts once", err, time.Since(start))
				}
			})
		})
	}
}

// The chain of a setup that ended: freshness beyond the end of the call comes with
// the refresh, in no virtual time, for many pods at once.
func TestRefreshAnswersManyWorkersAtOnce(t *testing.T) {
	var uids []types.UID
	for i := range 50 {
		uids = append(uids, types.UID(fmt.Sprintf("p%02d", i)))
	}
	inBubble(t, Options{Inspections: 3}, nil, func(b *bench) {
		start := time.Now()
		done := make(chan []string, len(uids))
		for _, uid := range uids {
			go func() {
				b.Hold(uid)
				b.pod(uid, "c")
				b.Release(uid)
				ended := b.Stamp()
				b.Refresh(uid)
				s, err := b.GetNewerThan(b.t.Context(), uid, ended)
				if err != nil {
					b.t.Error(err)
				}
				done <- statesOf(s)
			}()
		}
		for range uids {
			if got := <-done; len(got) != 2 || !slices.ContainsFunc(got, func(s string) bool { return s[3:] == "/c=running" }) {
				b.t.Errorf("status %v", got)
			}
		}
		if time.Since(start) != 0 {
			b.t.Errorf("took %v", time.Since(start))
		}
	})
}

// D2: a call that waits for a pod does not wait for the three hundred pods that a restarted agent
// has to read, even if the pod is one of them.
func TestWaitingCallDoesNotWaitForTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{Inspections: 2})
		manyPods(300)(b)
		b.fail(func(_ context.Context, method, _ string) error {
			if method == "ContainerStatus" {
				pass(100 * time.Millisecond)
			}
			return nil
		})
		stop := b.run()
		synctest.Wait()
		start := time.Now()
		if _, err := b.ReadNow(t.Context(), "p299"); err != nil || time.Since(start) > 200*time.Millisecond {
			t.Errorf("ReadNow: %v after %v", err, time.Since(start))
		}
		after := b.Stamp()
		b.Refresh("p298")
		if _, err := b.GetNewerThan(t.Context(), "p298", after); err != nil || time.Since(start) > 400*time.Millisecond {
			t.Errorf("Refresh: %v after %v", err, time.Since(start))
		}
		pass(16 * time.Second)
		if got := b.count("ContainerStatus p299/c"); got > 2 {
			t.Errorf("p299 was read %d times", got)
		}
		if got := len(b.sub.Take()); got != 300 {
			t.Errorf("%d pods delivered", got)
		}
		stop()
	})
}
