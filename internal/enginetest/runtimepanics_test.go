package enginetest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
)

// panics makes the calls that match panic, as a client with a bug does.
func panics(rt *fake.Runtime, m fake.Match) (end func()) {
	also := m.Func
	m.Func = func(c fake.Call) bool {
		if also == nil || also(c) {
			panic("no such client")
		}
		return false
	}
	return rt.Inject(fake.Fault{Match: m})
}

// TestPanicOfTheRuntimeHarmsOnlyItsPod: IN6, L8. A method of the program's own runtime panics for one pod. Twenty others run, and
// half of them end, beside it; the problem names the method and the pod, and the stack is in the log, hardly more than once. When
// the runtime is well the pod goes on.
func TestPanicOfTheRuntimeHarmsOnlyItsPod(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method fake.Method
		match  fake.Match
		bad    *v1.Pod
		starts bool // the bad pod is there from the start
	}{
		{fake.StopContainer, fake.Match{PodUID: "uid-bad"}, newPod("bad"), true},
		{fake.StopPodSandbox, fake.Match{PodUID: "uid-bad"}, newPod("bad"), true},
		{fake.RemovePodSandbox, fake.Match{PodUID: "uid-bad"}, newPod("bad"), true},
		{fake.RemoveContainer, fake.Match{PodUID: "uid-bad"}, newPod("bad", "crash"), true},
		{fake.ExecSync, fake.Match{PodUID: "uid-bad"}, withPreStop(newPod("bad")), true},
		{fake.PullImage, fake.Match{Func: pulls("bad:1")}, withImage(newPod("bad"), "bad:1"), false},
	} {
		t.Run(string(tc.method), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rt, log := byContainer(map[string]fake.Script{"crash": {Exit: &fake.Exit{After: time.Second, Code: 1}}}), &lines{}
				r := newRig(t, rt, t.TempDir(), log.configure).start()
				var good []*v1.Pod
				for i := range 20 {
					good = append(good, newPod(fmt.Sprintf("web-%d", i)))
				}
				if tc.starts {
					r.set(append(slices.Clone(good), tc.bad)...)
					r.within(5*time.Second, "the bad pod runs", func() error { return ran(rt, tc.bad.UID) })
				} else {
					r.set(good...)
				}
				for _, p := range good {
					r.phase(p.UID, v1.PodRunning, 5*time.Second)
				}
				tc.match.Method = tc.method
				end := panics(rt, tc.match)
				if tc.bad.Spec.Containers[0].Name == "crash" {
					<-time.After(2 * time.Minute) // dead containers are removed while it runs
				}
				next := good[:10]
				if !tc.starts {
					next = append(slices.Clone(next), tc.bad)
				}
				r.set(next...)
				for _, p := range good[10:] {
					r.within(30*time.Second, "a good pod goes", func() error { return gone(r, p.UID) })
				}
				named(r, string(tc.method))
				r.within(time.Minute, "the pod is named", func() error {
					for _, p := range r.engine.Problems() {
						if p.UID == tc.bad.UID && strings.Contains(p.Cause, "no such client") {
							return nil
						}
					}
					return fmt.Errorf("problems: %w", r.problems())
				})
				<-time.After(time.Minute)
				objects := len(rt.Calls(fake.Match{Method: fake.CreateContainer, PodUID: tc.bad.UID}))
				if n := log.count("stack", "no such client", "goroutine "); n == 0 || n > max(4, 2*objects) { // in steps of the pod, and beside them
					t.Errorf("%d stacks in the log", n)
				}
				for _, p := range good[:10] {
					if rt.Running(p.UID, "main") != 1 || starts(rt, p.UID) != 1 {
						t.Errorf("%s was disturbed", p.UID)
					}
				}
				end()
				if tc.starts {
					r.within(6*time.Minute, "the bad pod goes", func() error { return gone(r, tc.bad.UID) })
				} else {
					r.phase(tc.bad.UID, v1.PodRunning, 6*time.Minute)
				}
				r.within(11*time.Minute, "all to be well", r.problems)
			})
		})
	}
}

func withPreStop(p *v1.Pod) *v1.Pod {
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: command("bye")}
	return p
}

func withImage(p *v1.Pod, image string) *v1.Pod {
	p.Spec.Containers[0].Image = image
	return p
}

