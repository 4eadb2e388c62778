package reflection

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withPauses reports whether requests of so long were made with the longest pause and up to a fifth.
func withPauses(n int64, of time.Duration) bool {
	return n >= int64(of/(pauseMax+pauseMax/5)) && n <= int64(of/pauseMax)+10
}

// TestFailuresBackOff: an API server that refuses for a day is asked with pauses of up to
// 36 s, every failure is told, and the store is filled once it answers.
func TestFailuresBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		var away atomic.Bool
		var asked, failures atomic.Int64
		away.Store(true)
		r := Reflection{
			Name: "nodes", Example: &v1.Node{}, Store: store, Clock: clock.RealClock{},
			List: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) {
				if asked.Add(1); away.Load() {
					return nil, errors.New("connection refused")
				}
				return &v1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}, nil
			},
			Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				if away.Load() {
					return nil, errors.New("connection refused")
				}
				return watch.NewFake(), nil
			},
			Failed: func(error) { failures.Add(1) },
			Client: unstreamed{},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		<-time.After(24 * time.Hour)
		synctest.Wait()
		if !withPauses(asked.Load(), 24*time.Hour) || failures.Load() != asked.Load() {
			t.Errorf("asked %d times in a day, %d failures", asked.Load(), failures.Load())
		}
		away.Store(false)
		<-time.After(pauseMax + pauseMax/5)
		synctest.Wait()
		if len(store.ListKeys()) != 1 {
			t.Error("the store is empty")
		}
		cancel()
		<-done
	})
}

// TestNodesReturnApart: 100 nodes that lose their API server at the same moment do not ask for it at the
// same moments, whatever is refused, or however long it asks them to wait.
func TestNodesReturnApart(t *testing.T) {
	for name, refused := range map[string]error{
		"no connection": errors.New("connection refused"), "busy": apierrors.NewTooManyRequests("busy", 10),
	} {
		for _, what := range []string{"list", "watch"} {
			t.Run(name+" "+what, func(t *testing.T) { returnApart(t, refused, what) })
		}
	}
}

func returnApart(t *testing.T, refused error, what string) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		slots, asked := map[time.Duration]int{}, 0
		began := time.Now()
		request := func(kind string) error {
			mu.Lock()
			defer mu.Unlock()
			slots[time.Since(began)/(100*time.Millisecond)]++
			asked++
			if kind == what {
				return refused
			}
			return nil
		}
		for i := range 100 {
			defer running(t, Reflection{
				Name: fmt.Sprint("pods of edge-", i), Example: &v1.Pod{}, Store: cache.NewStore(cache.MetaNamespaceKeyFunc),
				Clock: clock.RealClock{}, Client: unstreamed{},
				List: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) {
					return &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, request("list")
				},
				Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					return watch.NewFake(), request("watch")
				},
			})()
		}
		<-time.After(2 * time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if len(slots) < asked/4 {
			t.Errorf("%d requests in 2 h fall into %d slots of 100 ms", asked, len(slots))
		}
	})
}

// TestShortWatchesBackOff: an API server, or a proxy, that ends every watch after one
// event is asked with pauses too, and no event is lost.
func TestShortWatchesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		var lists, watches int
		r := Reflection{
			Name: "nodes", Example: &v1.Node{}, Store: store, Clock: clock.RealClock{},
			List: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) {
				lists++
				return &v1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
			},
			Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				watches++
				w := watch.NewFakeWithChanSize(1, false)
				w.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(watches), ResourceVersion: "2"}})
				w.Stop()
				return w, nil
			},
			Client: unstreamed{},
		}
		stop := running(t, r)
		<-time.After(24 * time.Hour)
		stop()
		if !withPauses(int64(watches), 24*time.Hour) || lists > watches {
			t.Errorf("%d watches and %d lists in a day", watches, lists)
		}
		if n := len(store.ListKeys()); n != watches {
			t.Errorf("%d objects of %d events", n, watches)
		}
	})
}

