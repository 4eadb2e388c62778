package podworkers_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// listed returns what each pod waits for, by its UID, with the problem's age.
func listed(w *podworkers.Workers) map[string]string {
	synctest.Wait()
	out := map[string]string{}
	for _, p := range w.Problems() {
		out[string(p.UID)] = p.Waits + " for " + time.Since(p.Since).String()
	}
	return out
}

// wantListed checks that the pod is listed with this text, or not at all if it is empty.
func wantListed(t *testing.T, w *podworkers.Workers, uid, want string) {
	t.Helper()
	if got := listed(w)[uid]; got != want {
		t.Errorf("pod %s: listed as %q, want %q", uid, got, want)
	}
}

// TestFailingStopIsAProblem (IN2): each attempt to stop a pod fails at once. No call hangs, yet the
// pod waits for its end: it is listed from 20 s after its grace until it has ended.
func TestFailingStopIsAProblem(t *testing.T) {
	for _, phase := range []string{"terminating", "terminated"} {
		t.Run(phase, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := errors.New("device or resource busy")
				var mended atomic.Bool
				step := func(of string) error {
					if of != phase || mended.Load() {
						return nil
					}
					return err
				}
				w := podworkers.New(podworkers.PodSyncerFuncs{
					Terminating: func(context.Context, *v1.Pod, *runtime.PodStatus, *int64, podworkers.PodStatusFunc) error {
						return step("terminating")
					},
					Terminated: func(context.Context, *v1.Pod, *runtime.PodStatus) error { return step("terminated") },
				}, podworkers.Options{})
				run(t, w)
				w.UpdatePod(kill(newPod("a"), podworkers.KillOptions{}))
				after, waits := 50*time.Second, "its containers to stop"
				if phase == "terminated" {
					after, waits = 30*time.Second, "what it holds to be released"
				}
				pass(after - 1)
				wantListed(t, w, "a", "")
				pass(1)
				wantListed(t, w, "a", waits+" for "+after.String())
				if p := w.Problems(); len(p) == 1 && !errors.Is(p[0], err) {
					t.Errorf("cause: %v", p[0].Err)
				}
				pass(time.Hour)
				wantListed(t, w, "a", waits+" for "+(time.Hour+after).String())
				mended.Store(true)
				pass(20 * time.Second)
				wantListed(t, w, "a", "")
			})
		})
	}
}

// TestStopByItselfHasItsGrace (IN2): a pod whose setup finds that it has to end stops with the
// grace of its spec, and may use all of it.
func TestStopByItselfHasItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
				return podworkers.SyncResult{Terminal: true}, nil
			},
			Terminating: func(context.Context, *v1.Pod, *runtime.PodStatus, *int64, podworkers.PodStatusFunc) error {
				<-ended
				return nil
			},
		}, podworkers.Options{})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		pass(50*time.Second - 1)
		wantListed(t, w, "a", "")
		pass(1)
		wantListed(t, w, "a", "SyncTerminatingPod to return for 50s")
		close(ended)
		wantListed(t, w, "a", "")
	})
}

// TestNameWaitsForTheFormersGrace (IN2, N1): a static pod whose name is taken is listed 20 s after
// the grace of the former pod, which has the name, is over.
func TestNameWaitsForTheFormersGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Terminating: func(context.Context, *v1.Pod, *runtime.PodStatus, *int64, podworkers.PodStatusFunc) error {
				<-ended
				return nil
			},
		}, podworkers.Options{})
		run(t, w)
		w.UpdatePod(create(newStatic("old", "web")))
		synctest.Wait()
		w.UpdatePod(kill(newStatic("old", "web"), podworkers.KillOptions{}))
		synctest.Wait()
		w.UpdatePod(create(newStatic("new", "web")))
		pass(50*time.Second - 1)
		wantListed(t, w, "new", "")
		pass(1)
		wantListed(t, w, "new", "the full name, held by pod old for 50s")
		close(ended)
		pass(time.Second)
		wantListed(t, w, "new", "")
	})
}

// TestHeldPodWaitsSinceItCame (IN2, IN3): a removal hangs for an hour before its pod comes back. Its
// wait counts from its return; the hour is not part of it.
func TestHeldPodWaitsSinceItCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := podworkers.New(nil, podworkers.Options{})
		run(t, w)
		_, release, _ := w.Hold(t.Context(), "a", "remove pod folder")
		pass(time.Hour)
		w.UpdatePod(create(newPod("a")))
		wantListed(t, w, "a", "")
		pass(30 * time.Second)
		if got := listed(w)["a"]; !strings.HasPrefix(got, "the removal of its previous life: remove pod folder, since ") || !strings.HasSuffix(got, " for 30s") {
			t.Errorf("listed as %q", got)
		}
		release()
		wantListed(t, w, "a", "")
	})
}

// TestEndlessGraceIsNoProblem (IN2): a manifest may ask for a grace of more seconds than a duration
// holds. The pod may take any time to stop: it is not listed, and no call that waits for it gives up.
func TestEndlessGraceIsNoProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Terminating: func(context.Context, *v1.Pod, *runtime.PodStatus, *int64, podworkers.PodStatusFunc) error {
				<-ended
				return nil
			},
		}, podworkers.Options{})
		run(t, w)
		for uid, grace := range map[types.UID]int64{"a": 10_000_000_000, "b": math.MaxInt64} {
			pod := newPod(uid)
			pod.Spec.TerminationGracePeriodSeconds = &grace
			done := make(chan error, 1)
			go func() {
				err := w.KillPod(t.Context(), pod, podworkers.KillOptions{})
				done <- err
			}()
			pass(24 * time.Hour)
			wantListed(t, w, string(uid), "")
			select {
			case err := <-done:
				t.Errorf("pod %s: %v", uid, err)
			default:
			}
		}
		close(ended)
	})
}

// TestRestartThatNeverComesIsAProblem (IN2, R2): a finished pod is wanted again, but housekeeping, which
// begins the next life, does not run: a source may be silent. The pod is listed from a minute after it was
// wanted again until its next life begins.
func TestRestartThatNeverComesIsAProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := podworkers.New(nil, podworkers.Options{})
		run(t, w)
		for _, uid := range []types.UID{"late", "early"} {
			pod := newStatic(uid, string(uid))
			w.UpdatePod(create(pod))
			synctest.Wait()
			w.UpdatePod(kill(pod, podworkers.KillOptions{}))
			if uid == "early" { // while it stops
				w.UpdatePod(create(pod))
			}
			synctest.Wait()
			pass(time.Hour)
			w.UpdatePod(create(pod))
			pass(time.Minute - 1)
			want := ""
			if uid == "early" {
				want = "the next housekeeping pass, to begin a new life for " + (time.Hour + time.Minute - 1).String()
			}
			wantListed(t, w, string(uid), want)
			pass(1)
			if uid == "late" {
				wantListed(t, w, string(uid), "the next housekeeping pass, to begin a new life for 1m0s")
			}
			w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Restart, Pod: pod})
			wantListed(t, w, string(uid), "")
		}
	})
}
