package instrument

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Option says more about an instrument: [By] a label, [Buckets] the boundaries of a histogram.
// Tool metrics reads names, descriptions and options from the source, so they are literals.
type Option struct {
	label  Label
	bounds []float64
}

// Label is a key that the values of an instrument have, each value with every one of its keys.
type Label struct {
	Key string
	// Values is every value there can be. Nil: an open set, such as names of pods.
	Values []string
	// Open says that there may be other values than these.
	Open bool
}

// By declares a label, with every value if the set is closed.
func By(key string, values ...string) Option {
	return Option{label: Label{Key: key, Values: values}}
}

// From declares a label of an open set with values that are known beforehand: their series begin
// at 0 as those of a closed set do.
func From(key string, values ...string) Option {
	return Option{label: Label{Key: key, Values: values, Open: true}}
}

// Buckets are the boundaries of a histogram.
func Buckets(bounds ...float64) Option { return Option{bounds: bounds} }

// Declaration is the option by which a meter of a test learns what an instrument's labels are.
type Declaration struct {
	metric.InstrumentOption
	Labels []Label
}

// declare turns what was said of an instrument into its declaration and its boundaries.
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

// combinations returns every set of labels there can be: one empty set without labels, none if
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
