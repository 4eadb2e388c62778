package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// pressed is a node whose memory is short whenever the test says so. Pods whose names begin with
// hog use more than others.
type pressed struct {
	mu    sync.Mutex
	short bool
	over  func() bool // nil: the test ends the pressure
}

func (p *pressed) press(short bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.short, p.over = short, nil
}

// pressUntil makes memory short until over, which each look at the node asks. After an eviction the
// engine looks as soon as the pod is gone, perhaps before a test has noticed: the next pod would go.
func (p *pressed) pressUntil(over func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.short, p.over = true, over
}

func (p *pressed) Node(context.Context) (map[eviction.Signal]eviction.Observation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := uint64(900)
	if p.short && (p.over == nil || !p.over()) {
		left = 50
	}
	return map[eviction.Signal]eviction.Observation{eviction.MemoryAvailable: {Available: left, Capacity: 1000}}, nil
}

func (p *pressed) Pod(_ context.Context, pod *v1.Pod, _ eviction.Signal) (eviction.Usage, error) {
	if strings.HasPrefix(pod.Name, "hog") {
		return eviction.Usage{Memory: 500}, nil
	}
	return eviction.Usage{Memory: 1}, nil
}

// watched evicts at less than 100 bytes of memory, with the default transition period.
func (p *pressed) watched(c *podwright.Config) {
	c.Eviction = &podwright.Eviction{Stats: p, Policy: eviction.Policy{
		Thresholds: []eviction.Threshold{{Signal: eviction.MemoryAvailable, Value: eviction.Value{Quantity: 100}}},
	}}
}

// outcasts is a node with quiet pods beside which others are evicted, preempted or refused.
type outcasts struct {
	t    *testing.T
	rt   *fake.Runtime
	root string
	node *pressed
	api  *mirror.FakeClient // nil: the pods are static
	rig  *rig
	pods []*v1.Pod
}

func newOutcasts(t *testing.T, api bool, quiet int) *outcasts {
	rt := byContainer(map[string]fake.Script{"deaf": {IgnoreTERM: true}})
	o := &outcasts{t: t, rt: rt, root: t.TempDir(), node: &pressed{}}
	if api {
		o.api = &mirror.FakeClient{}
	}
	for i := range quiet {
		o.pods = append(o.pods, newPod(fmt.Sprintf("quiet-%d", i)))
	}
	o.start()
	o.set(nil)
	for _, p := range o.pods {
		o.rig.phase(p.UID, v1.PodRunning, time.Minute)
	}
	return o
}

func (o *outcasts) start() {
	o.rig = newRig(o.t, o.rt, o.root, roomFor("3"), o.node.watched, func(c *podwright.Config) {
		if o.api != nil {
			c.Sources = []syncloop.Source{apiSource{api: o.api}}
		}
	}).start()
}

// set names the desired pods beside the quiet ones.
func (o *outcasts) set(pods ...*v1.Pod) {
	all := o.pods
	for _, p := range pods {
		if p != nil {
			all = append(all[:len(all):len(all)], p)
		}
	}
	if o.api == nil {
		o.rig.set(all...)
		return
	}
	for _, p := range all {
		o.api.Put(p)
	}
}

// withdraw removes a pod that set named.
func (o *outcasts) withdraw(p *v1.Pod, rest ...*v1.Pod) {
	if o.api != nil {
		_ = o.api.Delete(o.t.Context(), p.Namespace, p.Name, p.UID)
		return
	}
	o.set(rest...)
}

// restart ends the agent and starts the next.
func (o *outcasts) restart(pods ...*v1.Pod) {
	o.rig.stop()
	o.start()
	o.set(pods...)
}

