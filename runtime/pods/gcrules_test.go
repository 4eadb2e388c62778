package pods_test

import (
	"context"
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

// spec/runtime.md 19.1, 19.2, spec/cleanup.md CG1, CG2: a container's age counts from
// its end where that is known, and a negative age is refused.
func TestGarbageCollectMinAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := crashing(t) // runs of a second, a minute apart at least
		status := w.read(pod)
		finished := func(_ types.UID, id runtime.ContainerID) time.Time {
			for _, c := range status.Containers {
				if c.ID == id {
					return c.FinishedAt
				}
			}
			return time.Time{}
		}
		oldest := status.Containers[len(status.Containers)-1]
		age := time.Since(oldest.CreatedAt)
		policy := pods.GCPolicy{SourcesReady: true, MinAge: age, FinishedAt: finished, KeepNone: true}
		if report, err := collect(t.Context(), w.m, policy); err != nil || len(report.Containers) != 0 {
			t.Errorf("CG2: it ended a second after its creation: %+v, err %v", report, err)
		}
		policy.FinishedAt = nil
		if report, err := collect(t.Context(), w.m, policy); err != nil || !slices.Equal(report.Containers, []string{oldest.ID.ID}) {
			t.Errorf("CG2, 19.1: its end is not known: %+v, err %v", report, err)
		}
		if _, err := collect(t.Context(), w.m, pods.GCPolicy{MinAge: -1}); err == nil {
			t.Error("CG1: a negative age is accepted")
		}
	})
}

// spec/runtime.md 19.2, spec/cleanup.md CG5, edge case 22: a container in an unknown
// state is killed before it is removed; if it cannot be killed it stays, and others
// go all the same, oldest first.
func TestGarbageCollectUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := crashing(t)
		unknown := w.read(pod).Containers[1]
		if err := w.fake.SetUnknown(unknown.ID.ID); err != nil {
			t.Fatal(err)
		}
		remove := w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Err: errors.New("busy")}})
		policy := pods.GCPolicy{SourcesReady: true}
		report, err := collect(t.Context(), w.m, policy)
		if err == nil || len(report.Containers) != 2 || slices.Contains(report.Containers, unknown.ID.ID) {
			t.Errorf("edge 22: %+v, err %v", report, err)
		}
		var order []uint64
		for _, c := range w.fake.Calls(fake.Match{Method: fake.RemoveContainer}) {
			order = append(order, uint64(c.Start.UnixNano()))
		}
		if len(order) != 2 || order[0] > order[1] {
			t.Errorf("CG5: removals %v", order)
		}
		remove()
		report, err = collect(t.Context(), w.m, policy)
		if err != nil || !slices.Equal(report.Containers, []string{unknown.ID.ID}) {
			t.Errorf("edge 22: then %+v, err %v", report, err)
		}
		calls := w.fake.Calls(fake.Match{Func: func(c fake.Call) bool { return c.ContainerID == unknown.ID.ID && c.Err == nil }})
		if n := len(calls); n < 2 || calls[n-2].Method != fake.StopContainer || calls[n-1].Method != fake.RemoveContainer {
			t.Errorf("CG5: not killed first: %v", calls)
		}
	})
}

// spec/cleanup.md HI12: a runtime that hangs on one container, or on one sandbox, holds
// up the others for 10 s, and the error says which one it is.
func TestGarbageCollectHangs(t *testing.T) {
	for _, method := range []fake.Method{fake.RemoveContainer, fake.RemovePodSandbox} {
		t.Run(string(method), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, pod := crashing(t)
				other := newPod(func(p *v1.Pod) { p.UID, p.Name = "uid-2", "other" })
				w.syncAll(other)
				for _, p := range []*v1.Pod{pod, other} {
					if err := w.m.KillPod(t.Context(), p, nil, nil); err != nil {
						t.Fatal(err)
					}
				}
				defer w.fake.Inject(fake.Fault{Match: fake.Match{Method: method, PodUID: pod.UID}, Times: 1, Effect: fake.Effect{Hang: true}})()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				gone := pods.GCPolicy{SourcesReady: true, ContentShouldBeRemoved: func(types.UID) bool { return true }}
				report, err := collect(ctx, w.m, gone)
				if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
					t.Errorf("it took %v", took)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("err %v", err)
				}
				left := w.read(pod)
				if n := len(left.Containers) + len(left.Sandboxes); n == 0 || n > 2 {
					t.Errorf("left %+v of the one that hangs; removed %+v", left, report)
				}
				if left := w.read(other); len(left.Containers)+len(left.Sandboxes) > 0 {
					t.Errorf("left %+v of the other", left)
				}
			})
		})
	}
}

