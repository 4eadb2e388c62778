package podworkers_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// unseenSyncer can stop a pod without a view.
type unseenSyncer struct {
	podworkers.PodSyncerFuncs
	log  *log
	fail func() error
}

func (s unseenSyncer) StopUnseen(_ context.Context, pod *v1.Pod, grace *int64) error {
	s.log.add("unseen %s %d", pod.UID, *grace)
	return s.fail()
}

// journalFunc makes a function a journal.
type journalFunc func(ctx context.Context, uid types.UID, f podworkers.Facts) error

func (j journalFunc) Record(ctx context.Context, uid types.UID, f podworkers.Facts) error {
	return j(ctx, uid, f)
}

// V8: a pod that has to stop and gets no view for 10 s is told to stop without one. It is told
// again only if that failed or its grace gets shorter. Its terminating call waits for the view.
func TestUnseenPodIsToldToStop(t *testing.T) {
	for name, view := range map[string]error{"no view": nil, "views fail": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l log
				views := newFakeViews()
				views.relist()
				var answers atomic.Bool
				s := unseenSyncer{logging(&l), &l, func() error {
					if !answers.Load() {
						return errTest
					}
					return nil
				}}
				s.Sync = func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
					return podworkers.SyncResult{}, nil
				}
				journal := journalFunc(func(_ context.Context, uid types.UID, f podworkers.Facts) error {
					if f.TerminationRequested && !f.Terminated {
						l.add("record %s", uid)
					}
					return nil
				})
				w := podworkers.New(s, podworkers.Options{Views: views, Journal: journal, Rand: func() float64 { return 0 }})
				run(t, w)
				pod := newPod("a")
				w.UpdatePod(create(pod))
				synctest.Wait()
				views.fail(view)
				w.UpdatePod(kill(pod, podworkers.KillOptions{}))
				pass(9 * time.Second)
				expect(t, &l)
				pass(31 * time.Second)
				answers.Store(true)
				told := l.take()
				if len(told) < 4 || told[0] != "record a" || told[1] != "unseen a 30" {
					t.Errorf("while it fails: %v", told)
				}
				pass(20 * time.Second)
				expect(t, &l, "record a", "unseen a 30")
				pass(time.Hour)
				expect(t, &l)
				grace := int64(5)
				w.UpdatePod(kill(pod, podworkers.KillOptions{GracePeriodSeconds: &grace}))
				pass(time.Minute)
				expect(t, &l, "record a", "unseen a 5")
				views.fail(nil)
				views.relist()
				pass(time.Minute)
				expect(t, &l, "record a", "terminating a 5")
			})
		})
	}
}

// V8: what a life was told does not count for the UID's next life, even if the runtime described the pod again between two
// attempts.
func TestNextLifeIsToldToStopUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		views := newFakeViews()
		views.relist()
		s := unseenSyncer{logging(&l), &l, func() error { return nil }}
		w := podworkers.New(s, podworkers.Options{Views: peekViews{views}, Rand: func() float64 { return 0 }})
		run(t, w)
		pod := newPod("a")
		w.UpdatePod(create(pod))
		for range 2 {
			synctest.Wait()
			views.fail(errTest)
			l.take()
			w.UpdatePod(kill(pod, podworkers.KillOptions{}))
			pass(20 * time.Second)
			expect(t, &l, "unseen a 30")
			views.fail(nil)
			for range 3 {
				views.relist()
				pass(time.Minute)
			}
			expect(t, &l, "terminating a 30", "terminated a")
			w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Restart, Pod: pod})
		}
	})
}
