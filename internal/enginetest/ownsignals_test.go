package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
)

// gauges are the user's own signals, whose readings a test changes.
type gauges struct {
	mu    sync.Mutex
	left  map[eviction.Signal]uint64 // of 100
	calls map[eviction.Signal]int
}

func (g *gauges) set(s eviction.Signal, left uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left[s] = left
}

func (g *gauges) called(s eviction.Signal) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[s]
}

// signal returns a signal that calls before, and then reads what the test has set.
func (g *gauges) signal(name eviction.Signal, condition v1.NodeConditionType, before func(context.Context) error) eviction.OwnSignal {
	return eviction.OwnSignal{
		Name: name, Condition: condition, Message: "too little of " + string(name),
		Observer: eviction.ObserverFunc(func(ctx context.Context) (eviction.Observation, error) {
			g.mu.Lock()
			g.calls[name]++
			g.mu.Unlock()
			if before != nil {
				if err := before(ctx); err != nil {
					return eviction.Observation{}, err
				}
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			return eviction.Observation{Available: g.left[name], Capacity: 100}, nil
		}),
	}
}

// watchOwn makes an engine watch signals with these graces.
func watchOwn(graces map[eviction.Signal]time.Duration, own ...eviction.OwnSignal) func(*podwright.Config) {
	policy := eviction.Policy{Own: own, Transition: time.Minute}
	for _, s := range own {
		policy.Thresholds = append(policy.Thresholds, eviction.Threshold{Signal: s.Name, Value: eviction.Value{Percent: 10}, Grace: graces[s.Name]})
	}
	return func(c *podwright.Config) { c.Eviction = &podwright.Eviction{Stats: &calmNode{}, Policy: policy} }
}

// has reports whether the node has a condition, and returns its message.
func (r *rig) has(condition v1.NodeConditionType) (bool, string) {
	for _, c := range r.engine.NodeConditions() {
		if c.Type == condition {
			return c.Status == v1.ConditionTrue, c.Message
		}
	}
	return false, ""
}

// TestOwnSignalsAmongACrowd: section 16, OS1 to OS5. Beside signals that hang, panic, fail and flap, a
// battery that runs low evicts the pods with the lowest priority, one at a time and no more than necessary.
// Each bad signal is called no more than once at a time, is listed, and has one line in the log.
func TestOwnSignalsAmongACrowd(t *testing.T) {
	const crowd, doomed = 40, 3
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gauges{left: map[eviction.Signal]uint64{"battery.charge": 100, "flapping": 100, "hangs": 100}, calls: map[eviction.Signal]int{}}
		release, api, counted, rt := make(chan struct{}), &mirror.FakeClient{}, &counters{}, fake.New(fake.Options{})
		var flips atomic.Int32
		var low atomic.Bool
		// The last of the doomed pods is the one that takes the charge.
		charge := func(context.Context) error {
			if low.Load() && rt.Running(types.UID(fmt.Sprint("uid-pod-", doomed-1)), "main") == 0 {
				g.set("battery.charge", 50)
			}
			return nil
		}
		var mu sync.Mutex
		lines := map[string]int{}
		r := newRig(t, rt, t.TempDir(), watchOwn(map[eviction.Signal]time.Duration{"flapping": 30 * time.Second},
			g.signal("hangs", "Hung", func(context.Context) error { <-release; return nil }),
			g.signal("panics", "Panicked", func(context.Context) error { panic("no sensor") }),
			g.signal("fails", "Failed", func(context.Context) error { return errors.New("no sensor") }),
			g.signal("battery.charge", "BatteryLow", charge),
			g.signal("flapping", "Flapping", func(context.Context) error { g.set("flapping", 100*uint64(flips.Add(1)%2)); return nil }),
		), func(c *podwright.Config) {
			c.Sources, c.Observe.MeterProvider = []syncloop.Source{apiSource{api: api}}, counted
			c.Observe.Logger = funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				for _, name := range []string{"hangs", "panics", "fails"} {
					if strings.Contains(args, `"An eviction signal cannot be read`) && strings.Contains(args, fmt.Sprintf("%q=%q", "signal", name)) {
						lines[name]++
					}
				}
			}, funcr.Options{})
		}).start()
		var pods []*v1.Pod
		for i := range crowd {
			p := newPod(fmt.Sprintf("pod-%d", i))
			p.Spec.Priority = ptr.To[int32](100)
			if i < doomed {
				p.Spec.Priority = ptr.To(int32(i))
			}
			pods = append(pods, p)
			api.Put(p)
		}
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, 2*time.Minute)
		}
		<-time.After(time.Minute)
		for _, name := range []string{"hangs", "panics", "fails"} {
			if n := strings.Count(fmt.Sprint(r.problems()), "function "+name+":"); n != 1 {
				t.Errorf("%s is %d times among the problems: %v", name, n, r.problems())
			}
		}
		if is, _ := r.has("Flapping"); !is {
			t.Error("a signal that flaps does not hold its condition")
		}

		g.set("battery.charge", 5)
		low.Store(true)
		for _, p := range pods[:doomed] {
			r.phase(p.UID, v1.PodFailed, 30*time.Second)
			if st := r.pod(p.UID).Status; st.Reason != "Evicted" || !disrupted(r.pod(p.UID)) ||
				st.Message != "Eviction signal battery.charge: too little of battery.charge. Threshold quantity: 10, available: 5." {
				t.Errorf("%s: %s, %s", p.Name, st.Reason, st.Message)
			}
		}
		if is, message := r.has("BatteryLow"); !is || message != "too little of battery.charge" {
			t.Errorf("BatteryLow %v: %s", is, message)
		}
		r.within(2*time.Minute, "the end of BatteryLow", func() error {
			if is, message := r.has("BatteryLow"); is {
				return errors.New(message)
			}
			return nil
		})
		for _, p := range pods[doomed:] {
			if st := r.pod(p.UID).Status; st.Phase != v1.PodRunning || st.ContainerStatuses[0].RestartCount != 0 {
				t.Errorf("%s: %s %s", p.Name, st.Phase, st.Message)
			}
		}
		if said := r.events.said("pod-0 Evicted"); len(said) != 1 || !strings.Contains(said[0], "signal battery.charge: too little of") {
			t.Errorf("events %q", said)
		}
		if n := counted.get("kubelet_evictions", "eviction_signal=battery.charge"); n != doomed {
			t.Errorf("%d evictions are counted", n)
		}
		if n := g.called("hangs"); n != 1 {
			t.Errorf("the signal that hangs was called %d times", n)
		}
		close(release)
		<-time.After(30 * time.Second)
		if n := g.called("hangs"); n < 2 || strings.Contains(fmt.Sprint(r.problems()), "function hangs:") {
			t.Errorf("after it has returned: %d calls, problems %v", n, r.problems())
		}
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(lines) != "map[fails:1 hangs:1 panics:1]" {
			t.Errorf("log lines %v", lines)
		}
	})
}