// spec/cleanup.md CG7: a run that fails raises one event about the node, a run that
// does not or was cancelled none.
func TestContainerGCFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := crashing(t)
		count := func() (n int) {
			for _, e := range w.events.list() {
				if strings.HasPrefix(e, "Warning ContainerGCFailed ") {
					n++
					if !strings.Contains(e, "and 25 more") || strings.Count(e, "\n") != 5 {
						t.Errorf("CG7: the event names more than a few failures: %q", e)
					}
				}
			}
			return n
		}
		remove := w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.RemoveContainer}, Effect: fake.Effect{Err: errors.New("busy" + strings.Repeat("\nor so", 9))}})
		for run := 1; run < 3; run++ {
			if report, err := collect(t.Context(), w.m, pods.GCPolicy{}); err == nil || len(report.Containers) != 0 {
				t.Errorf("%+v, err %v", report, err)
			}
			if n := count(); n != run {
				t.Errorf("CG7: %d events after %d runs in which three removals failed", n, run)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := collect(ctx, w.m, pods.GCPolicy{}); err == nil || count() != 2 {
			t.Errorf("CG7: an event of a run that was cancelled; err %v", err)
		}
		remove()
		if _, err := collect(t.Context(), w.m, pods.GCPolicy{}); err != nil || count() != 2 {
			t.Errorf("CG7: an event of a run that went well; err %v", err)
		}
	})
}

// spec/runtime.md 19.4, spec/cleanup.md SB1 to SB4, edge case 23: sandboxes are
// stopped, then removed; one that cannot be stopped stays; one with containers stays
// until they have gone, and so does the newest of a live pod.
func TestGarbageCollectSandboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		for range 2 { // a lost sandbox, then one more
			w.syncAll(pod)
			if err := w.fake.FailSandbox(w.read(pod).Sandboxes[0].ID); err != nil {
				t.Fatal(err)
			}
		}
		w.syncAll(pod)
		pass(time.Minute)
		w.syncAll(pod) // its back-off is over
		boxes := w.read(pod).Sandboxes
		if len(boxes) != 3 {
			t.Fatalf("%d sandboxes", len(boxes))
		}
		remove := w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StopPodSandbox}, Effect: fake.Effect{Err: errors.New("busy")}})
		report, err := collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true})
		if err == nil || len(report.Sandboxes) != 0 || len(w.calls(fake.RemovePodSandbox)) != 0 {
			t.Errorf("SB4: %+v, err %v", report, err)
		}
		remove()
		report, err = collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true})
		// The middle one holds the newest dead container (edge 23).
		if err != nil || !slices.Equal(report.Sandboxes, []string{boxes[2].ID}) {
			t.Errorf("SB3, 19.4: %+v, err %v", report, err)
		}
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		report, err = collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true})
		if err != nil || !slices.Equal(report.Sandboxes, []string{boxes[1].ID}) {
			t.Errorf("ND4: of a live pod: %+v, err %v", report, err)
		}
		gone := func(types.UID) bool { return true }
		report, err = collect(t.Context(), w.m, pods.GCPolicy{SourcesReady: true, ContentShouldBeRemoved: gone})
		if err != nil || !slices.Equal(report.Sandboxes, []string{boxes[0].ID}) {
			t.Errorf("SB2, 19.4: of a removed pod: %+v, err %v", report, err)
		}
	})
}

