package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
)

// forRepair is an eviction with a reason that the caller chose.
var forRepair = podwright.EvictOptions{Grace: 1500 * time.Millisecond, Reason: "Repair", Message: "The fan is replaced."}

// TestEvictedOnRequestForGood: OC1: half of 100 pods of an API are evicted at once. They end as in an
// eviction, with the caller's message, and stay so when the agent restarts; the others continue to run.
func TestEvictedOnRequestForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, evicted := 100, 50
		if raceDetector {
			all, evicted = 30, 15
		}
		rt, root, api := fake.New(fake.Options{Script: stubborn}), t.TempDir(), &mirror.FakeClient{}
		fromAPI := func(c *podwright.Config) { c.Sources = []syncloop.Source{apiSource{api: api}} }
		r := newRig(t, rt, root, fromAPI).start()
		var pods []*v1.Pod
		for i := range all {
			pods = append(pods, newPod(fmt.Sprintf("p%d", i)))
			api.Put(pods[i])
		}
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		began := time.Now()
		var wg sync.WaitGroup
		for _, p := range pods[:evicted] {
			wg.Go(func() {
				if err := r.engine.EvictPod(t.Context(), p.UID, forRepair); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < 2*time.Second || took > 5*time.Second {
					t.Errorf("%s: took %v, its grace is 2 s", p.Name, took)
				}
				if n := rt.Running(p.UID, "main"); n != 0 {
					t.Errorf("%s: %d containers run on", p.Name, n)
				}
			})
		}
		wg.Wait()
		check := func(r *rig) {
			for i, p := range pods {
				if i >= evicted {
					if st := r.pod(p.UID).Status; st.Phase != v1.PodRunning || starts(rt, p.UID) != 1 {
						t.Errorf("%s: %s, %d starts", p.Name, st.Phase, starts(rt, p.UID))
					}
					continue
				}
				if st := r.pod(p.UID).Status; st.Phase != v1.PodFailed || st.Reason != "Repair" || st.Message != "The fan is replaced." || !disrupted(r.pod(p.UID)) {
					t.Errorf("%s: %+v", p.Name, st)
				}
			}
		}
		r.phase(pods[0].UID, v1.PodFailed, time.Minute)
		<-time.After(10 * time.Second)
		check(r)
		if n := len(r.events.said("p7 Evicted")); n != 1 {
			t.Errorf("%d events Evicted", n)
		}
		r.stop()
		r = newRig(t, rt, root, fromAPI).start()
		r.phase(pods[all-1].UID, v1.PodRunning, time.Minute)
		<-time.After(10 * time.Minute)
		check(r)
	})
}

// stubborn is a container that ignores SIGTERM.
func stubborn(fake.Launch) fake.Script { return fake.Script{OnTERM: fake.Exit{After: time.Hour}} }

// TestEvictionOnRequestOutlivesKill: OC1, IN8: the agent is killed while the runtime does not stop the pod; the
// next agent ends it as decided.
func TestEvictionOnRequestOutlivesKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, api := newHost(t, fake.New(fake.Options{})), &mirror.FakeClient{}
		fromAPI := func(c *podwright.Config) { c.Sources = []syncloop.Source{apiSource{api: api}} }
		victim, other := newPod("victim"), newPod("other")
		api.Put(victim)
		api.Put(other)
		r := h.agent(fromAPI)
		r.phase(victim.UID, v1.PodRunning, time.Minute)
		r.phase(other.UID, v1.PodRunning, time.Minute)
		answer := h.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer, PodUID: victim.UID}, Effect: fake.Effect{Hang: true}})
		err := r.engine.EvictPod(t.Context(), victim.UID, forRepair)
		if !errors.Is(err, podworkers.ErrKillTimeout) {
			t.Errorf("a runtime that does not answer: %v", err)
		}
		if err := r.engine.EvictPod(t.Context(), other.UID, podwright.EvictOptions{}); err != nil {
			t.Errorf("another pod: %v", err)
		}
		h.kill(r)
		answer()
		r = h.agent(fromAPI)
		r.phase(victim.UID, v1.PodFailed, time.Minute)
		r.within(time.Minute, "its end", func() error {
			if n := h.rt.Running(victim.UID, "main"); n != 0 {
				return fmt.Errorf("%d containers run", n)
			}
			return nil
		})
		if st := r.pod(victim.UID).Status; st.Reason != "Repair" || !disrupted(r.pod(victim.UID)) {
			t.Errorf("the victim: %+v", st)
		}
		r.phase(other.UID, v1.PodFailed, time.Minute)
		if st := r.pod(other.UID).Status; st.Reason != "Evicted" || st.Message == "" {
			t.Errorf("the other one: %s %q", st.Reason, st.Message)
		}
		<-time.After(time.Hour)
		if n := starts(h.rt, victim.UID) + starts(h.rt, other.UID); n != 2 {
			t.Errorf("%d starts", n)
		}
	})
}

