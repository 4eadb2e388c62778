package syncloop

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
)

func TestMetrics(t *testing.T) { // B10
	synctest.Test(t, func(t *testing.T) {
		source, l, m := newScripted("file"), &log{}, &instrumenttest.Meter{}
		events := newEventSet()
		var mu sync.Mutex
		var closed error
		gate := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			closed = err
		}
		_, stop := run(t, l, Options{Sources: []Source{source}, Changes: events, Meter: m, Gate: func() error {
			mu.Lock()
			defer mu.Unlock()
			return closed
		}})
		want := func(what string, values map[string]float64) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(values, m.Take()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		source.set(newPod("a", "a"), newPod("b", "b"), newPod("c", "a"))
		want("a set", map[string]float64{
			"podwright_syncloop_operations_total{operation=ADD,source=file}": 2, "podwright_syncloop_refused_pods_total{source=file}": 1,
			"podwright_syncloop_iteration_duration_seconds{input=operation}": 1, "podwright_syncloop_queue_age_seconds": 1,
		})
		events.add("a")
		want("an event", map[string]float64{"podwright_syncloop_iteration_duration_seconds{input=event}": 1})

		gate(errors.New("runtime is down"))
		events.add("a")
		synctest.Wait()
		m.Take()
		pass(10 * time.Second)
		gauges := m.Read(t.Context())
		gate(nil)
		pass(10 * time.Second)
		synctest.Wait()
		got := m.Take()
		if s := got["podwright_syncloop_gate_closed_seconds_total"]; s < 10 || s > 15 {
			t.Errorf("the gate was closed for %v s, measured %v", 10, s)
		}
		if gauges["podwright_syncloop_held_pods"] != 1 || gauges["podwright_syncloop_source_age_seconds{source=file}"] != 10 {
			t.Errorf("gauges: %v", gauges)
		}
		pass(time.Minute)
		want("an open gate is not asked forever", map[string]float64{})

		l.on(func(Work) { panic("dispatcher bug") })
		events.add("a")
		synctest.Wait()
		if got := m.Take()["podwright_syncloop_handler_panics_total{where=dispatcher}"]; got != 1 {
			t.Errorf("%v panics", got)
		}
		l.on(nil)
		pass(time.Second)
		synctest.Wait()
		m.Take()
		source.end(errors.New("watch broke"))
		want("a source fails", map[string]float64{"podwright_syncloop_source_failures_total{source=file}": 1})
		_ = stop()
		if len(m.Read(t.Context())) > 0 {
			t.Error("the gauges outlive the loop")
		}
	})
}

func TestNoInstruments(t *testing.T) {
	for _, name := range []string{
		"podwright_syncloop_operations_total", "podwright_syncloop_handler_panics_total", "podwright_syncloop_queue_age_seconds", "podwright_syncloop_gate_closed_seconds_total",
		"podwright_syncloop_source_age_seconds", "podwright_syncloop_held_pods",
	} {
		m := &instrumenttest.Meter{Refuse: []string{name}}
		if _, err := New((&log{}).Dispatch, Options{Meter: m}); err == nil {
			t.Errorf("New without %s succeeds", name)
		}
	}
}