// spec/cleanup.md SB1 to SB3, SB5, edge case 23: both sandboxes of a live pod stay, the
// old one for its container and the new one for being the newest; the plan says so.
// Once the pod is gone, only the empty sandbox is removed while the other's container
// cannot be removed; later the other one goes in the same run as its container.
func TestGarbageCollectTwoSandboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		w.syncAll(pod)
		if err := w.fake.FailSandbox(w.read(pod).Sandboxes[0].ID); err != nil {
			t.Fatal(err)
		}
		creates := w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Err: errors.New("no")}})
		for range 2 {
			w.sync(pod)
			pass(time.Minute)
		}
		creates()
		boxes := w.read(pod).Sandboxes
		if len(boxes) != 2 || len(w.read(pod).Containers) != 1 {
			t.Fatalf("%d sandboxes, containers %v", len(boxes), w.read(pod).Containers)
		}
		if err := w.fake.StopPodSandbox(t.Context(), boxes[0].ID); err != nil { // dead, as the old one is
			t.Fatal(err)
		}
		live := pods.GCPolicy{SourcesReady: true}
		kept := map[string]string{}
		plan, err := w.m.PlanGarbageCollect(t.Context(), live)
		for _, a := range plan {
			kept[a.ID] = a.Kept.String()
		}
		if err != nil || kept[boxes[0].ID] != "ND4: the newest sandbox of a living pod" || kept[boxes[1].ID] != "ND4: containers belong to it" {
			t.Errorf("DR3: %v, err %v", kept, err)
		}
		if report, err := collect(t.Context(), w.m, live); err != nil || len(report.Containers)+len(report.Sandboxes) > 0 {
			t.Errorf("edge 23: of a live pod %+v, err %v", report, err)
		}
		gone := pods.GCPolicy{SourcesReady: true, ContentShouldBeRemoved: func(types.UID) bool { return true }}
		repair := w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.RemoveContainer}, Effect: fake.Effect{Err: errors.New("busy")}})
		report, err := collect(t.Context(), w.m, gone)
		if err == nil || len(report.Containers) > 0 || !slices.Equal(report.Sandboxes, []string{boxes[0].ID}) {
			t.Errorf("edge 23: of a gone pod %+v, err %v", report, err)
		}
		repair()
		report, err = collect(t.Context(), w.m, gone)
		if err != nil || len(report.Containers) != 1 || !slices.Equal(report.Sandboxes, []string{boxes[1].ID}) {
			t.Errorf("edge 23: then %+v, err %v", report, err)
		}
	})
}

// spec/cleanup.md ID1, edge case 37: what another program has removed since the list was
// read counts as removed.
func TestGarbageCollectVanished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, pod := crashing(t)
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		for _, m := range []fake.Method{fake.RemoveContainer, fake.StopPodSandbox, fake.RemovePodSandbox} {
			w.fake.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: fake.Effect{Err: fmt.Errorf("no such thing: %w", runtime.ErrNotFound)}})
		}
		var done []error
		gone := pods.GCPolicy{
			SourcesReady: true, ContentShouldBeRemoved: func(types.UID) bool { return true },
			Done: func(_ pods.GCAction, err error) { done = append(done, err) },
		}
		report, err := collect(t.Context(), w.m, gone)
		if err != nil || errors.Join(done...) != nil || len(done) != 5 || len(report.Containers) != 4 || len(report.Sandboxes) != 1 {
			t.Errorf("edge 37: %+v, err %v, told %v", report, err, done)
		}
	})
}

// spec/cleanup.md CG4, CG8, edge case 20: limits as the engine's settings give
// them, on a real list.
func TestGarbageCollectLimits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy pods.GCPolicy
		left   int
	}{
		{"zero: one per name", pods.GCPolicy{}, 2},
		{"edge 20: none", pods.GCPolicy{KeepNone: true}, 0},
		{"edge 20: no limit", pods.GCPolicy{MaxPerContainer: -1, MaxContainers: -1}, 8},
		{"edge 20: two per name", pods.GCPolicy{MaxPerContainer: 2}, 4},
		{"edge 20: total below the number of units", pods.GCPolicy{MaxContainers: 1}, 1},
		{"edge 20: total alone", pods.GCPolicy{MaxPerContainer: -1, MaxContainers: 5}, 4}, // 2 per unit
		{"edge 20: min age 1 h", pods.GCPolicy{MinAge: time.Hour}, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				pod := newPod(func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, container("other")) })
				for range 4 {
					w.syncAll(pod)
					for _, name := range []string{"app", "other"} {
						if w.read(pod).Container(name).State == runtime.Running {
							if err := w.fake.Exit(pod.UID, name, fake.Exit{}); err != nil {
								t.Fatal(err)
							}
						}
					}
					pass(time.Minute)
				}
				w.syncAll(pod) // 4 dead of each and one that runs
				tc.policy.SourcesReady = true
				if _, err := collect(t.Context(), w.m, tc.policy); err != nil {
					t.Fatal(err)
				}
				dead := 0
				for _, c := range w.read(pod).Containers {
					if c.State == runtime.Exited {
						dead++
					}
				}
				if dead != tc.left {
					t.Errorf("%d dead containers left, want %d", dead, tc.left)
				}
			})
		})
	}
}

