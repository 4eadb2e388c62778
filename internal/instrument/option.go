package instrument

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Option says more about an instrument: [By] declares a label, [Buckets] the boundaries of a histogram.
// The metrics tool reads names, descriptions and options from the source, so they are literals.
type Option struct {
	label  Label
	bounds []float64
}

// Label is a key that every value of an instrument has.
type Label struct {
	Key string
	// Values lists all possible values. Nil: an open set, such as names of pods.
	Values []string
	// Open says that there may be values other than these.
	Open bool
}

// By declares a label, and lists all its values if the set is closed.
func By(key string, values ...string) Option {
	return Option{label: Label{Key: key, Values: values}}
}

// From declares a label of an open set, some of whose values are known beforehand: their series
// begin at 0 like those of a closed set.
func From(key string, values ...string) Option {
	return Option{label: Label{Key: key, Values: values, Open: true}}
}

// Buckets are the boundaries of a histogram.
func Buckets(bounds ...float64) Option { return Option{bounds: bounds} }

// Declaration is the option by which a test's meter learns the labels of an instrument.
type Declaration struct {
	metric.InstrumentOption
	Labels []Label
}

// declare turns the options of an instrument into its declaration and its boundaries.
func declare(description string, options []Option) (d Declaration, bounds []float64) {
	d.InstrumentOption = metric.WithDescription(description)
	for _, o := range options {
		if o.label.Key != "" {
			d.Labels = append(d.Labels, o.label)
		}
		bounds = append(bounds, o.bounds...)
	}
	return d, bounds
}

// combinations returns every possible set of labels: one empty set if there are no labels, none if
// a label's values are open.
func (d Declaration) combinations() []attribute.Set {
	rows := [][]attribute.KeyValue{nil}
	for _, label := range d.Labels {
		var longer [][]attribute.KeyValue
		for _, row := range rows {
			for _, value := range label.Values {
				longer = append(longer, append(row[:len(row):len(row)], attribute.String(label.Key, value)))
			}
		}
		rows = longer
	}
	sets := make([]attribute.Set, len(rows))
	for i, row := range rows {
		sets[i] = attribute.NewSet(row...)
	}
	return sets
}
