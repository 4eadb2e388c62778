package probe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
)

// meter writes down what is recorded, and asks the callbacks when the test wants.
type meter struct {
	noop.Meter
	mu       sync.Mutex
	recorded map[string]int
	callback metric.Callback
	observed []string
	refuse   bool
}

func (h histogram) Record(_ context.Context, _ float64, options ...metric.RecordOption) {
	set := metric.NewRecordConfig(options).Attributes()
	kind, _ := set.Value("probe_type")
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	h.m.recorded[h.name+" "+kind.AsString()]++
}

type histogram struct {
	noop.Float64Histogram
	m    *meter
	name string
}

type number struct {
	noop.Int64ObservableCounter
	name string
}

type gauge struct {
	noop.Int64ObservableGauge
	name string
}

type floating struct {
	noop.Float64ObservableGauge
	name string
}

func (m *meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if m.refuse {
		return nil, errors.New("no")
	}
	return histogram{m: m, name: name}, nil
}

func (m *meter) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return number{name: name}, nil
}

func (m *meter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return gauge{name: name}, nil
}

func (m *meter) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return floating{name: name}, nil
}

func (m *meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.callback = f
	return noop.Registration{}, nil
}

// observer takes what a callback says.
type observer struct {
	noop.Observer
	m *meter
}

func (o observer) ObserveInt64(i metric.Int64Observable, value int64, options ...metric.ObserveOption) {
	name := ""
	switch i := i.(type) {
	case number:
		name = i.name
	case gauge:
		name = i.name
	}
	set := metric.NewObserveConfig(options).Attributes()
	var labels []string
	for _, kv := range set.ToSlice() {
		labels = append(labels, string(kv.Key)+"="+kv.Value.AsString())
	}
	slices.Sort(labels)
	o.m.observed = append(o.m.observed, strings.TrimSpace(fmt.Sprintf("%s %d %s", name, value, strings.Join(labels, ","))))
}

func (o observer) ObserveFloat64(i metric.Float64Observable, value float64, _ ...metric.ObserveOption) {
	o.m.observed = append(o.m.observed, fmt.Sprintf("%s %g", i.(floating).name, value))
}

func (m *meter) read(t *testing.T) []string {
	t.Helper()
	m.observed = nil
	if err := m.callback(t.Context(), observer{m: m}); err != nil {
		t.Fatal(err)
	}
	return m.observed
}

func TestMetrics(t *testing.T) {
	bubble(t, "10.1: counts by result, durations of what did not fail, series that go with their worker", func(t *testing.T) {
		mt := &meter{recorded: map[string]int{}}
		r := newRig(t, func(o *probe.Options) { o.Meter, o.NetworkSlots = mt, 1 }).start()
		r.answers(good, bad, probe.Outcome{}, good)
		p := newPod("a", readiness(every(1)))
		r.publish(p, up("1", true, time.Now()))
		r.m.AddPod(p)
		r.pass(3500 * time.Millisecond)
		labels := "container=main,namespace=default,pod=a,pod_uid=uid-a,probe_type=Readiness,result="
		seen := mt.read(t)
		for _, want := range []string{
			"prober_probe_total 1 " + labels + "failed", "prober_probe_total 2 " + labels + "successful", "prober_probe_total 1 " + labels + "unknown",
			"podwright_probe_workers 1", "podwright_probe_queue_length 0", "podwright_probe_running 0", "podwright_probe_panics_total 0",
		} {
			if !slices.Contains(seen, want) {
				t.Errorf("no %q in %q", want, seen)
			}
		}
		if n := mt.recorded["prober_probe_duration_seconds Readiness"]; n != 3 {
			t.Errorf("%d durations", n)
		}
		if n := mt.recorded["podwright_probe_lateness_seconds "]; n != 4 {
			t.Errorf("9.3: %d latenesses", n)
		}
		// Lateness is measured (9.3): two at once, one slot.
		r.does(slow(300 * time.Millisecond))
		other := newPod("b", readiness())
		r.publish(other, up("2", true, time.Now()))
		r.m.AddPod(other)
		third := newPod("c", readiness())
		r.publish(third, up("3", true, time.Now()))
		r.m.AddPod(third)
		r.pass(100 * time.Millisecond)
		if seen := mt.read(t); !slices.Contains(seen, "podwright_probe_queue_length 1") || !slices.Contains(seen, "podwright_probe_running 1") {
			t.Errorf("%q", seen)
		}
		r.pass(300 * time.Millisecond)
		if seen := mt.read(t); !slices.Contains(seen, "podwright_probe_max_lateness_seconds 0.3") {
			t.Errorf("%q", seen)
		}
		for _, pod := range []*v1.Pod{p, other, third} {
			r.m.RemovePod(pod.UID)
		}
		for _, s := range mt.read(t) {
			if strings.HasPrefix(s, "prober_probe_total") {
				t.Errorf("still %q", s)
			}
		}
	})
	if _, err := probe.New(probe.Options{Pods: &rig{}, Meter: &meter{refuse: true}}); err == nil {
		t.Error("a meter that refuses is no error")
	}
}

// TestExplain: 2.2, where each worker is.
func TestExplain(t *testing.T) {
	bubble(t, "2.2", func(t *testing.T) {
		r := newRig(t, func(o *probe.Options) { o.NetworkSlots = 1 }).start()
		r.does(slow(500 * time.Millisecond))
		begin := time.Now()
		p := newPod("a", liveness(), readiness(), startup())
		r.publish(p, up("1", true, begin))
		r.m.AddPod(p)
		r.pass(100 * time.Millisecond)
		state := func() (out []string) {
			for _, e := range r.m.Explain(p.UID) {
				out = append(out, e.Kind+" "+e.State)
			}
			return out
		}
		if got := state(); !slices.Equal(got, []string{"Startup waiting", "Liveness running", "Readiness queued"}) {
			t.Errorf("%q", got)
		}
		r.pass(2 * time.Second)
		if got := state(); !slices.Equal(got, []string{"Startup waiting", "Liveness waiting", "Readiness waiting"}) {
			t.Errorf("%q", got)
		}
		for _, e := range r.m.Explain(p.UID) {
			switch e.Kind {
			case "Startup":
				if e.Held == "" || e.Result != "Unknown" || !e.LastRun.IsZero() {
					t.Errorf("%+v", e)
				}
			default:
				if e.Held != "" || e.Result != "Success" || e.RunLength != 1 || e.LastOutput != "fine" || !e.NextDue.Equal(begin.Add(10*time.Second)) {
					t.Errorf("%+v", e)
				}
			}
		}
		// On hold, and ended.
		r.answers(bad)
		r.pass(30 * time.Second)
		for _, e := range r.m.Explain(p.UID) {
			if e.Kind == "Liveness" && (e.Held == "" || e.Result != "Failure") {
				t.Errorf("%+v", e)
			}
		}
		r.m.RemovePod(p.UID)
		if got := state(); got != nil {
			t.Errorf("%q", got)
		}
	})
}