// edge case 21: a container that was created and has not started yet stays, even of
// a pod that is gone.
func TestGarbageCollectCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod()
		defer w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StartContainer}, Effect: fake.Effect{Hang: true}})()
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		w.m.SyncPod(ctx, pod, w.read(pod))
		w.wantState(pod, "app:created")
		gone := pods.GCPolicy{SourcesReady: true, ContentShouldBeRemoved: func(types.UID) bool { return true }}
		for _, tc := range []struct {
			after time.Duration
			want  int
		}{{0, 0}, {58 * second, 0}, {2 * second, 1}} {
			pass(tc.after)
			report, err := collect(t.Context(), w.m, gone)
			if err != nil || len(report.Containers) != tc.want {
				t.Errorf("edge 21: %+v, err %v", report, err)
			}
		}
	})
}

// reaping makes a pod with n dead containers named app, the newest first, and a
// reaper that runs until the end.
func reaping(t *testing.T, n int, o pods.ReaperOptions, opt ...func(*pods.Options)) (*world, *runtime.PodStatus, *pods.Reaper, func() []string) {
	t.Helper()
	w := newWorld(t, nil, opt...)
	pod := newPod()
	for range n {
		w.syncAll(pod)
		if err := w.fake.Exit(pod.UID, "app", fake.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Minute)
	}
	status := w.read(pod)
	r := w.m.NewReaper(o)
	// removed runs the reaper until it has nothing to do and tells what is gone, in
	// order.
	removed := func() (out []string) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, c := range w.fake.Calls(fake.Match{Method: fake.RemoveContainer}) {
			if i := slices.IndexFunc(status.Containers, func(s *runtime.ContainerStatus) bool { return s.ID.ID == c.ContainerID }); c.Err == nil {
				out = append(out, fmt.Sprint(i))
			}
		}
		return out
	}
	return w, status, r, removed
}

// TestReaperLeavesAbortedStarts: PE2, HI8: a container whose start was aborted is not the last
// run of its name: the last run stays, with its log, and the aborted one is replaced by
// whatever starts the next. If the pod is gone, all of them are removed.
func TestReaperLeavesAbortedStarts(t *testing.T) {
	for want, gone := range map[string]bool{"2 3": false, "0 1 2 3": true} {
		synctest.Test(t, func(t *testing.T) {
			_, status, reaper, removed := reaping(t, 4, pods.ReaperOptions{ContentShouldBeRemoved: func(types.UID) bool { return gone }})
			cut := status.Containers[0]
			cut.StartedAt, cut.Reason, cut.Message = time.Time{}, "StartError", "failed to create containerd task: context canceled"
			reaper.Died(status, cut.ID.ID)
			if got := strings.Join(removed(), " "); got != want {
				t.Errorf("removed %q, want %q", got, want)
			}
		})
	}
}

// spec/syncloop.md PE2, spec/runtime.md 19.6: after a death the older dead containers
// of that name are removed, newest first; if the pod is gone, all of them.
// syncloop.md edge 29: an unknown ID deletes nothing.
func TestReaperRemovesOlderDeadContainersOfTheName(t *testing.T) {
	gone := func(types.UID) bool { return true }
	for _, tc := range []struct {
		name    string
		options pods.ReaperOptions
		died    int // index of the container that died, -1: an unknown one
		want    string
	}{
		{"PE2: all but the newest, newest first", pods.ReaperOptions{}, 0, "1 2 3"},
		{"PE2: whichever of the name died", pods.ReaperOptions{}, 3, "1 2 3"},
		{"PE2: two are kept", pods.ReaperOptions{Keep: 2}, 0, "2 3"},
		{"PE2: all are kept", pods.ReaperOptions{Keep: -1}, 0, ""},
		{"PE2: of a gone pod all", pods.ReaperOptions{ContentShouldBeRemoved: gone}, 0, "0 1 2 3"},
		{"edge 29: unknown", pods.ReaperOptions{}, -1, ""},
		{"edge 29: unknown of a gone pod", pods.ReaperOptions{ContentShouldBeRemoved: gone}, -1, ""},
		{"young ones stay", pods.ReaperOptions{MinAge: 25 * time.Minute}, 0, "2 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, status, reaper, removed := reaping(t, 4, tc.options)
				id := "unknown"
				if tc.died >= 0 {
					id = status.Containers[tc.died].ID.ID
				}
				reaper.Died(status, id)
				if got := strings.Join(removed(), " "); got != tc.want {
					t.Errorf("removed %q, want %q", got, tc.want)
				}
			})
		})
	}
}

