package podworkers_test

import (
	"context"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// TestSeenViewNeedsNoOther: V9. If a call's syncer has read the pod after its last change, the next call needs no
// other reading. If it has not, or took that back, the next call waits for a newer view, and the workers ask the
// source for it.
func TestSeenViewNeedsNoOther(t *testing.T) {
	for name, test := range map[string]struct {
		seen      func(ctx context.Context, views *fakeViews)
		refreshes bool
	}{
		"seen": {func(ctx context.Context, views *fakeViews) {
			views.relist()
			podworkers.Seen(ctx, 0)
			podworkers.Seen(ctx, views.last())
		}, false},
		"not seen": {func(_ context.Context, views *fakeViews) { views.relist() }, true},
		"taken back": {func(ctx context.Context, views *fakeViews) {
			podworkers.Seen(ctx, views.last())
			podworkers.Seen(ctx, 0)
		}, true},
		"seen before, not newer": {func(ctx context.Context, views *fakeViews) {
			podworkers.Seen(ctx, views.last()+1) // the source does not have it yet
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				views := newFakeViews()
				views.relist()
				var ended []runtime.Stamp // of the views that the steps got
				step := func(ctx context.Context, view *runtime.PodStatus) {
					ended = append(ended, view.Stamp)
					test.seen(ctx, views)
				}
				w := podworkers.New(podworkers.PodSyncerFuncs{
					Sync: func(ctx context.Context, _ podworkers.UpdateType, _, _ *v1.Pod, view *runtime.PodStatus) (podworkers.SyncResult, error) {
						step(ctx, view)
						return podworkers.SyncResult{Acted: true, Terminal: true}, nil
					},
					Terminating: func(ctx context.Context, _ *v1.Pod, view *runtime.PodStatus, _ *int64, _ podworkers.PodStatusFunc) error {
						step(ctx, view)
						return nil
					},
					Terminated: func(ctx context.Context, _ *v1.Pod, view *runtime.PodStatus) error {
						step(ctx, view)
						return nil
					},
				}, podworkers.Options{Views: peekViews{views}})
				run(t, w)
				w.UpdatePod(create(newPod("a")))
				synctest.Wait()
				if asked := views.asked() > 0; asked != test.refreshes || !test.refreshes && len(ended) != 3 || test.refreshes && len(ended) != 1 {
					t.Errorf("asked for a view: %t, %d steps; want %t", asked, len(ended), test.refreshes)
				}
				for range 3 {
					views.relist()
					synctest.Wait()
				}
				if len(ended) != 3 || ended[1] <= ended[0] || ended[2] <= ended[1] {
					t.Errorf("views of the steps: %v", ended)
				}
			})
		})
	}
}

// TestSeenOutsideOfACall: V9. Seen does nothing without a call of the workers.
func TestSeenOutsideOfACall(t *testing.T) { podworkers.Seen(t.Context(), 1) }
