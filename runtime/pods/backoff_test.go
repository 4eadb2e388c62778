package pods_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// spec/runtime.md 17.1, 17.6: delays are a matter of policy, by class of exit, and
// the next start is visible while it is waited for.
func TestBackOffPolicies(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*pods.Options)
		script fake.Script
		want   []time.Duration // pauses between exit and start
	}{
		{"17.1 default", nil, exits(1), []time.Duration{0, 10, 20, 40, 80, 160, 300, 300}},
		{
			"17.1 the node's maximum", func(o *pods.Options) { o.CrashLoopBackOff.Max = 5 * second },
			exits(1),
			[]time.Duration{0, 5, 5},
		},
		{
			"17.1 reduced", func(o *pods.Options) { o.CrashLoopBackOff = pods.BackOffPolicy{Initial: second, Max: 60 * second} },
			exits(1),
			[]time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60},
		},
		{
			"17.1 the explicit maximum wins over the reduced one", func(o *pods.Options) {
				o.CrashLoopBackOff = pods.BackOffPolicy{Initial: second, Max: 3 * second}
			}, exits(1), []time.Duration{0, 1, 2, 3, 3},
		},
		{"success has its own", own(func(c *pods.CrashLoopByExit) *pods.BackOffPolicy { return &c.Success }), exits(0), []time.Duration{0, 3, 3}},
		{"failure has not", own(func(c *pods.CrashLoopByExit) *pods.BackOffPolicy { return &c.Success }), exits(1), []time.Duration{0, 10}},
		{"out of memory, with code 0", own(func(c *pods.CrashLoopByExit) *pods.BackOffPolicy { return &c.OOMKilled }), fake.Script{Exit: &fake.Exit{After: second, Reason: "OOMKilled"}}, []time.Duration{0, 3, 3}},
		{"start errors", own(func(c *pods.CrashLoopByExit) *pods.BackOffPolicy { return &c.StartError }), fake.Script{Exit: &fake.Exit{After: second, Code: 128, Reason: "StartError"}}, []time.Duration{0, 3, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(fake.Launch) fake.Script { return tc.script }, func(o *pods.Options) {
					if tc.change != nil {
						tc.change(o)
					}
				})
				if got := w.pauses(len(tc.want)); !slices.Equal(got, seconds(tc.want)) {
					t.Errorf("pauses %v, want %v s", got, tc.want)
				}
			})
		})
	}
}

func exits(code int32) fake.Script { return fake.Script{Exit: &fake.Exit{After: second, Code: code}} }

// own gives one way to end delays of its own.
func own(of func(*pods.CrashLoopByExit) *pods.BackOffPolicy) func(*pods.Options) {
	return func(o *pods.Options) {
		*of(&o.CrashLoopByExit) = pods.BackOffPolicy{Initial: 3 * second, Factor: 1}
	}
}

func seconds(n []time.Duration) (out []time.Duration) {
	for _, d := range n {
		out = append(out, d*second)
	}
	return out
}

// pauses runs a pod whose container exits after a second and returns how long
// each restart was delayed.
func (w *world) pauses(n int) (out []time.Duration) {
	w.t.Helper()
	pod := newPod()
	w.syncAll(pod)
	for len(out) < n {
		pass(second)
		exited := time.Now()
		r := w.sync(pod)
		if !r.RetryAt.IsZero() {
			waiting := w.m.WaitingReasons(pod.UID)["app"]
			if waiting.Reason != "CrashLoopBackOff" || !waiting.RetryAt.Equal(r.RetryAt) {
				w.t.Fatalf("17.6: next start at %v, shown is %+v", r.RetryAt, waiting)
			}
			pass(time.Until(r.RetryAt))
			r = w.sync(pod)
		}
		if w.read(pod).Container("app").State != runtime.Running {
			w.t.Fatalf("not running after %+v", r)
		}
		out = append(out, time.Since(exited))
	}
	return out
}

// spec/runtime.md 9.3: an image's delay is forgotten when its reset time has
// passed since the last failure.
func TestImageBackOffReset(t *testing.T) {
	for pause, want := range map[time.Duration]time.Duration{59 * second: 20 * second, 61 * second: 10 * second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil, func(o *pods.Options) { o.ImageBackOff.Reset = 60 * second })
			w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage}, Effect: fake.Effect{Err: runtime.ErrInvalid}})
			pod := newPod()
			w.sync(pod)
			pass(pause)
			w.sync(pod)
			if got := time.Until(w.sync(pod).RetryAt); got != want {
				t.Errorf("after %v: delay %v, want %v", pause, got, want)
			}
		})
	}
}

// spec/runtime.md 17.3, 26.1: what keeps a start from being made after an exit is what the container waits for; attempts are no crashes.
func TestFailedStartsAreNoCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stock := &warehouse{}
		w := newWorld(t, func(l fake.Launch) fake.Script {
			if l.Attempt < 2 {
				return exits(1)
			}
			return fake.Script{}
		}, func(o *pods.Options) { o.Grants = stock })
		pod := newPod()
		w.syncAll(pod)
		pass(second)
		stock.err = errors.New("no GPU is free")
		for i := range 100 {
			w.sync(pod)
			if reason := w.m.WaitingReasons(pod.UID)["app"].Reason; reason != "CreateContainerConfigError" {
				t.Fatalf("attempt %d: waits for %s", i, reason)
			}
			pass(10 * second)
		}
		stock.err = nil
		w.sync(pod)
		w.wantState(pod, "app:running")
		pass(second)
		if wait := time.Until(w.sync(pod).RetryAt); wait != 10*second {
			t.Errorf("17.5: the second exit waits %v, want 10s", wait)
		}
	})
}

// spec/runtime.md 17.4: a container that has run for long after its crashes, and fails its liveness probe, is in no crash loop.
func TestLongRunThatAProbeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := probes{}
		var w *world
		pod := newPod(func(p *v1.Pod) { p.Spec.Containers[0].LivenessProbe = &v1.Probe{} })
		w = newWorld(t, func(l fake.Launch) fake.Script {
			if l.Attempt < 5 {
				return exits(1)
			}
			return fake.Script{}
		}, func(o *pods.Options) {
			o.Probes = probeSource{by: results, view: func() *runtime.PodStatus { return w.read(pod) }}
		})
		for w.read(pod).Container("app") == nil || w.read(pod).Container("app").RestartCount < 5 {
			if r := w.syncAll(pod); !r.RetryAt.IsZero() {
				pass(time.Until(r.RetryAt))
			} else {
				pass(second)
			}
		}
		for i, healthy := range []time.Duration{20 * time.Minute, 60 * second, 60 * second} {
			pass(healthy)
			results["app"] = [2]pods.ProbeResult{proberesult.Unknown, proberesult.Failure}
			r := w.sync(pod)
			delete(results, "app")
			if !r.RetryAt.IsZero() || w.state(pod) != "app:running" {
				t.Fatalf("after kill %d: %s, the next start is in %v", i+1, w.state(pod), time.Until(r.RetryAt))
			}
		}
	})
}
