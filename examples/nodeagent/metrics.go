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

// metrics turns the engine's OpenTelemetry instruments into Prometheus text, under the names of
// docs/metrics.md, beside go_* and process_* of this process.
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
		// Without a limit: there are as many series as pods have containers and probes.
		provider: sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithCardinalityLimit(0)),
		handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}, nil
}

// meter is the meter of a package of the library.
func (m *metrics) meter(room string) metric.Meter {
	return m.provider.Meter("github.com/podwright/podwright/" + room)
}

func (m *metrics) close(ctx context.Context) error { return m.provider.Shutdown(ctx) }
