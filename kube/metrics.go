package kube

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/podwright/podwright"
)

// Metrics are instruments, and how a node's server shows them. [New] makes them if neither the engine's
// configuration nor Server.Metrics says otherwise; a program makes them itself to measure more than
// the engine, such as the calls of runtime/cri.
type Metrics struct {
	// Provider makes the meters: Observe.MeterProvider of the engine's configuration.
	Provider metric.MeterProvider
	// Gatherer reads them: Server.Metrics. It has go_* and process_* of this process too.
	Gatherer prometheus.Gatherer
}

// NewMetrics makes an empty set. Instruments are shown as text of Prometheus under their own names; however
// many series there are, all are shown.
func NewMetrics() (Metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo(),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes))
	if err != nil {
		return Metrics{}, fmt.Errorf("metrics: %w", err)
	}
	// Without a limit: there are as many series as pods have containers and probes.
	return Metrics{Provider: sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithCardinalityLimit(0)), Gatherer: registry}, nil
}

// makeMetrics gives the engine a meter provider, and the server what it shows. An engine that has a
// provider, and a server that is given metrics, keep theirs.
func (a *Agent) makeMetrics(c *podwright.Config) error {
	o := &a.options.Server
	if o.Listener == nil || o.Metrics != nil || c.Observe.MeterProvider != nil {
		return nil
	}
	m, err := NewMetrics()
	c.Observe.MeterProvider, o.Metrics = m.Provider, m.Gatherer
	return err
}
