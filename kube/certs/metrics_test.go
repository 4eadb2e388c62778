package certs

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// meter keeps what its instruments count, and can be read as a scrape does.
type meter struct {
	noop.Meter
	counts   map[string]int64
	observed map[string]float64
	read     metric.Callback
}

type counter struct {
	noop.Int64Counter
	m    *meter
	name string
}

func (c counter) Add(_ context.Context, n int64, _ ...metric.AddOption) { c.m.counts[c.name] += n }

type gauge struct {
	noop.Float64ObservableGauge
	name string
}

type observer struct {
	noop.Observer
	m *meter
}

func (o observer) ObserveFloat64(g metric.Float64Observable, v float64, _ ...metric.ObserveOption) {
	o.m.observed[g.(gauge).name] = v
}

type registration struct {
	noop.Registration
	m *meter
}

func (r registration) Unregister() error { r.m.read = nil; return nil }

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{m: m, name: name}, nil
}

func (m *meter) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return gauge{name: name}, nil
}

func (m *meter) RegisterCallback(read metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.read = read
	return registration{m: m}, nil
}

func (m *meter) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	m.observed = map[string]float64{}
	if err := m.read(t.Context(), observer{m: m}); err != nil {
		t.Error(err)
	}
	return m.observed
}

// TestMetrics (KC6): by the kubelet's names; the life that is left is as it is at the scrape, and negative after it; nothing is
// read after the end.
func TestMetrics(t *testing.T) {
	for signer, names := range map[string][2]string{
		ClientSigner:  {"kubelet_certificate_manager_client_ttl_seconds", "kubelet_certificate_manager_client_expiration_renew_errors"},
		ServingSigner: {"kubelet_certificate_manager_server_ttl_seconds", "kubelet_server_expiration_renew_errors"},
	} {
		in(t, func(r *rig) {
			m := &meter{counts: map[string]int64{}}
			r.adjust = func(o *Options) { o.Meter, o.Signer = m, signer }
			r.answer = r.grant(0, time.Hour)
			r.start()
			r.after(0)
			if got := m.scrape(t); len(got) != 0 {
				t.Errorf("without a certificate: %v", got)
			}
			r.after(2 * time.Second)
			life := time.Until(r.leaf().NotAfter).Seconds()
			if got := m.scrape(t); len(got) != 1 || got[names[0]] != life || m.counts[names[1]] != 0 {
				t.Errorf("%v, %v; want %s %v", got, m.counts, names[0], life)
			}
			r.set(func() { r.fail = errors.New("connection refused") })
			r.after(2 * time.Hour)
			if got := m.scrape(t)[names[0]]; got >= 0 || m.counts[names[1]] < 100 {
				t.Errorf("after it expired: %v, %v", got, m.counts)
			}
			r.stop()
			if m.read != nil {
				t.Error("it is read after the end")
			}
		})
	}
}
