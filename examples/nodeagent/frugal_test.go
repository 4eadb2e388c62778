package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// An agent takes one processor and half of Go's usual garbage, unless the environment says otherwise.
func TestAgentIsFrugalUnlessTold(t *testing.T) {
	processors, garbage := runtime.GOMAXPROCS(3), debug.SetGCPercent(70)
	defer func() {
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(garbage)
	}()
	want := func(processors, garbage int) {
		t.Helper()
		now := debug.SetGCPercent(garbage)
		if got := runtime.GOMAXPROCS(0); got != processors || now != garbage {
			t.Errorf("%d processors and %d %% garbage, want %d and %d", got, now, processors, garbage)
		}
	}
	t.Setenv("GOMAXPROCS", "3")
	t.Setenv("GOGC", "70")
	frugal()
	want(3, 70)
	t.Setenv("GOGC", "")
	frugal()
	want(3, frugalGC)
	t.Setenv("GOMAXPROCS", "")
	if n := frugal(); n != 3 {
		t.Errorf("there are %d processors, want 3", n)
	}
	want(frugalProcessors, frugalGC)
}
