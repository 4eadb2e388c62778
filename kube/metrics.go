package kube

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/podwright/podwright"
)

// makeMetrics gives the engine a meter provider whose instruments the server shows as text of
// Prometheus, under their own names, beside go_* and process_*. An engine that has one, and a server
// that is given metrics, keep theirs.
func (a *Agent) makeMetrics(c *podwright.Config) error {
	o := &a.options.Server
	if o.Listener == nil || o.Metrics != nil || c.Observe.MeterProvider != nil {
		return nil
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo(),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	// Without a limit: there are as many series as pods have containers and probes.
	c.Observe.MeterProvider = sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithCardinalityLimit(0))
	o.Metrics = registry
	return nil
}
