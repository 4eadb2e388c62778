package podworkers_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// trapError panics in one of its methods, and in any of them if it is nil.
type trapError struct{ method string }

func (e *trapError) trap(method string) bool {
	if e.method == method {
		panic(method)
	}
	return false
}

func (e *trapError) Error() string              { e.trap("Error"); return "trap" }
func (e *trapError) Is(error) bool              { return e.trap("Is") }
func (e *trapError) Unwrap() error              { e.trap("Unwrap"); return nil }
func (e *trapError) RetryAt() time.Time         { e.trap("RetryAt"); return time.Time{} }
func (e *trapError) RetryWithin() time.Duration { e.trap("RetryWithin"); return 0 }

// trapErrors are errors that panic when they are looked at.
func trapErrors() map[string]error {
	errs := map[string]error{"nil pointer": (*trapError)(nil)}
	for _, method := range []string{"Error", "Is", "Unwrap", "RetryAt", "RetryWithin"} {
		errs[method] = &trapError{method}
		if method != "Error" { // fmt would take the panic
			errs["wrapped "+method] = fmt.Errorf("x: %w", &trapError{method})
		}
	}
	return errs
}

// L8, I22: an error that panics when it is looked at is a panic of the call that returned it: it harms that pod only, and
// is retried. The same for errors of the journal and of the views.
func TestErrorThatPanicsHarmsOnePod(t *testing.T) {
	for name, bad := range trapErrors() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l, events log
				syncer := logging(&l)
				syncer.Sync = func(ctx context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
					l.add("setup %s", pod.UID)
					if pod.UID == "bad" {
						return podworkers.SyncResult{}, bad
					}
					if pod.UID == "cancelled" {
						<-ctx.Done()
						return podworkers.SyncResult{}, bad
					}
					return podworkers.SyncResult{}, nil
				}
				w := podworkers.New(syncer, podworkers.Options{Events: &events, Rand: func() float64 { return 0 }})
				run(t, w)
				w.UpdatePod(create(newPod("bad")))
				expect(t, &l, "setup bad")
				expect(t, &events, "Warning SyncPanic bad")
				w.UpdatePod(create(newPod("good")))
				w.UpdatePod(create(newPod("cancelled")))
				pass(1500 * time.Millisecond)
				l.take()
				if e, _ := w.Explain("bad"); e.Failures != 2 || e.LastError == "" {
					t.Errorf("Explain: %+v", e)
				}
				w.UpdatePod(kill(newPod("cancelled"), podworkers.KillOptions{}))
				expect(t, &l, "terminating cancelled 30", "terminated cancelled")
			})
		})
		t.Run("journal, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l log
				j := &journal{log: &log{}}
				j.fail(bad)
				w := podworkers.New(logging(&l), podworkers.Options{Journal: j})
				run(t, w)
				w.UpdatePod(create(newPod("a")))
				expect(t, &l)
				j.fail(nil)
				pass(2 * time.Second)
				expect(t, &l, "setup a sync")
			})
		})
		t.Run("view, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l log
				views := newFakeViews()
				views.relist()
				views.fail(bad)
				w := podworkers.New(logging(&l), podworkers.Options{Views: views})
				run(t, w)
				w.UpdatePod(create(newPod("a")))
				expect(t, &l)
				views.fail(nil)
				pass(2 * time.Second)
				expect(t, &l, "setup a sync")
			})
		})
	}
}

// trapViews panics in one of its methods until it is released.
type trapViews struct {
	peekViews
	method string
}

func (v *trapViews) trap(method string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.method == method {
		panic(method)
	}
}

func (v *trapViews) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.method = ""
}

func (v *trapViews) Refresh(uid types.UID) { v.trap("Refresh"); v.peekViews.Refresh(uid) }

func (v *trapViews) Peek(uid types.UID) (*runtime.PodStatus, error) {
	v.trap("Peek")
	return v.peekViews.Peek(uid)
}

func (v *trapViews) RunningAs(namespace, name string) []*runtime.Pod {
	v.trap("RunningAs")
	return v.peekViews.RunningAs(namespace, name)
}

