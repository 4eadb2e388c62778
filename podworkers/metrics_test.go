package podworkers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// labels writes a set as k=v.
type labels struct{}

func (labels) ID() attribute.EncoderID { return attribute.NewEncoderID() }

func (labels) Encode(i attribute.Iterator) string {
	var all []string
	for i.Next() {
		kv := i.Attribute()
		all = append(all, string(kv.Key)+"="+kv.Value.String())
	}
	return strings.Join(all, ",")
}

// recordingMeter is a meter that writes down what it is given.
type recordingMeter struct {
	noop.Meter
	log
	mu       sync.Mutex
	callback metric.Callback
	refuse   bool
	ended    bool
}

type recorder struct {
	noop.Float64Histogram
	meter *recordingMeter
	name  string
}

func (r recorder) Record(_ context.Context, value float64, options ...metric.RecordOption) {
	config := metric.NewRecordConfig(options)
	set := config.Attributes()
	r.meter.add("%s %v %s", r.name, value, set.Encoded(labels{}))
}

type counter struct {
	noop.Int64Counter
	meter *recordingMeter
	name  string
}

func (c counter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	config := metric.NewAddConfig(options)
	set := config.Attributes()
	c.meter.add("%s %d %s", c.name, n, set.Encoded(labels{}))
}

type intRecorder struct {
	noop.Int64Histogram
	meter *recordingMeter
	name  string
}

func (r intRecorder) Record(_ context.Context, value int64, _ ...metric.RecordOption) {
	r.meter.add("%s %d", r.name, value)
}

type gauge struct {
	noop.Int64ObservableGauge
	name string
}

func (m *recordingMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if m.refuse {
		return noop.Float64Histogram{}, errors.New("no")
	}
	return recorder{meter: m, name: name}, nil
}

func (m *recordingMeter) Int64Histogram(name string, _ ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return intRecorder{meter: m, name: name}, nil
}

func (m *recordingMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{meter: m, name: name}, nil
}

func (m *recordingMeter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return gauge{name: name}, nil
}

func (m *recordingMeter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.callback = f
	return registration{meter: m}, nil
}

type registration struct {
	noop.Registration
	meter *recordingMeter
}

func (r registration) Unregister() error {
	r.meter.mu.Lock()
	defer r.meter.mu.Unlock()
	r.meter.ended = true
	return nil
}

// gauges reads the gauges.
func (m *recordingMeter) gauges(t *testing.T) []string {
	t.Helper()
	o := &observer{}
	if err := m.callback(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	slices.Sort(o.lines)
	return o.lines
}

type observer struct {
	noop.Observer
	lines []string
}

func (o *observer) ObserveInt64(g metric.Int64Observable, value int64, options ...metric.ObserveOption) {
	config := metric.NewObserveConfig(options)
	set := config.Attributes()
	if value != 0 {
		name := ""
		if named, ok := g.(gauge); ok {
			name = named.name
		}
		o.lines = append(o.lines, strings.TrimSpace(fmt.Sprintf("%s %d %s", name, value, set.Encoded(labels{}))))
	}
}

// Section 14: names, labels and values.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recordingMeter{}
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(ctx context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
				switch pod.UID {
				case "panics":
					panic("boom")
				case "hangs":
					return podworkers.SyncResult{}, untilCancelled(ctx)
				}
				pass(time.Second)
				return podworkers.SyncResult{}, nil
			},
		}, podworkers.Options{Meter: m, MaxSetup: 1, Rand: func() float64 { return 0 }})
		stop := run(t, w)
		synctest.Wait()
		update := create(newPod("a"))
		update.StartTime = time.Now().Add(-time.Second)
		w.UpdatePod(update)
		w.UpdatePod(create(newPod("b")))
		synctest.Wait()
		want := []string{"podwright_pod_worker_calls_in_flight 1 phase=setup", "podwright_pod_worker_queue_length 1"}
		if got := m.gauges(t); !slices.Equal(got, want) {
			t.Errorf("gauges %q, want %q", got, want)
		}
		pass(3 * time.Second)
		w.UpdatePod(create(newPod("panics")))
		w.UpdatePod(create(newPod("hangs")))
		synctest.Wait()
		w.UpdatePod(kill(newPod("hangs"), podworkers.KillOptions{}))
		synctest.Wait()
		got := strings.Join(m.take(), "\n")
		for _, line := range []string{
			"kubelet_pod_worker_duration_seconds 2 operation_type=create",
			"kubelet_pod_worker_start_duration_seconds 0 ",
			"kubelet_pod_worker_start_duration_seconds 1 ",
			"kubelet_containers_per_pod_count 1",
			"podwright_pod_worker_panics_total 1 phase=setup",
			"podwright_pod_worker_backoff_seconds 1 phase=setup",
			"podwright_pod_worker_cancels_total 1 cause=terminating",
			"podwright_pod_worker_state_seconds 0 state=queued",
		} {
			if !strings.Contains(got, line) {
				t.Errorf("%q is missing in\n%s", line, got)
			}
		}
		stop()
		if !m.ended {
			t.Error("the gauges are still registered")
		}
	})
}

// A meter that refuses is no reason to fail.
func TestMeterRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		w := podworkers.New(logging(&l), podworkers.Options{Meter: &recordingMeter{refuse: true}})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		expect(t, &l, "setup a create")
	})
}
