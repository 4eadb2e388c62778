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

// Metrics are instruments, and what a node's server shows of them. [New] makes them unless the
// engine's configuration or Server.Metrics is set; a program makes them itself to measure more than
// the engine, such as the calls of runtime/cri.
type Metrics struct {
	// Provider makes the meters: set it as Observe.MeterProvider of the engine's configuration.
	Provider metric.MeterProvider
	// Gatherer reads them: set it as Server.Metrics. It includes this process's go_* and process_*.
	Gatherer prometheus.Gatherer
}

// NewMetrics makes an empty set. Instruments are exported as Prometheus text under their own names,
// without a limit on the number of series.
func NewMetrics() (Metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo(),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes))
	if err != nil {
		return Metrics{}, fmt.Errorf("metrics: %w", err)
	}
	// No limit: the number of series grows with the pods' containers and probes.
	return Metrics{Provider: sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithCardinalityLimit(0)), Gatherer: registry}, nil
}

// makeMetrics gives the engine a meter provider, and the server what it shows, unless they have
// their own.
func (a *Agent) makeMetrics(c *podwright.Config) error {
	o := &a.options.Server
	if o.Listener == nil || o.Metrics != nil || c.Observe.MeterProvider != nil {
		return nil
	}
	m, err := NewMetrics()
	c.Observe.MeterProvider, o.Metrics = m.Provider, m.Gatherer
	return err
}