// L8, N6: a look at the runtime that panics ends no process and strands no static pod: nothing is decided, and the look is
// repeated after a second.
func TestLookThatPanicsIsRepeated(t *testing.T) {
	for _, method := range []string{"Peek", "RunningAs", "SourcesReady", "KillOrphan", "Spared"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l log
				v := &trapViews{peekViews: peekViews{newFakeViews()}, method: method}
				v.relist()
				other := method == "KillOrphan" || method == "Spared"
				if other {
					v.running = []*runtime.Pod{{UID: "former", Name: "web", Namespace: "default"}}
				}
				w := podworkers.New(logging(&l), podworkers.Options{
					Views:        v,
					SourcesReady: func() bool { v.trap("SourcesReady"); return true },
					KillOrphan:   func(*runtime.Pod) podworkers.UpdateOptions { v.trap("KillOrphan"); return podworkers.UpdateOptions{} },
					Spared:       func(types.UID, *v1.Pod) bool { v.trap("Spared"); return false },
				})
				w.UpdatePod(create(newStatic("a", "web")))
				w.UpdatePod(create(newStatic("b", "other")))
				w.UpdatePod(kill(newStatic("b", "other"), podworkers.KillOptions{}))
				run(t, w)
				pass(5 * time.Second)
				if got := l.take(); !other && len(got) != 0 || len(got) != 0 && got[0] == "setup a create" {
					t.Errorf("decided without a look: %q", got)
				}
				if e, _ := w.Explain("a"); e.State.Finished() || e.NextWakeUp.IsZero() {
					t.Errorf("Explain: %+v", e)
				}
				v.release()
				v.mu.Lock()
				v.running = nil
				v.mu.Unlock()
				pass(1500 * time.Millisecond)
				expect(t, &l, "setup a create")
				if e, _ := w.Explain("b"); !e.State.Finished() {
					t.Errorf("Explain: %+v", e)
				}
			})
		})
	}
}

// badMeter makes histograms that panic.
type badMeter struct{ noop.Meter }

func (badMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return badHistogram{}, nil
}

type badHistogram struct{ noop.Float64Histogram }

func (badHistogram) Record(context.Context, float64, ...metric.RecordOption) { panic("Record") }

// badEvents panics.
type badEvents struct{}

func (badEvents) Eventf(apiruntime.Object, string, string, string, ...any) { panic("Eventf") }

// L8: events, metrics, refreshes and quick looks that panic change no pod's life.
func TestToolThatPanicsChangesNothing(t *testing.T) {
	for name, options := range map[string]podworkers.Options{
		"events":  {Events: badEvents{}},
		"metrics": {Meter: badMeter{}},
		"refresh": {Views: &trapViews{method: "Refresh"}},
		"peek":    {Views: &trapViews{method: "Peek"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l log
				views, _ := options.Views.(*trapViews)
				if views != nil {
					views.peekViews = peekViews{newFakeViews()}
					go func() {
						for range 20 {
							pass(time.Second)
							views.relist()
						}
					}()
				}
				fail := errTest
				syncer := logging(&l)
				syncer.Sync = func(context.Context, podworkers.UpdateType, *v1.Pod, *v1.Pod, *runtime.PodStatus) (podworkers.SyncResult, error) {
					l.add("setup")
					if fail != nil {
						fail = nil
						panic("boom") // an event
					}
					return podworkers.SyncResult{Acted: true}, nil
				}
				w := podworkers.New(syncer, options)
				run(t, w)
				w.UpdatePod(create(newPod("a")))
				pass(5 * time.Second)
				expect(t, &l, "setup", "setup")
				ended := newPod("a")
				ended.Status.Phase = v1.PodFailed
				w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: ended})
				pass(5 * time.Second)
				expect(t, &l, "terminating a 30", "terminated a")
				w.UpdatePod(create(&v1.Pod{ObjectMeta: *ended.ObjectMeta.DeepCopy(), Spec: ended.Spec}))
				pass(20 * time.Second)
			})
		})
	}
}

// silentViews have nothing to say when they are peeked at.
type silentViews struct{ peekViews }

func (silentViews) Peek(types.UID) (*runtime.PodStatus, error) {
	return nil, nil //nolint:nilnil // the bad answer
}

// L8: a look that returns neither a view nor an error is none, so the pod waits for a view.
func TestPeekWithoutAnswerIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		v := silentViews{peekViews{newFakeViews()}}
		w := podworkers.New(logging(&l), podworkers.Options{Views: v})
		run(t, w)
		ended := newPod("a")
		ended.Status.Phase = v1.PodSucceeded
		w.UpdatePod(create(ended))
		for range 3 {
			synctest.Wait()
			v.relist()
		}
		pass(time.Minute)
		if e, _ := w.Explain("a"); !e.State.Finished() {
			t.Errorf("Explain: %+v", e)
		}
	})
}