// TestStaticPodEvictedOnRequestComesBack: OC1, IN14: a static pod comes back after the transition period,
// whatever the reason says.
func TestStaticPodEvictedOnRequestComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fake.New(fake.Options{}), t.TempDir()).start()
		pod := newPod("web")
		r.set(pod)
		r.phase(pod.UID, v1.PodRunning, time.Minute)
		if err := r.engine.EvictPod(t.Context(), pod.UID, forRepair); err != nil {
			t.Fatal(err)
		}
		r.phase(pod.UID, v1.PodFailed, time.Minute)
		<-time.After(4 * time.Minute)
		if st := r.pod(pod.UID).Status; st.Phase != v1.PodFailed {
			t.Errorf("back too early: %+v", st)
		}
		r.phase(pod.UID, v1.PodRunning, 2*time.Minute)
	})
}

// TestEvictPodRefuses: OC1: EvictPod refuses invalid requests, and they have no effect.
func TestEvictPodRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fake.New(fake.Options{}), t.TempDir())
		evict := func(uid types.UID, o podwright.EvictOptions) error { return r.engine.EvictPod(t.Context(), uid, o) }
		web, critical, done := newPod("web"), newPod("critical"), newPod("done")
		if err := evict(web.UID, podwright.EvictOptions{}); !errors.Is(err, podwright.ErrNotRunning) {
			t.Errorf("before Run: %v", err)
		}
		critical.Spec.PriorityClassName = "system-node-critical"
		r.start()
		r.set(web, critical, done)
		for _, p := range []*v1.Pod{web, critical, done} {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		for _, test := range []struct {
			name    string
			uid     types.UID
			options podwright.EvictOptions
			class   error
			text    string
		}{
			{"an unknown pod", "nobody's", podwright.EvictOptions{}, runtime.ErrNotFound, `evict pod "nobody's"`},
			{"a critical pod", critical.UID, podwright.EvictOptions{}, runtime.ErrFailedPrecondition, "remove it at its source"},
			{"a negative grace", web.UID, podwright.EvictOptions{Grace: -time.Second}, runtime.ErrInvalid, "grace -1s is negative"},
			{"a reason of two words", web.UID, podwright.EvictOptions{Reason: "Fan broken"}, runtime.ErrInvalid, "CamelCase"},
			{"a reason of the node's", web.UID, podwright.EvictOptions{Reason: "Terminated"}, runtime.ErrInvalid, "choose another"},
			{"a long message", web.UID, podwright.EvictOptions{Message: strings.Repeat("x", 1025)}, runtime.ErrInvalid, "1025 bytes"},
		} {
			if err := evict(test.uid, test.options); !errors.Is(err, test.class) || cri.Class(err) != test.class || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		ended, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		cancel(why)
		r.runtime.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer, PodUID: done.UID}, Effect: fake.Effect{Delay: time.Second}})
		if err := r.engine.EvictPod(ended, done.UID, podwright.EvictOptions{}); !errors.Is(err, why) {
			t.Errorf("a context that has ended: %v", err)
		}
		r.phase(done.UID, v1.PodFailed, time.Minute) // its end continues
		if err := evict(done.UID, podwright.EvictOptions{Reason: "Again"}); err != nil {
			t.Errorf("a pod that has ended: %v", err)
		}
		<-time.After(10 * time.Second)
		if st := r.pod(done.UID).Status; st.Reason != "Evicted" {
			t.Errorf("its end has changed: %+v", st)
		}
		for _, p := range []*v1.Pod{web, critical} {
			if st := r.pod(p.UID).Status; st.Phase != v1.PodRunning {
				t.Errorf("%s: %+v", p.Name, st)
			}
		}
		r.stop()
		said := r.events.count("web Evicted")
		if err := evict(web.UID, podwright.EvictOptions{}); !errors.Is(err, podwright.ErrNotRunning) || r.events.count("web Evicted") != said {
			t.Errorf("after Run: %v, events %q", err, r.events.said("web Evicted"))
		}
	})
}

// TestEvictPodNeverLengthensTheGrace: OC1: a longer grace than the pod's own counts as its own, up to the
// longest duration there is.
func TestEvictPodNeverLengthensTheGrace(t *testing.T) {
	for _, grace := range []time.Duration{time.Hour, math.MaxInt64} {
		synctest.Test(t, func(t *testing.T) {
			rt := fake.New(fake.Options{Script: stubborn})
			r := newRig(t, rt, t.TempDir()).start()
			pod := newPod("a")
			pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
			r.set(pod)
			r.phase(pod.UID, v1.PodRunning, time.Minute)
			began := time.Now()
			err := r.engine.EvictPod(t.Context(), pod.UID, podwright.EvictOptions{Grace: grace})
			if took := time.Since(began); err != nil || took < 30*time.Second || took > 35*time.Second {
				t.Errorf("grace %v: %v after %v, want the pod's 30 s", grace, err, took)
			}
		})
	}
}