// TestSteadyWatchBeginsAgainAtOnce: what ends after a good while, as API servers end
// watches, costs no pause.
func TestSteadyWatchBeginsAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begins []time.Time
		var open *watch.FakeWatcher
		r := Reflection{
			Name: "nodes", Example: &v1.Node{}, Store: cache.NewStore(cache.MetaNamespaceKeyFunc), Clock: clock.RealClock{},
			List: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) {
				return &v1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
			},
			Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				begins = append(begins, time.Now())
				open = watch.NewFake()
				return open, nil
			},
			Client: unstreamed{},
		}
		began := time.Now()
		stop := running(t, r)
		defer stop()
		for range 3 {
			<-time.After(5 * time.Minute)
			synctest.Wait()
			open.Stop()
			synctest.Wait()
		}
		if len(begins) != 4 || begins[3].Sub(began) != 15*time.Minute {
			t.Errorf("watches began at %v, want one every 5 min", begins)
		}
	})
}

// TestUnansweredRequests: a request that is not answered is given up, told as a failure,
// and made again. Until then nothing is.
func TestUnansweredRequests(t *testing.T) {
	for _, hanging := range []string{"list", "watch"} {
		t.Run(hanging, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := cache.NewStore(cache.MetaNamespaceKeyFunc)
				var lists, watches, ended, failures atomic.Int64
				hang := func(ctx context.Context) error {
					<-ctx.Done()
					ended.Add(1)
					return ctx.Err()
				}
				r := Reflection{
					Name: "nodes", Example: &v1.Node{}, Store: store, Clock: clock.RealClock{},
					List: func(ctx context.Context, _ metav1.ListOptions) (apiruntime.Object, error) {
						if lists.Add(1) == 1 && hanging == "list" {
							return nil, hang(ctx)
						}
						return &v1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
					},
					Watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
						if watches.Add(1) == 1 && hanging == "watch" {
							return nil, hang(ctx)
						}
						w := watch.NewFakeWithChanSize(1, false)
						w.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "2"}})
						context.AfterFunc(ctx, w.Stop)
						return w, nil
					},
					Failed: func(err error) {
						failures.Add(1)
						if !strings.Contains(err.Error(), "no answer") {
							t.Errorf("failure %v", err)
						}
					},
					Client: unstreamed{},
				}
				stop := running(t, r)
				<-time.After(answerLimit - time.Second)
				synctest.Wait()
				if ended.Load() != 0 {
					t.Error("given up too early")
				}
				<-time.After(10 * time.Second)
				synctest.Wait()
				if ended.Load() != 1 || failures.Load() != 1 || len(store.ListKeys()) != 1 {
					t.Errorf("%d given up, %d failures, store %v", ended.Load(), failures.Load(), store.ListKeys())
				}
				// The watch that was answered lives on beyond the limit.
				<-time.After(10 * answerLimit)
				synctest.Wait()
				if want := map[string]int64{"list": 1, "watch": 2}[hanging]; watches.Load() != want {
					t.Errorf("%d watches, want %d", watches.Load(), want)
				}
				stop()
			})
		})
	}
}

// TestRefusedListEndsItsWatch: a store that refuses what was streamed leaves no watch open.
func TestRefusedListEndsItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened, open, most atomic.Int64
		r := Reflection{
			Name: "nodes", Example: &v1.Node{}, Store: refusing{cache.NewStore(cache.MetaNamespaceKeyFunc)}, Clock: clock.RealClock{},
			List: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) {
				return &v1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
			},
			Watch: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
				w := watch.NewFakeWithChanSize(1, false)
				w.Action(watch.Bookmark, &v1.Node{ObjectMeta: metav1.ObjectMeta{
					ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
				}})
				opened.Add(1)
				most.Store(max(most.Load(), open.Add(1)))
				context.AfterFunc(ctx, func() { open.Add(-1) })
				return w, nil
			},
			Client: struct{}{},
		}
		stop := running(t, r)
		<-time.After(time.Hour)
		synctest.Wait()
		if opened.Load() < 100 || most.Load() != 1 || open.Load() != 0 {
			t.Errorf("%d watches, %d at a time, %d open", opened.Load(), most.Load(), open.Load())
		}
		stop()
	})
}

// refusing is a store that takes no list.
type refusing struct{ cache.Store }

func (refusing) Replace([]any, string) error { return errors.New("too old") }

// running runs a reflection until the function that it returns is called.
func running(t *testing.T, r Reflection) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	return func() { cancel(); <-done }
}

// unstreamed is a client that cannot stream lists.
type unstreamed struct{}

// IsWatchListSemanticsUnSupported is how client-go asks.
func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }
