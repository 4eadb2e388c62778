package enginetest_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
)

// TestReadyIsHiddenUntilOnDisk: spec/probe.md 8.3, spec/status.md 9.1: the status does not show
// that a container has started or is ready before the disk has it, whether the probe or another
// reason causes the status. It shows it as soon as the disk has it. A disk that does not answer
// delays it only for seconds.
func TestReadyIsHiddenUntilOnDisk(t *testing.T) {
	for _, answers := range []bool{true, false} {
		t.Run(fmt.Sprintf("the disk answers: %v", answers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { readyIsHidden(t, answers) })
		})
	}
}

func readyIsHidden(t *testing.T, answers bool) {
	var slow atomic.Bool
	answer := make(chan struct{})
	let := sync.OnceFunc(func() { close(answer) })
	disk := &checkpointtest.Points{FS: &checkpointtest.Disk{}, Before: func(checkpointtest.Op) error {
		if slow.Load() {
			<-answer
		}
		return nil
	}}
	rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
		return fake.Script{ReadyAfter: 20 * time.Second, Exec: func(e fake.Exec) fake.ExecResult {
			if e.Ready {
				return fake.ExecResult{}
			}
			return fake.ExecResult{Code: 1}
		}}
	}})
	r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Checkpoints.Store = checkpoint.NewFiles(disk) }).start()
	t.Cleanup(let) // before the engine is stopped
	p := newPod("web")
	p.Spec.Containers[0].StartupProbe, p.Spec.Containers[0].ReadinessProbe = check("started"), check("ready")
	p.Spec.Containers[0].StartupProbe.FailureThreshold = 100
	r.set(p)
	r.phase(p.UID, v1.PodRunning, 10*time.Second)
	<-time.After(10 * time.Second) // by now, the disk has all that the engine knows
	slow.Store(true)
	r.within(20*time.Second, "the startup probe succeeds", func() error {
		if e, _ := r.engine.Explain(p.UID); len(e.Probes) == 0 || e.Probes[0].Kind != "Startup" || e.Probes[0].Result != "Success" {
			return fmt.Errorf("%+v", e.Probes)
		}
		return nil
	})
	started := func() bool {
		s := r.pod(p.UID).Status.ContainerStatuses[0].Started
		return s != nil && *s
	}
	for range 4 { // each round generates a new status
		changed := p.DeepCopy()
		changed.Annotations = map[string]string{"now": time.Now().String()}
		r.set(changed)
		<-time.After(time.Second)
		synctest.Wait()
		if started() {
			t.Fatal("8.3: shown as started although the disk does not have it")
		}
	}
	if answers {
		slow.Store(false)
		let()
		r.within(10*time.Millisecond, "started as soon as the disk has it", func() error {
			if !started() {
				return fmt.Errorf("%+v", r.pod(p.UID).Status.ContainerStatuses)
			}
			return nil
		})
		r.within(5*time.Second, "ready", func() error { return readyIs(r, p, v1.ConditionTrue) })
		return
	}
	<-time.After(2 * time.Second)
	synctest.Wait()
	if !started() {
		t.Error("8.3: a disk that does not answer holds it up forever")
	}
}
