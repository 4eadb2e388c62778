package pods_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// numbered is a pod of its own.
func numbered(name string, change ...func(*v1.Pod)) *v1.Pod {
	return newPod(append([]func(*v1.Pod){func(p *v1.Pod) { p.Name, p.UID = name, types.UID("uid-"+name) }}, change...)...)
}

// startAll syncs pods at the same time, asked for in this order.
func startAll(w *world, ctx context.Context, list ...*v1.Pod) (done chan pods.Result) {
	done = make(chan pods.Result, len(list))
	for _, pod := range list {
		status := w.read(pod)
		go func() { done <- w.m.SyncPod(ctx, pod, status) }()
		synctest.Wait()
		pass(1) // pods whose starts begin together have no order
	}
	synctest.Wait()
	return done
}

// TestRuntimeWorkIsLimited: spec/runtime.md 24.1, 24.2. Sandboxes and containers are made a
// few at a time, and the first pods run while the last ones wait.
func TestRuntimeWorkIsLimited(t *testing.T) {
	for _, tc := range []struct{ option, want int }{{0, max(4, 2*goruntime.GOMAXPROCS(0))}, {3, 3}, {-1, 40}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil, func(o *pods.Options) { o.MaxRuntimeWork = tc.option })
			for _, m := range []fake.Method{fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer} {
				w.fake.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: fake.Effect{Delay: 100 * time.Millisecond}})
			}
			var list []*v1.Pod
			for i := range 40 {
				list = append(list, numbered(fmt.Sprint(i)))
			}
			done := startAll(w, t.Context(), list...)
			if now, _ := w.fake.InFlight(); now != tc.want {
				t.Errorf("24.1: %d calls at a time, want %d", now, tc.want)
			}
			pass(300 * time.Millisecond)
			synctest.Wait()
			if n := w.fake.CallCount(fake.StartContainer); n < tc.want {
				t.Errorf("24.2: %d containers were started in the time that one pod needs, want %d", n, tc.want)
			}
			for range list {
				if r := <-done; r.Err != nil {
					t.Error(r.Err)
				}
			}
			if most := mostWork(w.fake); most != tc.want {
				t.Errorf("24.1: at most %d calls at a time, want %d", most, tc.want)
			}
			if left := w.m.Work(); len(left) != 0 {
				t.Errorf("24.6: left: %v", left)
			}
		})
	}
}

// TestRestartsAndCriticalPodsGoFirst: spec/runtime.md 24.2.
func TestRestartsAndCriticalPodsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(o *pods.Options) { o.MaxRuntimeWork = 1 })
		web := numbered("web")
		w.syncAll(web)
		if err := w.fake.Exit(web.UID, "app", fake.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		w.fake.Inject(fake.Fault{Effect: fake.Effect{Delay: second}, Match: fake.Match{Method: fake.RunPodSandbox}})
		critical := numbered("critical", func(p *v1.Pod) { p.Spec.Priority = ptr.To(int32(2_000_000_000)) })
		began := len(w.fake.Calls(fake.Match{}))
		done := startAll(w, t.Context(), numbered("a"), numbered("b"), numbered("c"), web, critical)
		for range 5 {
			if r := <-done; r.Err != nil {
				t.Error(r.Err)
			}
		}
		var sandboxes, starts []string
		for _, c := range w.fake.Calls(fake.Match{})[began:] {
			name := strings.TrimPrefix(string(c.PodUID), "uid-")
			switch c.Method {
			case fake.RunPodSandbox:
				sandboxes = append(sandboxes, name)
			case fake.StartContainer:
				starts = append(starts, name)
			}
		}
		if got := strings.Join(sandboxes, " "); got != "a critical b c" {
			t.Errorf("24.2: sandboxes were made in the order %s", got)
		}
		if starts[0] != "web" {
			t.Errorf("24.2: containers were started in the order %v", starts)
		}
	})
}

// mostWork is the largest number of limited calls that were under way at a time.
func mostWork(f *fake.Runtime) (most int) {
	var work []fake.Call
	for _, c := range f.Calls(fake.Match{}) {
		switch c.Method {
		case fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer:
			work = append(work, c)
		}
	}
	for _, at := range work {
		n := 0
		for _, c := range work {
			if !c.Start.After(at.Start) && c.End.After(at.Start) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestHungWorkDelaysOnlyItsPod: spec/runtime.md 24.3 to 24.6. However many pods hang, and in
// whichever call, another pod starts within 4 s and is told nothing of them, and what hangs
// is reported by name and time.
func TestHungWorkDelaysOnlyItsPod(t *testing.T) {
	for _, method := range []fake.Method{fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer} {
		for _, hung := range []int{9, 99} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, func(o *pods.Options) { o.MaxRuntimeWork = 4 })
				w.fake.Inject(fake.Fault{
					Match:  fake.Match{Method: method, Func: func(c fake.Call) bool { return strings.HasPrefix(string(c.PodUID), "uid-hung") }},
					Effect: fake.Effect{Hang: true},
				})
				var list []*v1.Pod
				for i := range hung {
					list = append(list, numbered(fmt.Sprint("hung-", i)))
				}
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				bad := startAll(w, ctx, list...)
				if r := <-startAll(w, t.Context(), numbered("good")); r.Err != nil || time.Since(began) > 4*second {
					t.Errorf("%s hangs for %d pods: the good one took %v, %v", method, hung, time.Since(began), r.Err)
				}
				pass(20 * second)
				again := time.Now()
				if r := <-startAll(w, t.Context(), numbered("late")); r.Err != nil || time.Since(again) > second {
					t.Errorf("%s hangs for %d pods: a good one that came later took %v, %v", method, hung, time.Since(again), r.Err)
				}
				work := w.m.Work()
				if len(work) != hung {
					t.Fatalf("24.6: %d calls are told, %d hang", len(work), hung)
				}
				for _, call := range work {
					if call.Waiting || !call.Late || call.Call != string(method) || time.Since(call.Since) < 16*second {
						t.Errorf("24.6: %+v", call)
					}
				}
				cancel()
				for range hung {
					<-bad
				}
			})
		}
	}
}

