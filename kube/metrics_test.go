package kube

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright"
)

// served makes an agent with a server for an engine, and returns what its metrics page shows.
func served(t *testing.T, c *podwright.Config) prometheus.Gatherer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	a, err := New(Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}, Server: Server{
		Listener: l, Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil },
	}}, c)
	if err != nil {
		t.Fatal(err)
	}
	return a.options.Server.Metrics
}

// gather returns the families of a page by name.
func gather(t *testing.T, from prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]*dto.MetricFamily{}
	for _, family := range all {
		named[family.GetName()] = family
	}
	return named
}

// TestMetricsOfTheEngine (KH7): the server shows the engine's instruments under their own names and with their own labels
// alone, however many series there are, and none of a pod that is gone; beside them those of Go and the process.
func TestMetricsOfTheEngine(t *testing.T) {
	c := newConfig(t)
	page := served(t, &c)
	if _, err := podwright.New(c); err != nil {
		t.Fatal(err)
	}
	m := c.Observe.MeterProvider.Meter("test")
	counter, err := m.Int64Counter("kubelet_evented_test_count", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 2)
	pods := 5000
	_, err = m.Int64ObservableCounter("prober_test_total", metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		for i := range pods {
			o.Observe(1, metric.WithAttributes(attribute.String("pod", strconv.Itoa(i))))
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	all := gather(t, page)
	if got := all["kubelet_evented_test_count"].GetMetric(); len(got) != 1 || got[0].GetCounter().GetValue() != 2 || len(got[0].GetLabel()) != 0 {
		t.Errorf("a counter: %v", got)
	}
	if got := len(all["prober_test_total"].GetMetric()); got != 5000 {
		t.Errorf("%d series of 5000 pods", got)
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if len(all[name].GetMetric()) != 1 {
			t.Errorf("no %s", name)
		}
	}
	if all["target_info"] != nil {
		t.Error("target_info, which no kubelet has")
	}
	pods = 1
	if got := len(gather(t, page)["prober_test_total"].GetMetric()); got != 1 {
		t.Errorf("%d series of 1 pod that is left", got)
	}
}

// TestOwnMetrics: an agent's own meter provider stays.
func TestOwnMetrics(t *testing.T) {
	c := newConfig(t)
	c.Observe.MeterProvider = noop.NewMeterProvider()
	if page := served(t, &c); page != nil || c.Observe.MeterProvider != any(noop.NewMeterProvider()) {
		t.Errorf("%v, %v", page, c.Observe.MeterProvider)
	}
}
