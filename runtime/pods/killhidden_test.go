package pods_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// spec/runtime.md 16.4, 16.7, spec/pleg.md R7: an orphan that a list lacks in part or altogether is stopped as one that it
// shows: with its hook, and the sidecar last.
func TestOrphanThatListsLackIsKilledInOrder(t *testing.T) {
	for name, hidden := range map[string][]fake.Method{
		"nothing":    nil,
		"containers": {fake.ListContainers},
		"sandboxes":  {fake.ListPodSandbox},
		"everything": {fake.ListContainers, fake.ListPodSandbox},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hooks []string
				w := hookWorld(t, &hooks)
				pod := newPod(func(p *v1.Pod) {
					p.Spec.InitContainers = []v1.Container{sidecar("side")}
					p.Spec.Containers[0].Lifecycle = preStop(v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"good", "bye"}}})
				})
				w.syncAll(pod)
				pass(2 * second)
				w.syncAll(pod)
				orphan := w.hiddenOrphan(hidden)
				if err := w.m.KillRuntimePod(t.Context(), orphan, ptr.To[int64](25)); err != nil {
					t.Error(err)
				}
				if got := w.stops(); !slices.Equal(got, []string{"app 25", "side 24"}) {
					t.Errorf("stops %v", got)
				}
				if !slices.Equal(hooks, []string{"good bye"}) {
					t.Errorf("hooks %v", hooks)
				}
			})
		})
	}
}

// hiddenOrphan returns the only running pod as PLEG knows it while these lists are empty.
func (w *world) hiddenOrphan(hidden []fake.Method) *runtime.Pod {
	w.t.Helper()
	g, err := pleg.New(w.fake, pleg.Options{OwnerID: w.opts.OwnerID})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	synctest.Wait()
	for _, m := range hidden {
		none := fake.Effect{Keep: func(string) bool { return false }}
		defer w.fake.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: none})()
	}
	running, err := g.ListRunning(ctx)
	if err != nil || len(running) != 1 {
		w.t.Fatal(running, err)
	}
	cancel()
	if err := <-ended; err != nil {
		w.t.Error(err)
	}
	return running[0]
}

// V8, spec/pleg.md R15: KillListed stops what runs and the list lacks, but not what only a record names: that was not read yet, so
// it may be another pod's.
func TestKillListedStopsWhatListsLack(t *testing.T) {
	for _, read := range []bool{true, false} {
		t.Run(fmt.Sprint("read ", read), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hidden []*runtime.Pod
				w := newWorld(t, nil, func(o *pods.Options) {
					o.Hidden = func(listed []*runtime.Pod) []*runtime.Pod { return append(listed, hidden...) }
				})
				pod := newPod()
				w.syncAll(pod)
				lacked := &runtime.Pod{UID: pod.UID}
				for _, c := range w.read(pod).Containers {
					name := ""
					if read {
						name = c.Name
					}
					lacked.Containers = append(lacked.Containers, &runtime.Container{ID: c.ID, Name: name, State: runtime.Running})
				}
				hidden = []*runtime.Pod{{UID: "other"}, lacked}
				for _, m := range []fake.Method{fake.ListContainers, fake.ListPodSandbox} {
					none := fake.Effect{Keep: func(string) bool { return false }}
					defer w.fake.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: none})()
				}
				err := w.m.KillListed(t.Context(), pod, ptr.To[int64](25))
				if stops := w.stops(); read != (err == nil) || read != slices.Equal(stops, []string{"app 25"}) {
					t.Errorf("stops %v, %v", stops, err)
				}
			})
		})
	}
}

// V8, spec/pleg.md B3: a runtime that takes long for each list is asked for both before it is given up. One that never answers is
// given up after 30 s, so that the next try may find it well.
func TestKillListedWaitsForEachList(t *testing.T) {
	for name, c := range map[string]struct {
		lists fake.Effect
		took  time.Duration
		stops []string
	}{
		"slow lists": {fake.Effect{Delay: 20 * time.Second}, 40 * time.Second, []string{"app 25"}},
		"no answer":  {fake.Effect{Hang: true}, 30 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				pod := newPod()
				w.syncAll(pod)
				for _, m := range []fake.Method{fake.ListContainers, fake.ListPodSandbox} {
					defer w.fake.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: c.lists})()
				}
				began := time.Now()
				err := w.m.KillListed(t.Context(), pod, ptr.To[int64](25))
				if took := time.Since(began); (err == nil) != (c.stops != nil) || !slices.Equal(w.stops(), c.stops) || took < c.took || took > c.took+5*time.Second {
					t.Errorf("stops %v after %v, %v", w.stops(), took, err)
				}
			})
		})
	}
}
