package syncloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// story drives a loop with two sources by a seed and returns what happened.
func story(t *testing.T, seed uint64) []string {
	t.Helper()
	l, events, c := &log{}, newEventSet(), clocktesting.NewFakeClock(start)
	loop, err := New(l.Dispatch, Options{
		Sources: []Source{newScripted("a"), newScripted("b")}, Changes: events, Clock: c,
		Housekeeper: housekeeperFunc(func(context.Context, func(func())) error { l.add("pass"); return nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStepper(loop, seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := loop.Run(t.Context()); !errors.Is(err, errRunning) {
		t.Errorf("Run beside a stepper: %v", err)
	}
	if err := s.Deliver(t.Context(), "unknown", nil); err == nil {
		t.Error("a unknown source")
	}
	for round := range 4 {
		for _, source := range []string{"a", "b"} {
			var pods []*v1.Pod
			for i := range 3 {
				name := fmt.Sprintf("%s%d", source, i)
				if (round+i)%3 != 0 {
					pods = append(pods, newPod(name, name, image(fmt.Sprintf("app:%d", round))))
				}
			}
			if err := s.Deliver(t.Context(), source, pods); err != nil {
				t.Fatal(err)
			}
		}
		events.add("a1", "b1")
		c.Step(3 * time.Second)
		for range 5 {
			s.Step(t.Context())
		}
	}
	for s.Step(t.Context()) {
	}
	var left []string
	for _, p := range loop.Store().Pods() {
		left = append(left, string(p.UID)+" "+p.Spec.Containers[0].Image)
	}
	if got := strings.Join(left, ", "); got != "a1 app:3, a2 app:3, b1 app:3, b2 app:3" {
		t.Errorf("seed %d: left %s", seed, got)
	}
	return l.take()
}

// TestStepper: B8. The order follows from the seed alone; every order ends in the same
// state, and housekeeping waits until the sources are ready.
func TestStepper(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(50) {
		first := story(t, seed)
		if again := story(t, seed); !slices.Equal(first, again) {
			t.Fatalf("seed %d:\n%v\n%v", seed, first, again)
		}
		orders[strings.Join(first, ",")] = true
		for _, uid := range []string{"a1", "b2"} { // SI1 for each pod
			var of []string
			for _, line := range first {
				if strings.HasSuffix(line, " "+uid) && !strings.HasPrefix(line, "sync") {
					of = append(of, strings.Fields(line)[0])
				}
			}
			if of[0] != "create" || slices.Contains(of, "kill") && of[slices.Index(of, "kill")+1] != "create" {
				t.Errorf("seed %d, %s: %v", seed, uid, of)
			}
		}
		if !slices.Contains(first, "pass") {
			t.Errorf("seed %d: no housekeeping: %v", seed, first)
		}
	}
	if len(orders) < 10 {
		t.Errorf("50 seeds led to %d orders", len(orders))
	}
}

// TestStepperFull: M2. Nothing is lost when more is delivered than the queue takes.
func TestStepperFull(t *testing.T) {
	l := &log{}
	loop, err := New(l.Dispatch, Options{Sources: []Source{newScripted("a")}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStepper(loop, 1)
	if err != nil {
		t.Fatal(err)
	}
	var full error
	n := 0
	for ; full == nil && n < 1000; n++ {
		full = s.Deliver(t.Context(), "a", []*v1.Pod{newPod("a", "a", image(fmt.Sprint(n)))})
	}
	if !errors.Is(full, errFull) {
		t.Fatalf("after %d: %v", n, full)
	}
	for s.Step(t.Context()) {
	}
	if got := len(l.take()); got != n-1 {
		t.Errorf("%d of %d messages were handled", got, n-1)
	}
}
