package podworkers_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/internal/machine"
	"github.com/podwright/podwright/runtime"
)

// Each case preserves a behaviour of the kubelet: of v1.32 and in pkg/kubelet/pod_workers.go,
// unless it names another version or file.
var parity = []struct {
	keeps string // function or issue
	rule  string
	test  func(t *testing.T, p *parityPod)
}{
	{"UpdatePod: a pod's first update starts its setup", "U12, W5", func(t *testing.T, p *parityPod) {
		p.update(podworkers.Create, p.pod)
		expect(t, p.log, "setup a create")
	}},
	{"UpdatePod: a pending update is replaced by a newer one", "U12", func(t *testing.T, p *parityPod) {
		p.hold("setup")
		p.update(podworkers.Create, p.pod)
		synctest.Wait()
		p.update(podworkers.Update, p.pod)
		p.update(podworkers.Sync, p.pod)
		p.release()
		expect(t, p.log, "setup a create", "setup a sync")
	}},
	{"UpdatePod: a deletion timestamp, a terminal phase and a kill each begin termination", "U7", func(t *testing.T, p *parityPod) {
		deleted := p.pod.DeepCopy()
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		failed := newPod("b")
		failed.Status.Phase = v1.PodFailed
		p.update(podworkers.Update, deleted)
		expect(t, p.log, "terminating a 30", "terminated a")
		p.update(podworkers.Sync, failed)
		expect(t, p.log, "terminating b 30", "terminated b")
		p.update(podworkers.Kill, newPod("c"))
		expect(t, p.log, "terminating c 30", "terminated c")
	}},
	{"calculateEffectiveGracePeriod: only ever shorter, at least one second", "G1-G5", func(t *testing.T, p *parityPod) {
		p.hold("terminating")
		for _, grace := range []int64{20, 40, 0} {
			p.w.UpdatePod(kill(p.pod, podworkers.KillOptions{GracePeriodSeconds: &grace}))
			synctest.Wait()
		}
		p.release()
		expect(t, p.log, "terminating a 20", "terminating a 1", "terminated a")
	}},
	{"UpdatePod: a create for a terminating pod restarts it after SyncKnownPods", "U5, R1, R2", func(t *testing.T, p *parityPod) {
		p.hold("terminating")
		p.update(podworkers.Kill, p.pod)
		synctest.Wait()
		if got := p.update(podworkers.Create, p.pod); got != machine.OutcomeRestartRemembered {
			t.Errorf("create: %v", got)
		}
		p.release()
		synctest.Wait()
		// The kubelet forgets it here; we do so with the restart (R2).
		if known := p.w.SyncKnownPods([]*v1.Pod{p.pod}); !known["a"].Restart {
			t.Errorf("known: %v", known)
		}
		p.update(podworkers.Restart, p.pod)
		expect(t, p.log, "terminating a 30", "terminated a", "setup a create")
	}},
	{"allowPodStart, allowStaticPodStart: one static pod per full name, in order", "N1, N2", func(t *testing.T, p *parityPod) {
		for _, uid := range []types.UID{"x", "y", "z"} {
			p.update(podworkers.Create, newStatic(uid, "web"))
		}
		expect(t, p.log, "setup x create")
		p.w.SyncKnownPods([]*v1.Pod{newStatic("y", "web"), newStatic("z", "web")})
		expect(t, p.log, "terminating x 30", "terminated x", "setup y create")
	}},
	{"completeTerminatingRuntimePod: a pod known only from the runtime leaves no record", "C5, O1", func(t *testing.T, p *parityPod) {
		p.w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Kill, RunningPod: &runtime.Pod{UID: "r"}})
		expect(t, p.log, "terminating runtime r")
		if _, known := p.w.Explain("r"); known {
			t.Error("r is known")
		}
	}},
	{"UpdatePod: a runtime kill uses the full pod if it is known", "U4", func(t *testing.T, p *parityPod) {
		p.update(podworkers.Create, p.pod)
		synctest.Wait()
		p.w.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Kill, RunningPod: &runtime.Pod{UID: "a"}})
		expect(t, p.log, "setup a create", "terminating a 30", "terminated a")
	}},
	{"completeSync: a setup that ends the pod passes no grace period", "C3, G7", func(t *testing.T, p *parityPod) {
		p.terminal = true
		p.update(podworkers.Create, p.pod)
		expect(t, p.log, "setup a create", "terminating a", "terminated a")
	}},
	{"completeWork, kubelet.go NewMainKubelet: resync after 60 s with half of it as jitter", "12", func(t *testing.T, p *parityPod) {
		p.update(podworkers.Create, p.pod)
		expect(t, p.log, "setup a create")
		pass(59 * time.Second)
		expect(t, p.log)
		pass(31 * time.Second)
		expect(t, p.log, "setup a sync")
	}},
	{"SyncKnownPods: an orphan that never started is forgotten without a call", "S6a", func(t *testing.T, p *parityPod) {
		for _, uid := range []types.UID{"first", "waits"} {
			p.update(podworkers.Create, newStatic(uid, "web"))
		}
		expect(t, p.log, "setup first create")
		p.w.SyncKnownPods(nil)
		if _, known := p.w.Explain("waits"); known {
			t.Error("the pod is known")
		}
	}},
	{"ShouldPodContentBeRemoved: at once for evicted pods, after the end for deleted ones", "E1", func(t *testing.T, p *parityPod) {
		p.hold("terminating")
		p.w.UpdatePod(kill(p.pod, podworkers.KillOptions{Evict: true}))
		p.update(podworkers.Kill, newPod("b"))
		if !p.w.ShouldPodContentBeRemoved("a") || p.w.ShouldPodContentBeRemoved("b") {
			t.Error("wrong")
		}
		p.release()
	}},
	{"IsPodForMirrorPodTerminatingByFullName: true while the owner of the name terminates", "11", func(t *testing.T, p *parityPod) {
		p.hold("terminating")
		pod := newStatic("s", "web")
		p.update(podworkers.Create, pod)
		synctest.Wait()
		if p.w.IsPodForMirrorPodTerminatingByFullName("web_default") {
			t.Error("true while it runs")
		}
		p.update(podworkers.Kill, pod)
		synctest.Wait()
		if !p.w.IsPodForMirrorPodTerminatingByFullName("web_default") {
			t.Error("false while it terminates")
		}
		p.release()
		synctest.Wait()
		if p.w.IsPodForMirrorPodTerminatingByFullName("web_default") {
			t.Error("true when it has terminated")
		}
	}},
	{"unknown pods before and after the first SyncKnownPods", "11", func(t *testing.T, p *parityPod) {
		ask := func() [6]bool {
			return [6]bool{
				p.w.IsPodKnownTerminated("?"), p.w.CouldHaveRunningContainers("?"), p.w.ShouldPodBeFinished("?"),
				p.w.IsPodTerminationRequested("?"),
				p.w.ShouldPodRuntimeBeRemoved("?"), p.w.ShouldPodContentBeRemoved("?"),
			}
		}
		if got := ask(); got != [6]bool{1: true} {
			t.Errorf("before: %v", got)
		}
		p.w.SyncKnownPods(nil)
		if got := ask(); got != [6]bool{2: true, 4: true, 5: true} {
			t.Errorf("after: %v", got)
		}
	}},
	{"killPodNow (pod_workers.go): waits one and a half times the grace, at least 10 s", "6", func(t *testing.T, p *parityPod) {
		p.hold("terminating")
		began := time.Now()
		_ = p.w.KillPod(t.Context(), p.pod, podworkers.KillOptions{})
		if d := time.Since(began); d != 45*time.Second {
			t.Errorf("waited %v", d)
		}
		p.release()
	}},
}

