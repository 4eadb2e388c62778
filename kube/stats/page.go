package stats

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// page is the metrics of one scrape. It is built directly from the Prometheus library's values,
// without a registry: series share their labels, and there are thousands.
type page struct{ families []*dto.MetricFamily }

// family is the series of one metric.
type family struct{ *dto.MetricFamily }

func (p *page) family(kind dto.MetricType, name, help string) family {
	f := &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
	p.families = append(p.families, f)
	return family{f}
}

func (p *page) counter(name, help string) family {
	return p.family(dto.MetricType_COUNTER, name, help)
}

func (p *page) gauge(name, help string) family { return p.family(dto.MetricType_GAUGE, name, help) }

// labels are the labels of a series, in the order of their names.
type labels []*dto.LabelPair

// label makes labels from names and values.
func label(pairs ...string) (out labels) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, &dto.LabelPair{Name: &pairs[i], Value: &pairs[i+1]})
	}
	return out
}

// with returns the labels plus one more.
func (l labels) with(name, value string) labels {
	at, _ := slices.BinarySearchFunc(l, name, func(p *dto.LabelPair, name string) int { return cmp.Compare(p.GetName(), name) })
	return slices.Insert(slices.Clone(l), at, &dto.LabelPair{Name: &name, Value: &value})
}

// add adds a series with its value. A zero time means that of the scrape.
func (f family) add(l labels, value float64, at time.Time) {
	m := &dto.Metric{Label: l}
	if f.GetType() == dto.MetricType_COUNTER {
		m.Counter = &dto.Counter{Value: &value}
	} else {
		m.Gauge = &dto.Gauge{Value: &value}
	}
	if !at.IsZero() {
		m.TimestampMs = pointer(at.UnixMilli())
	}
	f.Metric = append(f.Metric, m)
}

// number adds a series if its value is known.
func (f family) number(l labels, value *uint64, at time.Time) {
	if value != nil {
		f.add(l, float64(*value), at)
	}
}

// seconds adds a series in seconds from nanoseconds, if the value is known.
func (f family) seconds(l labels, nanoseconds *uint64, at time.Time) {
	if nanoseconds != nil {
		f.add(l, float64(*nanoseconds)/1e9, at)
	}
}

// gather returns the families that have series, by name.
func (p *page) gather() []*dto.MetricFamily {
	out := slices.DeleteFunc(p.families, func(f *dto.MetricFamily) bool { return len(f.Metric) == 0 })
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// serve answers with metrics in the format that the client asks for.
func (p *page) serve(w http.ResponseWriter, r *http.Request) {
	gatherer := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return p.gather(), nil })
	promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
}

// failed returns the value of a metric that says whether a scrape failed.
func failed(err error) float64 {
	if err != nil {
		return 1
	}
	return 0
}