// TestWaitingStartLeavesWithItsContext: spec/runtime.md 24.1. A pod that has to end does
// not wait for its turn to start, and what waits is reported.
func TestWaitingStartLeavesWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, func(o *pods.Options) { o.MaxRuntimeWork = 1 })
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox}, Effect: fake.Effect{Delay: 2 * second}})
		first := startAll(w, t.Context(), numbered("first"))
		ctx, cancel := context.WithCancel(t.Context())
		second := startAll(w, ctx, numbered("second"))
		work := w.m.Work()
		if len(work) != 2 || work[0].Waiting || !work[1].Waiting || work[1].Pod != "uid-second" {
			t.Errorf("24.6: %+v", work)
		}
		since := work[1].Since.UTC().Format(time.RFC3339)
		if got := work[1].String(); got != "RunPodSandbox waits for its turn since "+since {
			t.Errorf("24.6: %s", got)
		}
		cancel()
		synctest.Wait()
		select {
		case <-second:
		default:
			t.Error("24.1: the sync goes on after its context ended")
		}
		if r := <-first; r.Err != nil {
			t.Error(r.Err)
		}
		if n := w.fake.CallCount(fake.RunPodSandbox); n != 1 {
			t.Errorf("%d sandboxes were asked for", n)
		}
	})
}

// TestHungPullDelaysOnlyItsImage: spec/runtime.md 9.4. Pulls that never end keep no other
// pull and no start.
func TestHungPullDelaysOnlyItsImage(t *testing.T) {
	for _, limit := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOn(t, fake.Options{Registry: func(ref string, _ *runtimeapi.AuthConfig) fake.Pull {
				if strings.Contains(ref, "/hung-") {
					return fake.Pull{Took: 1000 * time.Hour}
				}
				return fake.Pull{}
			}}, func(o *pods.Options) { o.MaxParallelImagePulls = limit })
			present := numbered("present")
			withImages(w, present)
			ctx, cancel := context.WithCancel(t.Context())
			var list []*v1.Pod
			for i := range 40 {
				list = append(list, numbered(fmt.Sprint("hung-", i), func(p *v1.Pod) { p.Spec.Containers[0].Image = fmt.Sprintf("example.com/hung-%d:1", i) }))
			}
			bad := startAll(w, ctx, list...)
			began := time.Now()
			if r := <-startAll(w, t.Context(), present); r.Err != nil || time.Since(began) > 3*second {
				t.Errorf("limit %d: a pod whose image is present took %v, %v", limit, time.Since(began), r.Err)
			}
			quick := numbered("quick", func(p *v1.Pod) { p.Spec.Containers[0].Image = "example.com/quick:1" })
			began = time.Now()
			most := 3 * second
			if limit > 0 {
				most = time.Duration(40/limit) * 10 * second // the price of a limit
			}
			if r := <-startAll(w, t.Context(), quick); r.Err != nil || time.Since(began) > most {
				t.Errorf("limit %d: a pod whose pull is quick took %v, %v", limit, time.Since(began), r.Err)
			}
			cancel()
			for range list {
				<-bad
			}
		})
	}
}

// TestLongWaitForATurnIsAProblem: IN2, 24.6. Where calls and pulls take long, those whose turn has not
// come for a minute, or two, are listed by name, but no longer once their turn has come.
func TestLongWaitForATurnIsAProblem(t *testing.T) {
	for _, tc := range []struct {
		method fake.Method
		kind   problem.Kind
		name   string
		takes  time.Duration
		limit  time.Duration
	}{
		{fake.RunPodSandbox, problem.Pod, "default/59", 1500 * time.Millisecond, time.Minute},
		{fake.PullImage, problem.RuntimeCall, "registry.example/59:1", 9 * time.Second, 2 * time.Minute},
	} {
		t.Run(string(tc.method), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, func(o *pods.Options) { o.MaxRuntimeWork, o.MaxParallelImagePulls = 1, 1 })
				w.fake.Inject(fake.Fault{Match: fake.Match{Method: tc.method}, Effect: fake.Effect{Delay: tc.takes}})
				var list []*v1.Pod
				for i := range 60 {
					list = append(list, numbered(fmt.Sprint(i), func(p *v1.Pod) { p.Spec.Containers[0].Image = fmt.Sprintf("registry.example/%d:1", i) }))
				}
				began := time.Now()
				done := startAll(w, t.Context(), list...)
				pass(tc.limit - 10*time.Millisecond)
				if early := w.m.Problems(); early != nil {
					t.Errorf("after %v: %v", time.Since(began), early)
				}
				pass(20 * time.Millisecond)
				now := w.m.Problems()
				if len(now) == 0 {
					t.Fatalf("after %v: none", time.Since(began))
				}
				last := now[len(now)-1]
				if last.Kind != tc.kind || last.Name != tc.name || time.Since(last.Since) < tc.limit || last.Since.Before(began) || last.Waits == "" || last.Advice == "" {
					t.Errorf("%+v", last)
				}
				for range list {
					if r := <-done; r.Err != nil {
						t.Error(r.Err)
					}
				}
				if left := w.m.Problems(); left != nil {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}
