package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// metrics exports the engine's OpenTelemetry instruments as Prometheus text, under the names in
// docs/metrics.md, next to this process's go_* and process_*.
type metrics struct {
	registry *prometheus.Registry
	provider *sdk.MeterProvider
	handler  http.Handler
}

func newMetrics() (*metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo(),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes))
	if err != nil {
		return nil, fmt.Errorf("metrics exporter: %w", err)
	}
	return &metrics{
		registry: registry,
		// No limit: the number of series grows with the pods' containers and probes.
		provider: sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithCardinalityLimit(0)),
		handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}, nil
}

// meter returns the meter of a package of the library.
func (m *metrics) meter(room string) metric.Meter {
	return m.provider.Meter("github.com/podwright/podwright/" + room)
}

func (m *metrics) close(ctx context.Context) error { return m.provider.Shutdown(ctx) }