// TestOwnSignalOverACrash: section 16, OS2. An agent that is killed in the middle of a soft grace has
// the condition again at its first look, keeps pods out, and restarts the grace, as for the node's own
// signals. An evicted static pod comes back a transition period after the condition has ended (IN14).
func TestOwnSignalOverACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, g := newHost(t, fake.New(fake.Options{})), &gauges{left: map[eviction.Signal]uint64{"battery.charge": 100}, calls: map[eviction.Signal]int{}}
		watch := watchOwn(map[eviction.Signal]time.Duration{"battery.charge": time.Minute}, g.signal("battery.charge", "BatteryLow", nil))
		low := func(r *rig, want bool, limit time.Duration) {
			r.within(limit, fmt.Sprintf("BatteryLow %v", want), func() error {
				if is, _ := r.has("BatteryLow"); is != want {
					return errors.New("not yet")
				}
				return nil
			})
		}
		web, late := newPod("web"), newPod("late")
		r := h.agent(watch)
		r.set(web)
		r.phase(web.UID, v1.PodRunning, time.Minute)
		g.set("battery.charge", 5)
		low(r, true, 15*time.Second)
		<-time.After(40 * time.Second)
		h.kill(r)

		r = h.agent(watch)
		began := time.Now()
		r.set(web)
		low(r, true, 5*time.Second)
		r.set(web, late)
		r.within(30*time.Second, "the new pod to be refused", func() error {
			if p := r.pod(late.UID); p == nil || p.Status.Reason != "Evicted" || !strings.Contains(p.Status.Message, "[BatteryLow]") {
				return errors.New("not yet")
			}
			return nil
		})
		r.phase(web.UID, v1.PodFailed, 2*time.Minute)
		if took := time.Since(began); took < time.Minute || starts(h.rt, web.UID) != 1 {
			t.Errorf("evicted %v after the restart, %d starts", took, starts(h.rt, web.UID))
		}
		r.set(web)
		h.kill(r)

		r = h.agent(watch)
		r.set(web)
		<-time.After(2 * time.Minute)
		if st := r.pod(web.UID).Status; st.Reason != "Evicted" || !strings.Contains(st.Message, "Eviction signal battery.charge") {
			t.Errorf("while the battery is low: %s %s %s", st.Phase, st.Reason, st.Message)
		}
		g.set("battery.charge", 80)
		low(r, false, 2*time.Minute)
		r.phase(web.UID, v1.PodRunning, 3*time.Minute)
	})
}

// TestOwnSignalKilledWhileItEvicts: OS3, IN8. The agent is killed while it stops a pod for an own signal. The next
// one ends that pod before it takes another.
func TestOwnSignalKilledWhileItEvicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, g := newHost(t, fake.New(fake.Options{})), &gauges{left: map[eviction.Signal]uint64{"licence": 100}, calls: map[eviction.Signal]int{}}
		watch := watchOwn(nil, g.signal("licence", "Unlicensed", nil))
		victim, others := newPod("victim"), []*v1.Pod{newPod("a"), newPod("b"), newPod("c")}
		victim.Spec.Priority = ptr.To[int32](-1)
		pods := append(slices.Clone(others), victim)
		r := h.agent(watch)
		r.set(pods...)
		for _, p := range pods {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		answer := h.rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer, PodUID: victim.UID}, Effect: fake.Effect{Hang: true}})
		g.set("licence", 0)
		r.within(time.Minute, "the victim to be stopped", func() error {
			if len(h.rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: victim.UID})) == 0 {
				return errors.New("not yet")
			}
			return nil
		})
		h.kill(r)
		r = h.agent(watch)
		r.set(pods...)
		<-time.After(30 * time.Second)
		g.set("licence", 100)
		answer()
		r.phase(victim.UID, v1.PodFailed, time.Minute)
		<-time.After(time.Minute)
		for _, p := range others {
			if st := r.pod(p.UID).Status; st.Phase != v1.PodRunning || starts(h.rt, p.UID) != 1 {
				t.Errorf("%s: %s %s, %d starts", p.Name, st.Phase, st.Message, starts(h.rt, p.UID))
			}
		}
		if st := r.pod(victim.UID).Status; st.Reason != "Evicted" || !strings.Contains(st.Message, "Eviction signal licence") {
			t.Errorf("the victim: %s %s", st.Reason, st.Message)
		}
	})
}
