package sourcetest

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/syncloop"
)

func nameStays(e *env) {
	before := e.Source.Name()
	if before == "" {
		e.Error("the name is empty")
	}
	l := e.run()
	e.set(pod("a"))
	l.await(uid("a"))
	if after := e.Source.Name(); after != before {
		e.Errorf("the name was %q and is %q", before, after)
	}
}

// podsHaveIdentity: the loop tells pods apart by UID; a pod delivered before keeps its UID.
func podsHaveIdentity(e *env) {
	l := e.run()
	e.set(pod("a"), pod("b"))
	l.await(uid("a"), uid("b"))
	e.set(pod("b"), pod("a"), pod("c"))
	names := map[string]bool{}
	for _, p := range l.await(uid("a"), uid("b"), uid("c")) {
		if p.Name == "" || p.Namespace == "" {
			e.Errorf("pod %s has name %q and namespace %q", p.UID, p.Name, p.Namespace)
		}
		if full := p.Namespace + "/" + p.Name; names[full] {
			e.Errorf("two pods are called %s", full)
		} else {
			names[full] = true
		}
	}
}

func setsAreFull(e *env) {
	l := e.run()
	e.set(pod("a"))
	l.await(uid("a"))
	before := len(l.all())
	e.set(pod("a"), pod("b"))
	l.await(uid("a"), uid("b"))
	for _, set := range l.all()[before:] {
		if !slices.Contains(uidsOf(set), uid("a")) {
			e.Errorf("a set lacks pod a, which is wanted all the time: %s", describe(l.all()))
		}
	}
}

// nothingIsASet: a source that never delivers a set counts as not seen, and holds up housekeeping.
func nothingIsASet(e *env) {
	l := e.run()
	e.set()
	l.await()
}

func goneIsLeftOut(e *env) {
	l := e.run()
	e.set(pod("a"), pod("b"))
	l.await(uid("a"), uid("b"))
	e.set(pod("b"))
	l.await(uid("b"))
	e.set()
	l.await()
}

func changesArrive(e *env) {
	l := e.run()
	e.set(pod("a"))
	l.await(uid("a"))
	changed := pod("a")
	changed.Spec.Containers[0].Image = "example.com/app:2"
	e.set(changed)
	l.awaitThat("pod a with its new image", func(set []*v1.Pod) bool {
		return len(set) == 1 && set[0].UID == uid("a") && set[0].Spec.Containers[0].Image == "example.com/app:2"
	})
}

func podsComeOnce(e *env) {
	l := e.run()
	e.set(pod("a"))
	l.await(uid("a"))
	e.set(pod("a"), pod("b"))
	l.awaitThat("a set with pod b", func(set []*v1.Pod) bool { return slices.Contains(uidsOf(set), uid("b")) })
	for _, set := range l.all() {
		uids := sorted(uidsOf(set))
		if len(slices.Compact(slices.Clone(uids))) != len(uids) {
			e.Errorf("a pod is twice in the set %v", uids)
		}
	}
}

// unreadableKeeps: an error never removes a pod.
func unreadableKeeps(e *env) {
	l := e.run()
	e.set(pod("a"), pod("b"))
	l.await(uid("a"), uid("b"))
	before := len(l.all())
	e.breaks(true)
	e.breaks(false)
	e.set(pod("a"), pod("b"), pod("c"))
	l.await(uid("a"), uid("b"), uid("c"))
	e.keeps(l.all()[before:], "while the origin could not be read")
}

// keeps checks that pods a and b are in each set.
func (e *env) keeps(sets [][]*v1.Pod, when string) {
	e.Helper()
	for _, set := range sets {
		if uids := uidsOf(set); !slices.Contains(uids, uid("a")) || !slices.Contains(uids, uid("b")) {
			e.Errorf("a set lacks pods that are wanted all the time, %s: %s", when, describe(sets))
			return
		}
	}
}

