package podworkers_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/goroutinetest"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// Edge case 30, L3: idle pods cost no goroutine.
func TestIdlePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
				calls.Add(1)
				return podworkers.SyncResult{}, nil
			},
		}, podworkers.Options{})
		run(t, w)
		synctest.Wait()
		before := goroutinetest.Count("podwright/podworkers")
		for i := range 10_000 {
			w.UpdatePod(create(newPod(types.UID(fmt.Sprint(i)))))
		}
		synctest.Wait()
		if after := goroutinetest.Count("podwright/podworkers"); after > before {
			t.Errorf("%d goroutines with 10,000 pods, %d with none", after, before)
		}
		pass(10 * time.Minute)
		synctest.Wait()
		if n := calls.Load(); n < 60_000 || n > 110_000 {
			t.Errorf("%d calls in ten minutes", n)
		}
	})
}

// L11, I21: reading never waits for a syncer call.
func TestReadingDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
				<-release
				return podworkers.SyncResult{}, nil
			},
		}, podworkers.Options{})
		run(t, w)
		for _, uid := range []types.UID{"c", "a", "b"} {
			w.UpdatePod(create(newPod(uid)))
		}
		synctest.Wait()
		var uids []types.UID
		for _, e := range w.Snapshot() {
			uids = append(uids, e.UID)
			if e.State.String() != "setup" || e.WaitingFor != "SyncPod to return" {
				t.Errorf("%+v", e)
			}
		}
		if !slices.Equal(uids, []types.UID{"a", "b", "c"}) {
			t.Errorf("snapshot order %v", uids)
		}
		w.SyncKnownPods([]*v1.Pod{newPod("a"), newPod("b"), newPod("c")})
		_ = w.IsPodForMirrorPodTerminatingByFullName("x_y")
		close(release)
	})
}

// P1, many pods, many callers: at most one call per UID, under the race detector.
func TestManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy sync.Map
		enter := func(uid types.UID) func() {
			if _, taken := busy.LoadOrStore(uid, true); taken {
				t.Errorf("I1: two calls of %s", uid)
			}
			return func() { busy.Delete(uid) }
		}
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(_ context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
				defer enter(pod.UID)()
				goruntime.Gosched()
				return podworkers.SyncResult{}, nil
			},
			Terminating: func(_ context.Context, pod *v1.Pod, _ *runtime.PodStatus, _ *int64, _ podworkers.PodStatusFunc) error {
				defer enter(pod.UID)()
				goruntime.Gosched()
				return nil
			},
			Terminated: func(_ context.Context, pod *v1.Pod, _ *runtime.PodStatus) error {
				defer enter(pod.UID)()
				return nil
			},
		}, podworkers.Options{})
		run(t, w)
		var callers sync.WaitGroup
		for caller := range 8 {
			callers.Go(func() {
				for i := range 500 {
					pod := newPod(types.UID(fmt.Sprint(i % 50)))
					switch {
					case i%7 == 0 && caller == 0:
						w.SyncKnownPods([]*v1.Pod{pod})
					case i%11 == caller:
						w.UpdatePod(kill(pod, podworkers.KillOptions{}))
					default:
						w.UpdatePod(create(pod))
					}
				}
			})
		}
		callers.Wait()
		synctest.Wait()
	})
}