// TestKubeletParity runs the table above.
func TestKubeletParity(t *testing.T) {
	for _, test := range parity {
		t.Run(test.rule+" "+test.keeps, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newParityPod()
				run(t, p.w)
				test.test(t, p)
			})
		})
	}
}

// Deliberate differences: why says what the kubelet does, and the test checks what we do.
var differences = []struct {
	why  string
	rule string
	test func(t *testing.T, p *parityPod)
}{
	{"a kill of a finished pod leaves its channel open until a time-out there (issue 118679)", "U6, Q4", func(t *testing.T, p *parityPod) {
		p.update(podworkers.Kill, p.pod)
		synctest.Wait()
		began := time.Now()
		result, err := p.w.KilledPod(t.Context(), p.pod, podworkers.KillOptions{})
		if err != nil || result != machine.KillAlreadyTerminated || time.Since(began) > 0 {
			t.Errorf("%v, %v after %v", result, err, time.Since(began))
		}
	}},
	{"an orphan in a hanging setup is not cancelled there, so a replaced static pod never starts (issue 109596)", "S6b", func(t *testing.T, p *parityPod) {
		p.hold("setup")
		p.update(podworkers.Create, newStatic("x", "web"))
		synctest.Wait()
		p.w.SyncKnownPods(nil)
		expect(t, p.log, "setup x create", "terminating x 30", "terminated x")
	}},
	{"only the first cause of a termination is remembered there", "U7", func(t *testing.T, p *parityPod) {
		p.hold("terminating")
		p.update(podworkers.Kill, p.pod)
		p.w.UpdatePod(kill(p.pod, podworkers.KillOptions{Evict: true}))
		if !p.w.ShouldPodContentBeRemoved("a") {
			t.Error("the eviction is lost")
		}
		p.release()
	}},
	{"the next static pod of a name waits for a poll of 10 to 15 s there", "N4", func(t *testing.T, p *parityPod) {
		p.update(podworkers.Create, newStatic("x", "web"))
		p.update(podworkers.Create, newStatic("y", "web"))
		synctest.Wait()
		began := time.Now()
		p.update(podworkers.Kill, newStatic("x", "web"))
		expect(t, p.log, "setup x create", "terminating x 30", "terminated x", "setup y create")
		if d := time.Since(began); d != 0 {
			t.Errorf("after %v", d)
		}
	}},
	{"a panic ends the process there, or leaves the pod without a worker", "L8", func(t *testing.T, p *parityPod) {
		p.panics.Store(true)
		p.update(podworkers.Create, p.pod)
		synctest.Wait()
		p.panics.Store(false)
		pass(2 * time.Second)
		expect(t, p.log, "setup a create", "setup a sync")
	}},
	{"a failed setup is tried again every 10 to 15 s there, without end", "L5", func(t *testing.T, p *parityPod) {
		p.err = errTest
		p.update(podworkers.Create, p.pod)
		pass(10 * time.Second)
		synctest.Wait()
		if n := len(p.log.take()); n < 3 || n > 4 {
			t.Errorf("%d calls in ten seconds", n)
		}
	}},
	{"the worker's context is that of the first caller there (v1.36)", "X4", func(t *testing.T, p *parityPod) {
		p.hold("setup")
		p.update(podworkers.Create, p.pod)
		synctest.Wait()
		if ctx, ok := p.ctx.Load().(*context.Context); !ok || (*ctx).Err() != nil {
			t.Error("the call has a dead context")
		}
		p.release()
	}},
}

