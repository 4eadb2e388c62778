package credentials

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	kubeletv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// recorder keeps what its instruments record, as text.
type recorder struct {
	noop.Meter
	seen map[string]int
}

type recordedCounter struct {
	noop.Int64Counter
	note func(value any, attributes attribute.Set)
}

func (c recordedCounter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	c.note(n, metric.NewAddConfig(options).Attributes())
}

type recordedHistogram struct {
	noop.Float64Histogram
	note func(value any, attributes attribute.Set)
}

func (h recordedHistogram) Record(_ context.Context, v float64, options ...metric.RecordOption) {
	h.note(v, metric.NewRecordConfig(options).Attributes())
}

func (r *recorder) note(name string) func(any, attribute.Set) {
	return func(value any, attributes attribute.Set) {
		plugin, _ := attributes.Value("plugin_name")
		r.seen[fmt.Sprint(name, " ", plugin.AsString(), " ", value)]++
	}
}

func (r *recorder) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return recordedCounter{note: r.note(name)}, nil
}

func (r *recorder) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return recordedHistogram{note: r.note(name)}, nil
}

// KG8: runs are counted by the names that the kubelet gives them; what is kept is no run.
func TestRunsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, head+one("a"))
		r := &recorder{seen: map[string]int{}}
		var err error
		if w.source.metrics, err = newInstruments(r); err != nil {
			t.Fatal(err)
		}
		w.answer = func(ctx context.Context, _ string, q kubeletv1.CredentialProviderRequest) (string, error) {
			pass(pauseMin)
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			if q.Image == "reg.io/bad" {
				return "", errors.New("exit status 1")
			}
			return said1("Image", "1h", ""), nil
		}
		pod := podOf("p", "")
		w.want(pod, "reg.io/app", "")
		w.want(pod, "reg.io/app", "")
		if _, err := w.users(pod, "reg.io/bad"); err == nil {
			t.Error("no error")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.source.Credentials(ctx, pod, "reg.io/other"); err == nil {
			t.Error("given up: no error")
		}
		want := map[string]int{"kubelet_credential_provider_plugin_duration a 1": 2, "kubelet_credential_provider_plugin_errors_total a 1": 1}
		if fmt.Sprint(r.seen) != fmt.Sprint(want) {
			t.Errorf("recorded %v, want %v", r.seen, want)
		}
	})
}
