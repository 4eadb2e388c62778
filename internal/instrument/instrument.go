package instrument

import (
	"context"
	"errors"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// ErrExported says that the values of this set are already being read.
var ErrExported = errors.New("the instruments are exported already")

// Set holds the instruments of one part of an engine. Create them first, from one goroutine; Err
// then returns what went wrong with any of them. A name that ends in _seconds or _bytes, with or
// without _total, gives the instrument its unit. Every label is declared; see [By].
type Set struct {
	meter metric.Meter
	// silent: nothing is recorded.
	silent   bool
	problems []error
	// read holds the instruments whose values Export reads.
	read []metric.Observable

	mu       sync.Mutex
	exported bool
}

// New returns an empty set. A nil meter records nothing.
func New(meter metric.Meter) *Set {
	if meter == nil {
		return &Set{meter: noop.NewMeterProvider().Meter(""), silent: true}
	}
	return &Set{meter: meter}
}

// Err returns every problem met so far, or nil. An instrument with a problem can still be used.
func (s *Set) Err() error { return errors.Join(s.problems...) }

// Counter adds up events. Without open labels it begins at 0, so that a rate also shows the first
// event.
func (s *Set) Counter(name, description string, options ...Option) metric.Int64Counter {
	declared, _ := declare(description, options)
	made, err := s.meter.Int64Counter(name, declared, unit(name))
	made = keep[metric.Int64Counter](s, made, err, noop.Int64Counter{})
	s.begin(declared, func(ctx context.Context, labels metric.MeasurementOption) { made.Add(ctx, 0, labels) })
	return made
}

// SecondsCounter adds up time.
func (s *Set) SecondsCounter(name, description string, options ...Option) metric.Float64Counter {
	declared, _ := declare(description, options)
	made, err := s.meter.Float64Counter(name, declared, unit(name))
	made = keep[metric.Float64Counter](s, made, err, noop.Float64Counter{})
	s.begin(declared, func(ctx context.Context, labels metric.MeasurementOption) { made.Add(ctx, 0, labels) })
	return made
}

// Gauge holds the number last recorded.
func (s *Set) Gauge(name, description string, options ...Option) metric.Int64Gauge {
	declared, _ := declare(description, options)
	made, err := s.meter.Int64Gauge(name, declared, unit(name))
	return keep[metric.Int64Gauge](s, made, err, noop.Int64Gauge{})
}

// UpDown tracks a number that rises and falls, such as calls in flight. Like a Counter, it begins at 0.
func (s *Set) UpDown(name, description string, options ...Option) metric.Int64UpDownCounter {
	declared, _ := declare(description, options)
	made, err := s.meter.Int64UpDownCounter(name, declared, unit(name))
	made = keep[metric.Int64UpDownCounter](s, made, err, noop.Int64UpDownCounter{})
	s.begin(declared, func(ctx context.Context, labels metric.MeasurementOption) { made.Add(ctx, 0, labels) })
	return made
}

// Sizes is a histogram of numbers, with [Buckets].
func (s *Set) Sizes(name, description string, options ...Option) metric.Int64Histogram {
	declared, bounds := declare(description, options)
	made, err := s.meter.Int64Histogram(name, declared, unit(name), metric.WithExplicitBucketBoundaries(bounds...))
	return keep[metric.Int64Histogram](s, made, err, noop.Int64Histogram{})
}

// Durations is a histogram of durations in seconds. Without [Buckets] it has the boundaries that
// most histograms of the engine share, from a millisecond to ten minutes: the SDK's defaults are
// meant for milliseconds and would put everything into the first bucket.
func (s *Set) Durations(name, description string, options ...Option) metric.Float64Histogram {
	declared, bounds := declare(description, options)
	if len(bounds) == 0 {
		bounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	}
	made, err := s.meter.Float64Histogram(name, declared, unit(name), metric.WithExplicitBucketBoundaries(bounds...))
	return keep[metric.Float64Histogram](s, made, err, noop.Float64Histogram{})
}

// ReadCounter is a running total that Export reads.
func (s *Set) ReadCounter(name, description string, options ...Option) metric.Int64Observable {
	declared, _ := declare(description, options)
	made, err := s.meter.Int64ObservableCounter(name, declared, unit(name))
	return observable[metric.Int64ObservableCounter](s, made, err, noop.Int64ObservableCounter{})
}

// ReadGauge is a number that Export reads.
func (s *Set) ReadGauge(name, description string, options ...Option) metric.Int64Observable {
	declared, _ := declare(description, options)
	made, err := s.meter.Int64ObservableGauge(name, declared, unit(name))
	return observable[metric.Int64ObservableGauge](s, made, err, noop.Int64ObservableGauge{})
}

// ReadSeconds is a time or duration in seconds that Export reads.
func (s *Set) ReadSeconds(name, description string, options ...Option) metric.Float64Observable {
	declared, _ := declare(description, options)
	made, err := s.meter.Float64ObservableGauge(name, declared, unit(name))
	return observable[metric.Float64ObservableGauge](s, made, err, noop.Float64ObservableGauge{})
}

// Export registers read, which observes the values of the Read instruments whenever the meter
// collects, until withdraw is called. It returns ErrExported while an earlier registration
// holds: two would double every value.
func (s *Set) Export(read func(metric.Observer)) (withdraw func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exported {
		return nil, ErrExported
	}
	registration, err := s.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		read(o)
		return nil
	}, s.read...)
	if err != nil {
		return nil, err
	}
	s.exported = true
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = registration.Unregister()
		s.exported = false
	}), nil
}

// Labels are the attributes of one value: keys and values in turn.
func Labels(pairs ...string) metric.MeasurementOption {
	all := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 1; i < len(pairs); i += 2 {
		all = append(all, attribute.String(pairs[i-1], pairs[i]))
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// begin adds 0 to every possible series, if they are all known. There is no caller yet whose
// context could matter.
func (s *Set) begin(declared Declaration, add func(context.Context, metric.MeasurementOption)) {
	if s.silent {
		return
	}
	for _, labels := range declared.combinations() {
		add(context.Background(), metric.WithAttributeSet(labels))
	}
}

// unit returns the unit given by the end of a name.
func unit(name string) metric.InstrumentOption {
	name = strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(name, "_seconds"):
		return metric.WithUnit("s")
	case strings.HasSuffix(name, "_bytes"):
		return metric.WithUnit("By")
	}
	return metric.WithUnit("")
}

// keep records the problem of an instrument, and replaces an instrument that the meter did not make.
func keep[I any](s *Set, made I, err error, silent I) I {
	if err != nil {
		s.problems = append(s.problems, err)
	}
	if any(made) == nil {
		return silent
	}
	return made
}

// observable is keep for an instrument that Export reads.
func observable[I metric.Observable](s *Set, made I, err error, silent I) I {
	made = keep(s, made, err, silent)
	s.read = append(s.read, made)
	return made
}
