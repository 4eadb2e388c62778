package status

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"
)

// meter is an OpenTelemetry meter that counts, as far as this package uses one.
type meter struct {
	noop.Meter
	counts   map[string]int64 // by name and attributes
	observed []metric.Callback
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{meter: m, name: name}, nil
}

func (m *meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{meter: m, name: name}, nil
}

func (m *meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.observed = append(m.observed, f)
	return noop.Registration{}, nil
}

type counter struct {
	noop.Int64Counter
	meter *meter
	name  string
}

func (c counter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	set := metric.NewAddConfig(options).Attributes()
	c.meter.counts[c.name+text(set)] += n
}

type histogram struct {
	noop.Float64Histogram
	meter *meter
	name  string
}

func (h histogram) Record(_ context.Context, _ float64, options ...metric.RecordOption) {
	set := metric.NewRecordConfig(options).Attributes()
	h.meter.counts[h.name+text(set)]++
}

type observer struct {
	noop.Observer
	counts map[string]int64
}

func (o observer) ObserveInt64(_ metric.Int64Observable, n int64, options ...metric.ObserveOption) {
	set := metric.NewObserveConfig(options).Attributes()
	o.counts[text(set)] = n
}

func text(set attribute.Set) string { return "{" + set.Encoded(attribute.DefaultEncoder()) + "}" }

// TestMetrics: the instruments exist under their names and count.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		otel := &meter{counts: map[string]int64{}}
		m := started(t, Options{Sinks: []StatusSink{NewChannelSink(10)}, Meter: otel})
		pod := newPod(policy(never), apps("a0"), deleted)
		running := withPhase(v1.PodRunning, scene(newPod(), "A T0"))
		set(t, m, pod, running)
		synctest.Wait()
		set(t, m, pod, running) // forced, and the sink has it
		synctest.Wait()
		alive := newPod(uid("alive"))
		set(t, m, alive, message("up"))
		set(t, m, alive, message("up"))
		_ = m.SetPodStatus(pod, *scene(newPod(), "A R"))
		synctest.Wait()
		want := map[string]int64{
			"podwright_status_sends_total{result=stored,sink=channel}":  2,
			"podwright_status_sends_total{result=skipped,sink=channel}": 1,
			"kubelet_pod_status_sync_duration_seconds{sink=channel}":    2,
		}
		if !maps.Equal(otel.counts, want) {
			t.Errorf("%v, want %v", otel.counts, want)
		}
		updates := observer{counts: map[string]int64{}}
		for _, f := range otel.observed {
			if err := f(t.Context(), updates); err != nil {
				t.Error(err)
			}
		}
		want = map[string]int64{"{result=accepted}": 3, "{result=unchanged}": 1, "{result=illegal}": 1}
		if !maps.Equal(updates.counts, want) {
			t.Errorf("%v, want %v", updates.counts, want)
		}
	})
}
