package instrumenttest

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// ErrRefused is the error of an instrument that a [Meter] refuses.
var ErrRefused = errors.New("the meter refuses this instrument")

// Meter shows what was recorded as name{label=value,...}, with the labels in the order of
// their keys. The zero value is ready for use, from several goroutines.
type Meter struct {
	noop.Meter
	// Refuse lists instruments, by name, that the meter does not make.
	Refuse []string
	// OnRecord, if set, is called for every value recorded in a histogram.
	OnRecord func(series string, value float64)

	mu       sync.Mutex
	values   map[string]float64
	reads    map[int]metric.Callback
	register int
}

// Take returns what was recorded since the last Take: sums of counters, how often a histogram
// got a value, and the values that gauges have.
func (m *Meter) Take() map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := m.values
	m.values = nil
	if values == nil {
		values = map[string]float64{}
	}
	return values
}

// Sums returns the same as Take and keeps it.
func (m *Meter) Sums() map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.values)
}

// Read returns the values that are read on demand: none once they are withdrawn.
func (m *Meter) Read(ctx context.Context) map[string]float64 {
	m.mu.Lock()
	reads := maps.Clone(m.reads)
	m.mu.Unlock()
	o := observer{values: map[string]float64{}}
	for _, read := range reads {
		_ = read(ctx, o)
	}
	return o.values
}

func (m *Meter) add(series string, value float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]float64{}
	}
	m.values[series] += value
}

func (m *Meter) set(series string, value float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[string]float64{}
	}
	m.values[series] = value
}

func (m *Meter) record(series string, value float64) {
	m.add(series, 1)
	if m.OnRecord != nil {
		m.OnRecord(series, value)
	}
}

func (m *Meter) err(name string) error {
	for _, refused := range m.Refuse {
		if name == refused {
			return ErrRefused
		}
	}
	return nil
}

// series names one line of an instrument.
func series(name string, labels attribute.Set) string {
	if labels.Len() == 0 {
		return name
	}
	var all []string
	for _, kv := range labels.ToSlice() {
		all = append(all, string(kv.Key)+"="+kv.Value.String())
	}
	return name + "{" + strings.Join(all, ",") + "}"
}

// named is what every instrument knows.
type named struct {
	meter *Meter
	name  string
}

type counter struct {
	noop.Int64Counter
	named
}

func (c counter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	c.meter.add(series(c.name, metric.NewAddConfig(options).Attributes()), float64(n))
}

type upDown struct {
	noop.Int64UpDownCounter
	named
}

func (c upDown) Add(_ context.Context, n int64, options ...metric.AddOption) {
	c.meter.add(series(c.name, metric.NewAddConfig(options).Attributes()), float64(n))
}

type floatCounter struct {
	noop.Float64Counter
	named
}

func (c floatCounter) Add(_ context.Context, n float64, options ...metric.AddOption) {
	c.meter.add(series(c.name, metric.NewAddConfig(options).Attributes()), n)
}

type gauge struct {
	noop.Int64Gauge
	named
}

func (g gauge) Record(_ context.Context, n int64, options ...metric.RecordOption) {
	g.meter.set(series(g.name, metric.NewRecordConfig(options).Attributes()), float64(n))
}

type histogram struct {
	noop.Int64Histogram
	named
}

func (h histogram) Record(_ context.Context, n int64, options ...metric.RecordOption) {
	h.meter.record(series(h.name, metric.NewRecordConfig(options).Attributes()), float64(n))
}

type floatHistogram struct {
	noop.Float64Histogram
	named
}

func (h floatHistogram) Record(_ context.Context, n float64, options ...metric.RecordOption) {
	h.meter.record(series(h.name, metric.NewRecordConfig(options).Attributes()), n)
}

// Int64Counter makes a counter.
func (m *Meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{named: named{m, name}}, m.err(name)
}

// Int64UpDownCounter makes a counter that goes both ways.
func (m *Meter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return upDown{named: named{m, name}}, m.err(name)
}

// Float64Counter makes a counter.
func (m *Meter) Float64Counter(name string, _ ...metric.Float64CounterOption) (metric.Float64Counter, error) {
	return floatCounter{named: named{m, name}}, m.err(name)
}

// Int64Gauge makes a gauge.
func (m *Meter) Int64Gauge(name string, _ ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	return gauge{named: named{m, name}}, m.err(name)
}

// Int64Histogram makes a histogram.
func (m *Meter) Int64Histogram(name string, _ ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return histogram{named: named{m, name}}, m.err(name)
}

// Float64Histogram makes a histogram, or nothing if it is refused.
func (m *Meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if err := m.err(name); err != nil {
		return nil, err
	}
	return floatHistogram{named: named{m, name}}, nil
}

// What is read on demand knows its name.
type (
	readCounter struct {
		noop.Int64ObservableCounter
		named
	}
	readGauge struct {
		noop.Int64ObservableGauge
		named
	}
	readFloat struct {
		noop.Float64ObservableGauge
		named
	}
)

func (n named) title() string { return n.name }

// Int64ObservableCounter makes a counter that is read.
func (m *Meter) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return readCounter{named: named{m, name}}, m.err(name)
}

// Int64ObservableGauge makes a gauge that is read.
func (m *Meter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return readGauge{named: named{m, name}}, m.err(name)
}

// Float64ObservableGauge makes a gauge that is read.
func (m *Meter) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return readFloat{named: named{m, name}}, m.err(name)
}

// RegisterCallback registers a reading.
func (m *Meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reads == nil {
		m.reads = map[int]metric.Callback{}
	}
	m.register++
	m.reads[m.register] = f
	return registration{meter: m, number: m.register}, nil
}

type registration struct {
	noop.Registration
	meter  *Meter
	number int
}

func (r registration) Unregister() error {
	r.meter.mu.Lock()
	defer r.meter.mu.Unlock()
	delete(r.meter.reads, r.number)
	return nil
}

// observer takes what is read.
type observer struct {
	noop.Observer
	values map[string]float64
}

func (o observer) ObserveInt64(i metric.Int64Observable, n int64, options ...metric.ObserveOption) {
	o.values[series(i.(interface{ title() string }).title(), metric.NewObserveConfig(options).Attributes())] += float64(n)
}

func (o observer) ObserveFloat64(i metric.Float64Observable, n float64, options ...metric.ObserveOption) {
	o.values[series(i.(interface{ title() string }).title(), metric.NewObserveConfig(options).Attributes())] += n
}
