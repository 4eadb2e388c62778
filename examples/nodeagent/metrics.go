package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// metrics turns the engine's OpenTelemetry instruments into Prometheus text.
type metrics struct {
	provider *sdk.MeterProvider
	handler  http.Handler
}

func newMetrics() (*metrics, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics exporter: %w", err)
	}
	return &metrics{
		provider: sdk.NewMeterProvider(sdk.WithReader(reader)),
		handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}, nil
}

func (m *metrics) close(ctx context.Context) error { return m.provider.Shutdown(ctx) }
