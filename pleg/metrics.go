package pleg

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

type metrics struct{}

func newMetrics(metric.Meter) (*metrics, error) { return &metrics{}, nil }

func (m *metrics) relisted(ctx context.Context, began time.Time, took time.Duration, err error) {}
func (m *metrics) counted(ctx context.Context, c listCount)                                     {}
func (m *metrics) read(ctx context.Context, took time.Duration, refresh bool)                   {}
func (m *metrics) requested(merged bool)                                                        {}
func (m *metrics) seen(last time.Time)                                                          {}
