package credentials

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/podwright/podwright/internal/instrument"
)

// instruments are the kubelet's, under the kubelet's names.
type instruments struct {
	durations metric.Float64Histogram
	failures  metric.Int64Counter
}

func newInstruments(meter metric.Meter) (instruments, error) {
	set, byPlugin := instrument.New(meter), instrument.By("plugin_name")
	return instruments{
		durations: set.Durations("kubelet_credential_provider_plugin_duration", "Seconds that runs of credential plugins took.", byPlugin),
		failures:  set.Counter("kubelet_credential_provider_plugin_errors_total", "Runs of credential plugins that failed.", byPlugin),
	}, set.Err()
}

// note counts a run that was not abandoned.
func (i instruments) note(ctx context.Context, plugin string, took time.Duration, err error) {
	ctx, of := context.WithoutCancel(ctx), instrument.Labels("plugin_name", plugin)
	i.durations.Record(ctx, took.Seconds(), of)
	if err != nil {
		i.failures.Add(ctx, 1, of)
	}
}
