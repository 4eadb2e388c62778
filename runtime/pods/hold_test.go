package pods_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// holder grants holds, or does not, and counts them.
type holder struct {
	refuses       bool
	now, released int
}

func (h *holder) hold(ctx context.Context, _ types.UID, _ string) (context.Context, func(), bool) {
	if h.refuses {
		return ctx, func() {}, false
	}
	h.now++
	return ctx, func() { h.now--; h.released++ }, true
}

// TestCollectionHoldsGonePods (IN3): containers and sandboxes that are removed because their pod is
// gone are removed under a hold, and not at all while the pod is alive. What a living
// pod no longer needs is removed all the same.
func TestCollectionHoldsGonePods(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, pod := crashing(t)
			h := &holder{refuses: refuses}
			live := pods.GCPolicy{SourcesReady: true, Hold: h.hold}
			if report, err := collect(t.Context(), w.m, live); err != nil || len(report.Containers) != 3 {
				t.Errorf("of a living pod: %+v, %v", report, err)
			}
			if err := w.fake.StopPodSandbox(t.Context(), w.read(pod).Sandboxes[0].ID); err != nil {
				t.Fatal(err)
			}
			gone, during, after := live, 0, 0
			gone.ContentShouldBeRemoved = func(types.UID) bool { return true }
			gone.Done = func(pods.GCAction, error) { after += h.now }
			defer w.fake.Inject(fake.Fault{Match: fake.Match{Func: func(c fake.Call) bool {
				if c.Method == fake.RemoveContainer || c.Method == fake.RemovePodSandbox {
					during += h.now
				}
				return false
			}}})()
			report, err := collect(t.Context(), w.m, gone)
			want := 1
			if refuses {
				want = 0
			}
			if err != nil || len(report.Containers) != want || len(report.Sandboxes) != want {
				t.Errorf("refused %v: %+v, %v", refuses, report, err)
			}
			// What a living pod no longer needs is removed without a hold, which a new life would cut short.
			if during != 2*want || h.now != 0 || h.released != 2*want {
				t.Errorf("%d holds during the removals, %d released, %d left", during, h.released, h.now)
			}
			if after != 0 { // the policy may wait for long
				t.Errorf("%d holds while the policy takes the outcome", after)
			}
		})
	}
}

// TestReturnedPodKeepsWhatWasChosen (IN3): what a collection chose because its pod was gone stays
// if the pod comes back before the removal, whether its life is under way or not.
func TestReturnedPodKeepsWhatWasChosen(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, pod := crashing(t)
			gone, before := true, len(w.read(pod).Containers)
			_, err := collect(t.Context(), w.m, pods.GCPolicy{
				SourcesReady: true, Hold: (&holder{refuses: refuses}).hold,
				ContentShouldBeRemoved: func(types.UID) bool { return gone },
				Permits:                func(pods.GCAction) bool { gone = false; return true },
			})
			if left := len(w.read(pod).Containers); err != nil || left != before {
				t.Errorf("refused %v: %d of %d containers are left, %v", refuses, left, before, err)
			}
		})
	}
}

// TestReaperHoldsGonePods (IN3): the same for what the reaper removes, and a hold that is
// refused does not protect what the pod's own life no longer needs.
func TestReaperHoldsGonePods(t *testing.T) {
	for _, tc := range []struct {
		gone, refuses bool
		want          string
	}{{false, false, "1 2"}, {false, true, "1 2"}, {true, false, "0 1 2"}, {true, true, ""}} {
		synctest.Test(t, func(t *testing.T) {
			h := &holder{refuses: tc.refuses}
			w, status, reaper, removed := reaping(t, 3, pods.ReaperOptions{
				ContentShouldBeRemoved: func(types.UID) bool { return tc.gone }, Hold: h.hold,
			})
			reaper.Died(status, status.Containers[0].ID.ID)
			if got := strings.Join(removed(), " "); got != tc.want {
				t.Errorf("gone %v, refused %v: removed %q, want %q", tc.gone, tc.refuses, got, tc.want)
			}
			if calls := len(w.fake.Calls(fake.Match{Method: fake.RemoveContainer})); h.now != 0 || tc.gone && !tc.refuses && h.released != calls || !tc.gone && h.released != 0 {
				t.Errorf("%d holds released after %d removals, %d left", h.released, calls, h.now)
			}
		})
	}
}

// IN1: removals that hang delay those of other containers by moments, and none is begun twice.
func TestReaperGoesOnBesideHangingRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, status, reaper, _ := reaping(t, 20, pods.ReaperOptions{ContentShouldBeRemoved: func(types.UID) bool { return true }})
		newest, oldest := status.Containers[0].ID.ID, status.Containers[len(status.Containers)-1].ID.ID
		defer w.fake.Inject(fake.Fault{
			Match:  fake.Match{Method: fake.RemoveContainer, Func: func(c fake.Call) bool { return c.ContainerID != oldest }},
			Effect: fake.Effect{Hang: true},
		})()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- reaper.Run(ctx) }()
		for range 2 {
			reaper.Died(status, newest)
			pass(250 * time.Millisecond)
		}
		if n := len(w.fake.Calls(fake.Match{Method: fake.RemoveContainer, Func: func(c fake.Call) bool { return c.ContainerID == oldest && c.Err == nil }})); n == 0 {
			t.Error("the removal that does not hang waits for the others")
		}
		if n := len(w.fake.Calls(fake.Match{Method: fake.RemoveContainer, Func: func(c fake.Call) bool { return c.ContainerID == newest }})); n != 1 {
			t.Errorf("one that hangs was begun %d times", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
