package instrumenttest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/podwright/podwright/internal/instrument"
)

// ErrRefused is the error of an instrument that a [Meter] refuses.
var ErrRefused = errors.New("the meter refuses this instrument")

// Meter shows what was recorded as name{label=value,...}, with labels in the order of their keys.
// It panics on a value whose labels are not those that its instrument declares, because
// docs/metrics.md would then be wrong. The zero value is ready for use by several goroutines.
type Meter struct {
	noop.Meter
	// Refuse lists instruments, by name, that the meter does not make.
	Refuse []string
	// OnRecord, if set, is called for every value recorded in a histogram.
	OnRecord func(series string, value float64)

	mu       sync.Mutex
	values   map[string]float64
	begun    map[string]bool
	reads    map[int]metric.Callback
	register int
}

// Take returns what was recorded since the last Take: the sums of counters, the number of values of
// histograms, and the values of gauges.
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

// Sums returns the same as Take without resetting it.
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

// Begun returns the series that were started at 0.
func (m *Meter) Begun() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.begun))
}

func (m *Meter) add(series string, value float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value == 0 && m.values[series] == 0 {
		if m.begun == nil {
			m.begun = map[string]bool{}
		}
		m.begun[series] = true
		return
	}
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
func (n named) series(labels attribute.Set) string {
	if problem := n.undeclared(labels); problem != "" {
		panic("instrumenttest: " + n.name + ": " + problem)
	}
	name := n.name
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
	// labels are those declared. If declared is false, the test made the instrument itself, and it
	// may have any label.
	labels   []instrument.Label
	declared bool
}

// name describes an instrument that is being made.
func name[O any](m *Meter, title string, options []O) named {
	n := named{meter: m, name: title}
	for _, o := range options {
		if d, ok := any(o).(instrument.Declaration); ok {
			n.labels, n.declared = d.Labels, true
		}
	}
	return n
}

// undeclared says what is wrong with the labels of a value.
func (n named) undeclared(labels attribute.Set) string {
	if !n.declared {
		return ""
	}
	for _, label := range n.labels {
		value, ok := labels.Value(attribute.Key(label.Key))
		if !ok {
			return "a value lacks the label " + label.Key
		}
		if label.Values != nil && !label.Open && !slices.Contains(label.Values, value.String()) {
			return "label " + label.Key + " has the value " + value.String() + ", which is not declared"
		}
	}
	if labels.Len() > len(n.labels) {
		return "a value has more labels than are declared: " + labels.Encoded(attribute.DefaultEncoder())
	}
	return ""
}

type counter struct {
	noop.Int64Counter
	named
}

func (c counter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	c.meter.add(c.series(metric.NewAddConfig(options).Attributes()), float64(n))
}

type upDown struct {
	noop.Int64UpDownCounter
	named
}

func (c upDown) Add(_ context.Context, n int64, options ...metric.AddOption) {
	c.meter.add(c.series(metric.NewAddConfig(options).Attributes()), float64(n))
}

type floatCounter struct {
	noop.Float64Counter
	named
}

func (c floatCounter) Add(_ context.Context, n float64, options ...metric.AddOption) {
	c.meter.add(c.series(metric.NewAddConfig(options).Attributes()), n)
}

type gauge struct {
	noop.Int64Gauge
	named
}

func (g gauge) Record(_ context.Context, n int64, options ...metric.RecordOption) {
	g.meter.set(g.series(metric.NewRecordConfig(options).Attributes()), float64(n))
}

type histogram struct {
	noop.Int64Histogram
	named
}

func (h histogram) Record(_ context.Context, n int64, options ...metric.RecordOption) {
	h.meter.record(h.series(metric.NewRecordConfig(options).Attributes()), float64(n))
}

type floatHistogram struct {
	noop.Float64Histogram
	named
}

func (h floatHistogram) Record(_ context.Context, n float64, options ...metric.RecordOption) {
	h.meter.record(h.series(metric.NewRecordConfig(options).Attributes()), n)
}

// Int64Counter makes a counter.
func (m *Meter) Int64Counter(title string, options ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{named: name(m, title, options)}, m.err(title)
}

// Int64UpDownCounter makes a counter that rises and falls.
func (m *Meter) Int64UpDownCounter(title string, options ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return upDown{named: name(m, title, options)}, m.err(title)
}

// Float64Counter makes a counter.
func (m *Meter) Float64Counter(title string, options ...metric.Float64CounterOption) (metric.Float64Counter, error) {
	return floatCounter{named: name(m, title, options)}, m.err(title)
}

// Int64Gauge makes a gauge.
func (m *Meter) Int64Gauge(title string, options ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	return gauge{named: name(m, title, options)}, m.err(title)
}

// Int64Histogram makes a histogram.
func (m *Meter) Int64Histogram(title string, options ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return histogram{named: name(m, title, options)}, m.err(title)
}

// Float64Histogram makes a histogram, or nothing if it is refused.
func (m *Meter) Float64Histogram(title string, options ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if err := m.err(title); err != nil {
		return nil, err
	}
	return floatHistogram{named: name(m, title, options)}, nil
}

// What is read on demand.
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

// lined is an instrument that is read on demand.
type lined interface{ series(attribute.Set) string }

// Int64ObservableCounter makes a counter that is read on demand.
func (m *Meter) Int64ObservableCounter(title string, options ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return readCounter{named: name(m, title, options)}, m.err(title)
}

// Int64ObservableGauge makes a gauge that is read on demand.
func (m *Meter) Int64ObservableGauge(title string, options ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return readGauge{named: name(m, title, options)}, m.err(title)
}

// Float64ObservableGauge makes a gauge that is read on demand.
func (m *Meter) Float64ObservableGauge(title string, options ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return readFloat{named: name(m, title, options)}, m.err(title)
}

// RegisterCallback registers a callback that is read on demand.
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

// observer collects what is read.
type observer struct {
	noop.Observer
	values map[string]float64
}

func (o observer) ObserveInt64(i metric.Int64Observable, n int64, options ...metric.ObserveOption) {
	o.values[i.(lined).series(metric.NewObserveConfig(options).Attributes())] += float64(n)
}

func (o observer) ObserveFloat64(i metric.Float64Observable, n float64, options ...metric.ObserveOption) {
	o.values[i.(lined).series(metric.NewObserveConfig(options).Attributes())] += n
}