// sleep waits in virtual time.
func (o *outcasts) sleep(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// evict makes the node short of memory until the pod of a name has been evicted for it.
func (o *outcasts) evict(p *v1.Pod) {
	o.t.Helper()
	o.node.pressUntil(func() bool { return o.rig.events.count(p.Name+" Evicted") > 0 })
	o.rig.phase(p.UID, v1.PodFailed, 15*time.Second)
}

// quiet checks that the other pods were left alone.
func (o *outcasts) quiet() {
	o.t.Helper()
	for _, p := range o.pods {
		if n := starts(o.rt, p.UID); n != 1 || o.rig.pod(p.UID).Status.Phase != v1.PodRunning {
			s := o.rig.pod(p.UID).Status
			o.t.Fatalf("%s: %d starts, %s %q %q, %s", p.UID, n, s.Phase, s.Reason, s.Message, o.rig.explain(p.UID))
		}
	}
}

// out checks that a pod stays out.
func (o *outcasts) out(uid types.UID, reason string, started int) {
	o.t.Helper()
	s := o.rig.pod(uid).Status
	if s.Phase != v1.PodFailed || s.Reason != reason || starts(o.rt, uid) != started {
		o.t.Fatalf("%s: %s %q after %d starts, want Failed %q after %d", uid, s.Phase, s.Reason, starts(o.rt, uid), reason, started)
	}
}

// back waits for a pod's new life, which shows nothing of the last one.
func (o *outcasts) back(uid types.UID, limit time.Duration) {
	o.t.Helper()
	o.rig.phase(uid, v1.PodRunning, limit)
	s := o.rig.pod(uid).Status
	if s.Reason != "" || s.Message != "" || disrupted(&v1.Pod{Status: s}) || s.ContainerStatuses[0].RestartCount != 0 || s.ContainerStatuses[0].LastTerminationState.Terminated != nil {
		o.t.Errorf("%s: the new life begins with %+v", uid, s)
	}
	name := strings.TrimPrefix(string(uid), "uid-")
	if said := o.rig.events.said(name + " TriedAgain"); len(said) == 0 {
		o.t.Errorf("%s: no event tells of the new life", uid)
	}
	if told, _ := o.rig.sink.of(uid); told[len(told)-1] != v1.PodRunning {
		o.t.Errorf("%s: sinks were told %v", uid, told)
	}
}

// eachOutcast runs a scene for static pods and for those of an API, with and without a
// restart of the agent in the middle of the wait.
func eachOutcast(t *testing.T, scene func(o *outcasts, pause func(d time.Duration, pods ...*v1.Pod))) {
	for _, c := range []struct {
		name          string
		api, restarts bool
	}{
		{"static", false, false}, {"static, agent killed", false, true}, {"API", true, false}, {"API, agent killed", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutcasts(t, c.api, 5)
				scene(o, func(d time.Duration, pods ...*v1.Pod) {
					o.sleep(d / 2)
					if c.restarts {
						o.restart(pods...)
					}
					o.sleep(d - d/2)
				})
				o.quiet()
			})
		})
	}
}

// TestEvictedStaticPodComesBack: IN14. The engine tries an evicted static pod again when the
// pressure has been gone for its transition period, and so does the next agent. A pod of an API
// stays Failed.
func TestEvictedStaticPodComesBack(t *testing.T) {
	t.Parallel()
	eachOutcast(t, func(o *outcasts, pause func(time.Duration, ...*v1.Pod)) {
		hog := newPod("hog")
		o.set(hog)
		o.rig.phase(hog.UID, v1.PodRunning, time.Minute)
		o.evict(hog)
		o.node.press(false)
		pause(4*time.Minute+30*time.Second, hog)
		o.out(hog.UID, "Evicted", 1)
		if o.api != nil {
			pause(20*time.Minute, hog)
			o.out(hog.UID, "Evicted", 1)
			return
		}
		if e, _ := o.rig.engine.Explain(hog.UID); !strings.HasPrefix(e.Held, "evicted; it waits: ") {
			o.t.Errorf("explained as %q", e.Held)
		}
		o.back(hog.UID, 2*time.Minute)
		pause(20*time.Minute, hog)
		if n := starts(o.rt, hog.UID); n != 2 || o.rig.pod(hog.UID).Status.Phase != v1.PodRunning {
			o.t.Errorf("later it was started %d times", n)
		}
	})
}

// TestPressureKeepsEvictedPodsOut: IN14. While the pressure lasts or keeps coming back, an
// evicted pod stays out, for a day if need be.
func TestPressureKeepsEvictedPodsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutcasts(t, false, 0)
		hog := newPod("hog")
		o.set(hog)
		o.rig.phase(hog.UID, v1.PodRunning, time.Minute)
		o.node.press(true)
		o.rig.phase(hog.UID, v1.PodFailed, 15*time.Second)
		for began := time.Now(); time.Since(began) < 24*time.Hour; {
			o.node.press(false)
			o.sleep(4 * time.Minute)
			o.node.press(true)
			o.sleep(11 * time.Second) // the engine looks at the node every 10 s
		}
		o.out(hog.UID, "Evicted", 1)
	})
}