// TestKubeletDifferences runs the table above.
func TestKubeletDifferences(t *testing.T) {
	for _, test := range differences {
		t.Run(test.rule+" "+test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newParityPod()
				run(t, p.w)
				test.test(t, p)
			})
		})
	}
}

// parityPod is workers with a syncer that logs, and can be held in a phase.
type parityPod struct {
	w        *podworkers.Workers
	pod      *v1.Pod
	log      *log
	terminal bool
	panics   atomic.Bool
	err      error
	ctx      atomic.Value // the context of the last setup call
	phase    string
	gate     chan struct{}
}

func newParityPod() *parityPod {
	p := &parityPod{pod: newPod("a"), log: &log{}, gate: make(chan struct{})}
	logged := logging(p.log)
	p.w = podworkers.New(podworkers.PodSyncerFuncs{
		Sync: func(ctx context.Context, t podworkers.UpdateType, pod, mirror *v1.Pod, view *runtime.PodStatus) (podworkers.SyncResult, error) {
			p.ctx.Store(&ctx)
			_, _ = logged.Sync(ctx, t, pod, mirror, view)
			if p.panics.Load() {
				panic("boom")
			}
			return podworkers.SyncResult{Terminal: p.terminal}, p.wait(ctx, "setup")
		},
		Terminating: func(ctx context.Context, pod *v1.Pod, view *runtime.PodStatus, grace *int64, edit podworkers.PodStatusFunc) error {
			_ = logged.Terminating(ctx, pod, view, grace, edit)
			return p.wait(ctx, "terminating")
		},
		TerminatingRuntime: logged.TerminatingRuntime,
		Terminated:         logged.Terminated,
	}, podworkers.Options{})
	return p
}

func (p *parityPod) update(t podworkers.UpdateType, pod *v1.Pod) podworkers.Outcome {
	return p.w.UpdatePod(podworkers.UpdateOptions{Type: t, Pod: pod})
}

// hold makes calls of a phase wait until release.
func (p *parityPod) hold(phase string) { p.phase = phase }

func (p *parityPod) release() { close(p.gate) }

func (p *parityPod) wait(ctx context.Context, phase string) error {
	if p.phase != phase {
		return p.err
	}
	select {
	case <-p.gate:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
