package pods_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// Whatever single call of a pod's life fails, in whatever way, the pod comes up
// all the same, nothing of it is made or started twice, and it goes away without
// leaving anything behind.
func TestFaultAtEveryCall(t *testing.T) {
	effects := []struct {
		name string
		fake.Effect
	}{
		{"error before the effect", fake.Effect{Err: runtime.ErrUnavailable}},
		{"error after the effect", fake.Effect{Err: runtime.ErrUnavailable, Done: true}},
		{"unknown error, after the effect", fake.Effect{Err: errors.New("internal error"), Done: true}},
		{"deadline before the effect", fake.Effect{Err: runtime.ErrDeadline}},
		{"deadline after the effect", fake.Effect{Err: runtime.ErrDeadline, Done: true}},
		{"given up before the effect", fake.Effect{Hang: true}},
		{"given up, effect later", fake.Effect{Hang: true, Done: true, Late: 2 * second}},
	}
	n, dir := 0, t.TempDir()
	for _, v := range lives() {
		for _, e := range effects {
			if testing.Short() && v.name != "1 container" {
				continue
			}
			t.Run(v.name+"/"+e.name, func(t *testing.T) {
				for index, hit := 1, true; hit; index++ {
					synctest.Test(t, func(t *testing.T) { hit = v.faultAt(t, dir, e.Effect, index) })
					if n++; t.Failed() {
						t.Fatalf("with call %d broken", index)
					}
				}
			})
		}
	}
	t.Logf("%d lives", n)
}

// life is a pod whose calls are broken one by one.
type life struct {
	name string
	pod  func(*v1.Pod)
	// again is true if a failed call may make a container start again: one whose
	// postStart hook failed.
	again bool
}

func lives() []life {
	apps := func(n int) func(*v1.Pod) {
		return func(p *v1.Pod) {
			for i := 1; i < n; i++ {
				p.Spec.Containers = append(p.Spec.Containers, container(fmt.Sprint("app", i)))
			}
		}
	}
	return []life{
		{name: "1 container", pod: apps(1)},
		{name: "2 containers", pod: apps(2)},
		{name: "3 containers", pod: apps(3)},
		{name: "init", pod: func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{container("init0")} }},
		{name: "sidecar", pod: func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{sidecar("side")} }},
		{name: "sidecar and init, 2 containers", pod: func(p *v1.Pod) {
			apps(2)(p)
			p.Spec.InitContainers = []v1.Container{sidecar("side"), container("init0")}
		}},
		{name: "hooks", again: true, pod: func(p *v1.Pod) {
			run := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: run, PreStop: run}
		}},
	}
}

// faultAt lives the pod's life with one call broken and reports whether there was
// such a call.
func (v life) faultAt(t *testing.T, dir string, effect fake.Effect, index int) (hit bool) {
	w := newWorld(t, func(l fake.Launch) fake.Script {
		if l.Container == "init0" {
			return fake.Script{Exit: &fake.Exit{After: second}}
		}
		return fake.Script{OnTERM: fake.Exit{After: second}}
	}, func(o *pods.Options) { o.RootDir, o.LogDir, o.MaxParallelImagePulls = dir, dir, -1 })
	pod := newPod(v.pod, func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5) })
	var calls atomic.Int64 // stops are issued side by side
	var engine atomic.Bool
	w.fake.Inject(fake.Fault{
		Match: fake.Match{Func: func(fake.Call) bool {
			return engine.Load() && calls.Add(1) == int64(index)
		}},
		Times: 1, Effect: effect,
	})
	// try lets the engine do something; the harness's own calls are not broken.
	try := func(do func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*second)
		defer cancel()
		engine.Store(true)
		defer engine.Store(false)
		return do(ctx)
	}
	for range 8 {
		status := w.read(pod)
		_ = try(func(ctx context.Context) error { return w.m.SyncPod(ctx, pod, status).Err })
		pass(15 * second)
	}
	v.checkUp(w, pod)
	for range 3 {
		status := w.read(pod)
		if try(func(ctx context.Context) error { return w.m.KillPod(ctx, pod, status, nil) }) == nil {
			break
		}
	}
	pass(5 * second)
	for range 3 {
		if try(func(ctx context.Context) error { return w.m.RemovePod(ctx, pod.UID) }) == nil {
			break
		}
	}
	pass(5 * second)
	if status := w.read(pod); len(status.Sandboxes)+len(status.Containers) != 0 {
		t.Errorf("left behind: %d sandboxes, %d containers", len(status.Sandboxes), len(status.Containers))
	}
	if err := w.fake.Doubled(); err != nil {
		t.Error(err)
	}
	if n := calls.Load(); n > 100 {
		t.Errorf("%d calls: something goes round in circles", n)
	}
	return int(calls.Load()) >= index
}

// checkUp wants the pod up, at rest, and made once.
func (v life) checkUp(w *world, pod *v1.Pod) {
	w.t.Helper()
	status := w.read(pod)
	if len(status.Sandboxes) != 1 || status.Sandboxes[0].State != runtime.Running {
		w.t.Errorf("%d sandboxes, the latest %v", len(status.Sandboxes), status.Sandboxes[0].State)
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		want, records, facts := runtime.Running, 0, w.fake.Facts(pod.UID, c.Name)
		if c.Name == "init0" {
			want = runtime.Exited
		}
		if r := status.Container(c.Name); r == nil || r.State != want {
			w.t.Errorf("state %s", w.state(pod))
		}
		for _, r := range status.Containers {
			if r.Name == c.Name {
				records++
			}
		}
		if !v.again && (facts.Started != 1 || records != 1) {
			w.t.Errorf("container %s was started %d times and has %d records", c.Name, facts.Started, records)
		}
	}
	if r := w.sync(pod); r.Acted || r.Err != nil {
		w.t.Errorf("not at rest: %+v", r)
	}
}