// TestFlappingPressureStartsNoStorm: IN14. Pressure that comes back as soon as it is over stops a
// pod again, and each static pod starts at most once per period.
func TestFlappingPressureStartsNoStorm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutcasts(t, false, 1)
		var hogs []*v1.Pod
		for i := range 5 {
			hogs = append(hogs, newPod(fmt.Sprintf("hog-%d", i)))
		}
		o.set(hogs...)
		for _, p := range hogs {
			o.rig.phase(p.UID, v1.PodRunning, time.Minute)
		}
		began := time.Now()
		for time.Since(began) < 2*time.Hour {
			o.node.press(true)
			o.sleep(30 * time.Second)
			o.node.press(false)
			o.sleep(5*time.Minute + 30*time.Second)
		}
		for _, p := range hogs {
			calls := o.rt.Calls(fake.Match{Method: fake.StartContainer, PodUID: p.UID})
			for i := 1; i < len(calls); i++ {
				if gap := calls[i].Start.Sub(calls[i-1].Start); gap < 5*time.Minute {
					t.Errorf("%s was started twice within %v", p.UID, gap)
				}
			}
		}
		if first := starts(o.rt, hogs[0].UID); first < 2 {
			t.Errorf("the first came back %d times", first-1)
		}
	})
}

// TestPreemptedStaticPodComesBack: IN14. The engine tries a static pod that had to make room again as
// soon as there is room, without displacing the pod that took its place, but not twice within a period.
func TestPreemptedStaticPodComesBack(t *testing.T) {
	t.Parallel()
	eachOutcast(t, func(o *outcasts, pause func(time.Duration, ...*v1.Pod)) {
		web, dns := asking(newPod("web"), "2"), critical(asking(newPod("dns"), "2"))
		o.set(web)
		o.rig.phase(web.UID, v1.PodRunning, time.Minute)
		o.sleep(10 * time.Minute)
		o.set(web, dns)
		o.rig.phase(dns.UID, v1.PodRunning, time.Minute)
		pause(20*time.Minute, web, dns)
		o.out(web.UID, "Preempting", 1)
		o.withdraw(dns, web)
		if o.api != nil {
			pause(20*time.Minute, web)
			o.out(web.UID, "Preempting", 1)
			return
		}
		o.back(web.UID, 15*time.Second)
		again := critical(asking(newPod("again"), "2"))
		o.set(web, again)
		o.rig.phase(again.UID, v1.PodRunning, time.Minute)
		o.withdraw(again, web)
		pause(4*time.Minute, web)
		o.out(web.UID, "Preempting", 2)
		o.back(web.UID, 2*time.Minute)
	})
}

// TestRefusedStaticPodIsTriedAgain: IN14. The engine tries a static pod that was refused for lack
// of room again when there is room, after a period at the earliest and without any report until
// then. Among several pods, it tries the first that fits.
func TestRefusedStaticPodIsTriedAgain(t *testing.T) {
	t.Parallel()
	eachOutcast(t, func(o *outcasts, pause func(time.Duration, ...*v1.Pod)) {
		web, late, later := asking(newPod("web"), "2"), asking(newPod("late"), "2"), asking(newPod("later"), "2")
		o.set(web)
		o.rig.phase(web.UID, v1.PodRunning, time.Minute)
		o.set(web, late)
		o.rig.rejected(late.UID, "OutOfcpu")
		o.sleep(time.Second)
		o.set(web, late, later)
		o.rig.rejected(later.UID, "OutOfcpu")
		before := o.rig.events.count("late OutOfcpu")
		pause(20*time.Minute, web, late, later)
		o.out(late.UID, "OutOfcpu", 0)
		if n := o.rig.events.count("late OutOfcpu"); n > before {
			o.t.Errorf("%d events", n)
		}
		o.withdraw(web, late, later)
		if o.api != nil {
			pause(20*time.Minute, late, later)
			o.out(late.UID, "OutOfcpu", 0)
			return
		}
		o.back(late.UID, 15*time.Second)
		pause(20*time.Minute, late, later)
		o.out(later.UID, "OutOfcpu", 0)
	})
}

// TestPodRefusedUnderPressureIsTriedAgain: IN14, for a pod that came during the pressure.
func TestPodRefusedUnderPressureIsTriedAgain(t *testing.T) {
	t.Parallel()
	eachOutcast(t, func(o *outcasts, pause func(time.Duration, ...*v1.Pod)) {
		hog, late := newPod("hog"), newPod("late")
		o.set(hog)
		o.rig.phase(hog.UID, v1.PodRunning, time.Minute)
		o.evict(hog)
		o.node.press(false)
		o.set(hog, late)
		o.rig.rejected(late.UID, "Evicted")
		pause(4*time.Minute+30*time.Second, hog, late)
		o.out(late.UID, "Evicted", 0)
		if o.api != nil {
			pause(20*time.Minute, hog, late)
			o.out(late.UID, "Evicted", 0)
			return
		}
		o.back(late.UID, 2*time.Minute)
	})
}