func pulls(image string) func(fake.Call) bool {
	return func(c fake.Call) bool {
		r, ok := c.Request.(*runtimeapi.PullImageRequest)
		return ok && r.GetImage().GetImage() == image
	}
}

// ran returns an error until a container of the pod was started.
func ran(rt *fake.Runtime, uid types.UID) error {
	if starts(rt, uid) == 0 {
		return fmt.Errorf("%s was not started", uid)
	}
	return nil
}

// gone returns an error as long as something of a pod is left.
func gone(r *rig, uid types.UID) error {
	if r.pod(uid) != nil || slices.Contains(inRuntime(r), string(uid)) {
		return unmet(func() string { return r.explain(uid) })
	}
	return nil
}

// TestPanicOfAQuestionAboutTheNode: IN6. What is asked about the runtime as a whole panics: the engine says so, touches no pod,
// and goes on when it does not panic any more.
func TestPanicOfAQuestionAboutTheNode(t *testing.T) {
	t.Parallel()
	for _, method := range []fake.Method{fake.Status, fake.ListImages, fake.ListContainers} {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rt, log := fake.New(fake.Options{}), &lines{}
				r := newRig(t, rt, t.TempDir(), log.configure, func(c *podwright.Config) {
					c.ImageGC = &podwright.ImageGC{Dir: t.TempDir(), Period: time.Minute}
				}).start()
				web := newPod("web")
				r.set(web)
				r.phase(web.UID, v1.PodRunning, 5*time.Second)
				end := panics(rt, fake.Match{Method: method})
				named(r, "no such client")
				<-time.After(10 * time.Minute)
				if rt.Running(web.UID, "main") != 1 || starts(rt, web.UID) != 1 {
					t.Error("the pod was disturbed")
				}
				if n := log.count("It is an error of this call only"); method != fake.ListContainers && n != 1 {
					t.Errorf("%d stacks in the log", n)
				}
				end()
				r.within(11*time.Minute, "all to be well", r.problems)
				r.set()
				r.empty(time.Minute)
			})
		})
	}
}

// brokenStore panics at the records of one pod, and while it loads.
type brokenStore struct {
	*checkpoint.Files
	loads atomic.Int32
	well  atomic.Bool
}

func (s *brokenStore) Load(ctx context.Context) (checkpoint.Loaded, error) {
	if s.loads.Add(1) < 3 {
		panic("no such table")
	}
	return s.Files.Load(ctx)
}

func (s *brokenStore) Write(ctx context.Context, records []*checkpoint.Record) error {
	for _, r := range records {
		if isVictim(r.UID) && !s.well.Load() {
			panic("no such column")
		}
	}
	return s.Files.Write(ctx, records)
}

// TestPanicOfTheRecordsHarmsOnlyItsPod: IN6, CK8. The program's own store of records panics at those of one pod. All others are
// recorded, start and end; the bad one starts when the store is well.
func TestPanicOfTheRecordsHarmsOnlyItsPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, log := &brokenStore{Files: checkpoint.NewFiles(&checkpointtest.Disk{})}, &lines{}
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), log.configure, func(c *podwright.Config) { c.Checkpoints.Store = store }).start()
		var good []*v1.Pod
		for i := range 20 {
			good = append(good, newPod(fmt.Sprintf("web-%d", i)))
		}
		bad := newPod("bad")
		go func() { _ = r.source.Set(t.Context(), append(slices.Clone(good), bad)) }() // taken once the records are loaded
		for _, p := range good {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		r.set(append(slices.Clone(good[:10]), bad)...)
		for _, p := range good[10:] {
			r.within(30*time.Second, "a good pod goes", func() error { return gone(r, p.UID) })
			if !r.sink.finished(p.UID) {
				t.Errorf("the end of %s was not told", p.UID)
			}
		}
		if starts(r.runtime, bad.UID) != 0 {
			t.Error("the bad pod was started")
		}
		named(r, "checkpoint of pod uid-bad: Checkpoints.Store.Write panicked: no such column")
		if n := log.count("no such column", "stack", "goroutine "); n == 0 || n > 10 {
			t.Errorf("%d stacks in the log", n)
		}
		store.well.Store(true)
		r.phase(bad.UID, v1.PodRunning, 6*time.Minute)
		r.within(time.Minute, "health", r.engine.Healthy)
	})
}