// brokenStartRemovesNothing: the loop restarts a source that failed.
func brokenStartRemovesNothing(e *env) {
	first := e.run()
	e.set(pod("a"), pod("b"))
	first.await(uid("a"), uid("b"))
	e.breaks(true)
	first.end()
	second := e.run()
	e.pause() // the source meets the broken origin
	e.breaks(false)
	e.set(pod("a"), pod("b"), pod("c"))
	second.await(uid("a"), uid("b"), uid("c"))
	e.keeps(second.all(), "in a run that began while the origin could not be read")
}

func healthIsTold(e *env) {
	reporter, ok := e.Source.(syncloop.HealthReporter)
	if !ok {
		e.Skip("the source reports no health")
	}
	l := e.run()
	e.set(pod("a"))
	l.await(uid("a"))
	e.health(reporter, "that the origin is read", func(h syncloop.SourceHealth) bool { return h.LastError == nil && !h.LastSuccess.IsZero() })
	e.breaks(true)
	e.health(reporter, "that it cannot be", func(h syncloop.SourceHealth) bool { return h.LastError != nil && !h.LastErrorAt.IsZero() })
	e.breaks(false)
	e.health(reporter, "that it is read again", func(h syncloop.SourceHealth) bool { return h.LastError == nil })
}

// health waits until the source's health satisfies ok.
func (e *env) health(reporter syncloop.HealthReporter, what string, ok func(syncloop.SourceHealth) bool) {
	e.Helper()
	ticker := e.Clock.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for !ok(reporter.Health()) {
		select {
		case <-ticker.C():
		case <-e.ctx.Done():
			e.Fatalf("Health does not say %s within %v: %+v", what, e.Timeout, reporter.Health())
		}
	}
}

// laterRunIsFull: the pods that one run has delivered belong to the set of the next run too.
func laterRunIsFull(e *env) {
	first := e.run()
	e.set(pod("a"), pod("b"))
	first.await(uid("a"), uid("b"))
	first.end()
	second := e.run()
	e.set(pod("a"), pod("b"), pod("c"))
	second.await(uid("a"), uid("b"), uid("c"))
	e.keeps(second.all(), "in a second run")
}

func slowLoopLosesNothing(e *env) {
	l := e.run()
	e.set(pod("a"))
	l.await(uid("a"))
	release := l.stall()
	defer release()
	done := make(chan error, 2)
	go func() { done <- e.Set(e.ctx, pod("a"), pod("b")) }()
	e.waitHeld(l)
	go func() { done <- e.Set(e.ctx, pod("a"), pod("b"), pod("c")) }()
	e.pause() // one of them returns at once, or both wait
	release()
	for range 2 {
		if err := <-done; err != nil {
			e.Errorf("Set: %v", err)
		}
	}
	l.await(uid("a"), uid("b"), uid("c"))
}

// pause gives the source time for actions that nothing reports.
func (e *env) pause() {
	e.Helper()
	if err := timing.Sleep(e.ctx, e.Clock, time.Second); err != nil {
		e.Fatalf("the case's time is over: %v", err)
	}
}

// waitHeld waits until a delivery is held up.
func (e *env) waitHeld(l *loop) {
	e.Helper()
	select {
	case <-l.held:
	case <-e.ctx.Done():
		e.Fatalf("no delivery of a change within %v", e.Timeout)
	}
}

func runEnds(e *env) {
	l := e.run()
	e.set(pod("a"))
	l.await(uid("a"))
	l.end()
	e.run().end()
	e.pause() // the kit would notice a delivery after that
}

func runEndsWhileHeld(e *env) {
	l := e.run()
	e.set(pod("a"))
	l.await(uid("a"))
	defer l.stall()()
	done := make(chan error, 1)
	go func() { done <- e.Set(e.ctx, pod("a"), pod("b")) }()
	e.waitHeld(l)
	l.end()
	<-done // an error is fine
}
