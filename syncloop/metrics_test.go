package syncloop

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// meter sums what is counted and counts what is measured, by name and attributes.
type meter struct {
	noop.Meter
	mu       sync.Mutex
	values   map[string]float64
	callback metric.Callback
	fail     string
}

func newMeter() *meter { return &meter{values: map[string]float64{}} }

func (m *meter) add(name string, set attribute.Set, v float64) {
	if set.Len() > 0 {
		name += "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[name] += v
}

func (m *meter) take() map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.values
	m.values = map[string]float64{}
	return v
}

func (m *meter) err(name string) error {
	if name == m.fail {
		return errors.New("no instrument for you")
	}
	return nil
}

type intCounter struct {
	noop.Int64Counter
	name string
	m    *meter
}

func (c intCounter) Add(_ context.Context, v int64, o ...metric.AddOption) {
	c.m.add(c.name, metric.NewAddConfig(o).Attributes(), float64(v))
}

type floatCounter struct {
	noop.Float64Counter
	name string
	m    *meter
}

func (c floatCounter) Add(_ context.Context, v float64, o ...metric.AddOption) {
	c.m.add(c.name, metric.NewAddConfig(o).Attributes(), v)
}

type histogram struct {
	noop.Float64Histogram
	name string
	m    *meter
}

func (h histogram) Record(_ context.Context, _ float64, o ...metric.RecordOption) {
	h.m.add(h.name, metric.NewRecordConfig(o).Attributes(), 1)
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return intCounter{name: name, m: m}, m.err(name)
}

func (m *meter) Float64Counter(name string, _ ...metric.Float64CounterOption) (metric.Float64Counter, error) {
	return floatCounter{name: name, m: m}, m.err(name)
}

func (m *meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{name: name, m: m}, m.err(name)
}

type (
	intGauge struct {
		noop.Int64ObservableGauge
		name string
	}
	floatGauge struct {
		noop.Float64ObservableGauge
		name string
	}
)

func (m *meter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return intGauge{name: name}, m.err(name)
}

func (m *meter) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return floatGauge{name: name}, m.err(name)
}

func (m *meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.callback = f
	return unregister{m: m}, nil
}

type unregister struct {
	noop.Registration
	m *meter
}

func (u unregister) Unregister() error {
	u.m.callback = nil
	return nil
}

type observer struct {
	noop.Observer
	m *meter
}

func (o observer) ObserveInt64(g metric.Int64Observable, v int64, options ...metric.ObserveOption) {
	o.m.add(g.(intGauge).name, metric.NewObserveConfig(options).Attributes(), float64(v))
}

func (o observer) ObserveFloat64(g metric.Float64Observable, v float64, options ...metric.ObserveOption) {
	o.m.add(g.(floatGauge).name, metric.NewObserveConfig(options).Attributes(), v)
}

func TestMetrics(t *testing.T) { // B10
	synctest.Test(t, func(t *testing.T) {
		source, l, m := newScripted("file"), &log{}, newMeter()
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
			if diff := cmp.Diff(values, m.take()); diff != "" {
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
		m.take()
		pass(10 * time.Second)
		if err := m.callback(t.Context(), observer{m: m}); err != nil {
			t.Fatal(err)
		}
		gate(nil)
		pass(10 * time.Second)
		synctest.Wait()
		got := m.take()
		if s := got["podwright_syncloop_gate_closed_seconds_total"]; s < 10 || s > 15 {
			t.Errorf("the gate was closed for %v s, measured %v", 10, s)
		}
		if got["podwright_syncloop_held_pods"] != 1 || got["podwright_syncloop_source_age_seconds{source=file}"] != 10 {
			t.Errorf("gauges: %v", got)
		}
		pass(time.Minute)
		want("an open gate is not asked for ever", map[string]float64{})

		l.on(func(Work) { panic("dispatcher bug") })
		events.add("a")
		synctest.Wait()
		if got := m.take()["podwright_syncloop_handler_panics_total{where=dispatcher}"]; got != 1 {
			t.Errorf("%v panics", got)
		}
		l.on(nil)
		pass(time.Second)
		synctest.Wait()
		m.take()
		source.end(errors.New("watch broke"))
		want("a source fails", map[string]float64{"podwright_syncloop_source_failures_total{source=file}": 1})
		_ = stop()
		if m.callback != nil {
			t.Error("the gauges outlive the loop")
		}
	})
}

func TestNoInstruments(t *testing.T) {
	for _, name := range []string{
		"podwright_syncloop_operations_total", "podwright_syncloop_handler_panics_total", "podwright_syncloop_queue_age_seconds", "podwright_syncloop_gate_closed_seconds_total",
		"podwright_syncloop_source_age_seconds", "podwright_syncloop_held_pods",
	} {
		m := newMeter()
		m.fail = name
		if _, err := New((&log{}).Dispatch, Options{Meter: m}); err == nil {
			t.Errorf("New without %s succeeds", name)
		}
	}
}
