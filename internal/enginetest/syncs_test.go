package enginetest_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
)

// countingSyncs counts the setup rounds of all pods.
func countingSyncs(n *atomic.Int64) func(*podwright.Config) {
	return func(c *podwright.Config) {
		c.Workers.SyncFrequency = time.Hour
		c.Admission.Soft = append(c.Admission.Soft, admission.HandlerFunc(func(admission.Request) admission.Verdict {
			n.Add(1)
			return admission.Verdict{}
		}))
	}
}

// TestOnlyProbeNewsLeadsToSyncs: PR1-PR4, edge cases 26 and 28. A liveness success leads to no
// sync, but its failure does; readiness is written at once, and its last value counts however fast
// it changes. A startup success unblocks the other probes. A removed pod produces no more results.
func TestOnlyProbeNewsLeadsToSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var syncs atomic.Int64
		var ready, alive atomic.Bool
		alive.Store(true)
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{Exec: func(e fake.Exec) fake.ExecResult {
				if e.Cmd[0] == "ready" && !ready.Load() || e.Cmd[0] == "live" && !alive.Load() {
					return fake.ExecResult{Code: 1}
				}
				return fake.ExecResult{}
			}}
		}})
		r := newRig(t, rt, t.TempDir(), countingSyncs(&syncs)).start()
		p := newPod("web")
		c := &p.Spec.Containers[0]
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = check("live"), check("ready"), check("started")
		c.LivenessProbe.FailureThreshold, c.ReadinessProbe.FailureThreshold = 1, 1
		r.set(p)
		r.phase(p.UID, v1.PodRunning, 10*time.Second)
		<-time.After(10 * time.Second)
		if s := r.pod(p.UID).Status.ContainerStatuses[0].Started; s == nil || !*s {
			t.Error("PR3: not started")
		}
		before := syncs.Load()
		<-time.After(time.Minute)
		if got := syncs.Load(); got != before {
			t.Errorf("PR1: %d syncs although nothing but liveness successes happened", got-before)
		}
		ready.Store(true)
		r.within(2*time.Second, "ready", func() error { return readyIs(r, p, v1.ConditionTrue) })
		if syncs.Load() == before {
			t.Error("PR2: no sync after readiness changed")
		}
		ready.Store(false)
		<-time.After(1100 * time.Millisecond)
		ready.Store(true)
		<-time.After(2 * time.Second)
		if err := readyIs(r, p, v1.ConditionTrue); err != nil {
			t.Errorf("edge case 26: %v", err)
		}
		before = syncs.Load()
		alive.Store(false)
		<-time.After(2 * time.Second)
		if syncs.Load() == before {
			t.Error("PR1: no sync after liveness failed")
		}
		alive.Store(true)
		r.set()
		r.empty(time.Minute)
		before = syncs.Load()
		<-time.After(time.Minute)
		if got := syncs.Load(); got != before {
			t.Errorf("PR4: %d syncs for a removed pod", got-before)
		}
	})
}

// TestHungCallDoesNotStopLoop: SI11, L2. While the runtime hangs in the call of one pod, the loop
// goes on: other pods start, change and go.
func TestHungCallDoesNotStopLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		heal := rt.Inject(fake.Fault{Match: fake.Match{Method: fake.RunPodSandbox, PodUID: "uid-stuck"}, Effect: fake.Effect{Hang: true}})
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("stuck"), newPod("a"))
		r.phase("uid-a", v1.PodRunning, 5*time.Second)
		r.set(newPod("stuck"), newPod("b"))
		r.phase("uid-b", v1.PodRunning, 5*time.Second)
		r.within(30*time.Second, "a gone", func() error {
			if r.pod("uid-a") != nil {
				return errors.New("still known")
			}
			return nil
		})
		if err := r.engine.Healthy(); err != nil {
			t.Errorf("health: %v", err)
		}
		heal()
	})
}