// TestPodStoppedByACancelledShutdownComesBack: IN14: static pods that a cancelled shutdown stopped
// run again, as after a completed one.
func TestPodStoppedByACancelledShutdownComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutcasts(t, false, 2)
		slow := withPriority(newPod("slow", "deaf"), 100)
		slow.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
		o.set(slow)
		o.rig.phase(slow.UID, v1.PodRunning, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Second, cancel)
		if _, err := o.rig.engine.Shutdown(ctx, shutdown.Plan{Groups: []shutdown.Group{{Priority: 0, Time: 20 * time.Second}, {Priority: 100, Time: time.Hour}}}); err == nil {
			t.Fatal("the shutdown was not cancelled")
		}
		again := func(p *v1.Pod, limit time.Duration) {
			o.rig.phase(p.UID, v1.PodRunning, limit)
			if n := starts(o.rt, p.UID); n != 2 || o.rig.pod(p.UID).Status.Reason != "" {
				t.Errorf("%s: %d starts, status %+v", p.UID, n, o.rig.pod(p.UID).Status)
			}
		}
		for _, p := range o.pods {
			again(p, 10*time.Second)
		}
		again(slow, 15*time.Minute)
	})
}

// TestCrowdOfEvictedPodsComesBack: IN14, IN2: all evicted pods come back together, a period after
// the pressure, and the others are left alone.
func TestCrowdOfEvictedPodsComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newOutcasts(t, false, 20)
		var hogs []*v1.Pod
		for i := range 100 {
			hogs = append(hogs, newPod(fmt.Sprintf("hog-%d", i)))
		}
		o.set(hogs...)
		gone := func() bool { return o.rig.events.count("hog-99 Evicted") > 0 }
		o.node.pressUntil(gone)
		o.rig.within(30*time.Minute, "all to be evicted", func() error {
			if !gone() {
				return errors.New("hog-99 runs")
			}
			return nil
		})
		o.node.press(false)
		o.sleep(4 * time.Minute)
		evicted := 0
		for _, p := range hogs {
			if o.rig.pod(p.UID).Status.Phase == v1.PodFailed {
				evicted++
			}
		}
		if evicted < 50 {
			t.Fatalf("only %d were evicted", evicted)
		}
		o.sleep(75 * time.Second)
		for _, p := range hogs {
			o.rig.phase(p.UID, v1.PodRunning, time.Second)
		}
		o.quiet()
	})
}

// TestReturningStaticPodGetsANewMirror: IN14, MC5. The mirror pod of a static pod that was evicted
// is Failed at its API. The new life takes over neither that end nor that mirror.
func TestReturningStaticPodGetsANewMirror(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restarts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { returnBesideMirror(t, restarts) })
		})
	}
}

func returnBesideMirror(t *testing.T, restarts bool) {
	api, rt, root, node := &mirror.FakeClient{}, fake.New(fake.Options{}), t.TempDir(), &pressed{}
	self := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}
	start := func() *rig {
		return newRig(t, rt, root, node.watched, func(c *podwright.Config) {
			c.Sources = append(c.Sources, apiSource{api: api})
			c.Mirrors = mirror.Options{Client: api, Node: func() *v1.Node { return self }}
		}).start()
	}
	r, hog := start(), newPod("hog")
	r.set(hog)
	r.phase(hog.UID, v1.PodRunning, time.Minute)
	<-time.After(5 * time.Second)
	node.press(true)
	r.phase(hog.UID, v1.PodFailed, 15*time.Second)
	node.press(false)
	pods, _ := api.Pods()
	if len(pods) != 1 {
		t.Fatalf("%d mirrors", len(pods))
	}
	told := pods[0].DeepCopy()
	told.Status = r.pod(hog.UID).Status
	api.Put(told)
	<-time.After(2 * time.Minute)
	if restarts {
		r.stop()
		r = start()
		r.set(hog)
	}
	<-time.After(2 * time.Minute)
	r.phase(hog.UID, v1.PodRunning, 3*time.Minute)
	r.within(time.Minute, "a mirror of the new life", func() error {
		pods, _ := api.Pods()
		if len(pods) != 1 || pods[0].UID == told.UID {
			return fmt.Errorf("%d mirrors", len(pods))
		}
		return nil
	})
	<-time.After(10 * time.Minute)
	if s := r.pod(hog.UID).Status; s.Phase != v1.PodRunning || s.Reason != "" || starts(rt, hog.UID) != 2 {
		t.Errorf("later: %d starts, %+v", starts(rt, hog.UID), s)
	}
}
