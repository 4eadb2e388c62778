package fake_test

import (
	"testing"
	"testing/synctest"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/fake/faketest"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// factory makes a new fake for each case.
func factory(*testing.T) runtimetest.Subject {
	f := fake.New(faketest.Options())
	return faketest.Subject(f, f)
}

// The fake in process, in virtual time: waits cost nothing.
func TestConformance(t *testing.T) {
	for _, c := range runtimetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, factory) })
		})
	}
}

// The same in real time, as the suite runs on real runtimes.
func TestConformanceRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("real time")
	}
	runtimetest.Run(t, factory)
}