// spec/syncloop.md PE3, edge 30: the queue holds 50; what has no room is dropped
// without blocking and left to garbage collection.
func TestReaperQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, status, reaper, removed := reaping(t, 60, pods.ReaperOptions{})
		for range 3 {
			reaper.Died(status, status.Containers[0].ID.ID)
		}
		if n := len(removed()); n != 50 {
			t.Errorf("PE3: %d removed, want 50", n)
		}
		report, err := collect(t.Context(), w.m, pods.GCPolicy{})
		if err != nil || len(report.Containers) != 9 {
			t.Errorf("edge 30: the rest: %+v, err %v", report, err)
		}
	})
}

// spec/syncloop.md PE4, spec/runtime.md 19.3: how a container ended is stored first; if
// that fails, the container stays. A pod that comes back meanwhile keeps its containers.
func TestReaperKeepsUnrecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := errors.New("disk full")
		var asked []string
		_, status, reaper, removed := reaping(t, 3, pods.ReaperOptions{}, func(o *pods.Options) {
			o.BeforeRemove = func(_ context.Context, uid types.UID, name string, id runtime.ContainerID) error {
				asked = append(asked, fmt.Sprint(uid, name))
				return fails
			}
		})
		reaper.Died(status, status.Containers[0].ID.ID)
		if got := removed(); len(got) != 0 || len(asked) != 2 {
			t.Errorf("PE4: removed %q, asked for %q", got, asked)
		}
		fails = nil
		reaper.Died(status, status.Containers[0].ID.ID)
		if got := removed(); len(got) != 2 {
			t.Errorf("PE4: then removed %q", got)
		}

		goes := true
		_, status, reaper, removed = reaping(t, 3, pods.ReaperOptions{ContentShouldBeRemoved: func(types.UID) bool { return goes }})
		reaper.Died(status, status.Containers[0].ID.ID)
		goes = false
		if got := removed(); len(got) != 0 {
			t.Errorf("DR1: the pod came back, and yet %q are removed", got)
		}
	})
}

// IN1, spec/cleanup.md HI12: 40 pods of which the runtime removes nothing delay the removal of
// another pod's containers by seconds, and a run by no more than the delay of one of them.
func TestGarbageCollectHangsForManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(o *pods.Options) { o.MaxRuntimeWork = -1 })
		all := []*v1.Pod{numbered("web")}
		for i := range 40 {
			all = append(all, numbered(fmt.Sprint("hung-", i)))
		}
		for _, pod := range all {
			w.syncAll(pod)
			if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		w.fake.Inject(fake.Fault{
			Match:  fake.Match{Method: fake.RemoveContainer, Func: func(c fake.Call) bool { return strings.HasPrefix(string(c.PodUID), "uid-hung") }},
			Effect: fake.Effect{Hang: true},
		})
		began, gone := time.Now(), time.Duration(0)
		policy := pods.GCPolicy{SourcesReady: true, ContentShouldBeRemoved: func(types.UID) bool { return true }}
		policy.Done = func(a pods.GCAction, err error) {
			if a.PodUID == "uid-web" && !a.Sandbox && err == nil {
				gone = time.Since(began)
			}
		}
		err := w.m.GarbageCollect(t.Context(), policy)
		if gone == 0 && len(w.read(all[0]).Containers) > 0 || gone > 3*time.Second {
			t.Errorf("the container of web went after %v, err %v", gone, err)
		}
		if took := time.Since(began); err == nil || took > 15*time.Second {
			t.Errorf("the run took %v, err %v", took, err)
		}
	})
}
