package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"
)

// gauges is a meter that can be asked what its gauges show.
type gauges struct {
	noop.Meter
	callbacks map[int]metric.Callback
	registers int
}

type gauge struct {
	noop.Int64ObservableGauge
	name string
}

func (g *gauges) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return gauge{name: strings.TrimPrefix(name, "podwright_syncloop_manifest_")}, nil
}

func (g *gauges) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	if g.callbacks == nil {
		g.callbacks = map[int]metric.Callback{}
	}
	g.registers++
	g.callbacks[g.registers] = f
	return registration{gauges: g, number: g.registers}, nil
}

type registration struct {
	noop.Registration
	gauges *gauges
	number int
}

func (r registration) Unregister() error {
	delete(r.gauges.callbacks, r.number)
	return nil
}

// read returns the values by name and source.
func (g *gauges) read(t *testing.T) map[string]int64 {
	t.Helper()
	o := &reading{values: map[string]int64{}}
	for _, f := range g.callbacks {
		must(t, f(t.Context(), o))
	}
	return o.values
}

type reading struct {
	noop.Observer
	values map[string]int64
}

func (r *reading) ObserveInt64(g metric.Int64Observable, v int64, options ...metric.ObserveOption) {
	labels := metric.NewObserveConfig(options).Attributes()
	r.values[g.(gauge).name+" "+labels.Encoded(attribute.DefaultEncoder())] = v
}

// TestManifestGauges: section 4.1. While a source runs, gauges show how many pods it
// wants, how many of them are kept though their manifest broke, and how many manifests
// have a problem; afterwards they are gone.
func TestManifestGauges(t *testing.T) {
	folder := t.TempDir()
	change := func(name, content string) { must(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)) }
	synctest.Test(t, func(t *testing.T) {
		g := &gauges{}
		file, err := NewFile(folder, "node-1", FileOptions{PollOnly: true, Meter: g})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- file.Run(ctx, func(context.Context, []*v1.Pod) error { return nil }) }()
		show := func(what string, pods, kept, problems int64) {
			t.Helper()
			<-time.After(defaultPeriod)
			synctest.Wait()
			diff(t, what, map[string]int64{"pods source=file": pods, "kept_pods source=file": kept, "problems source=file": problems}, g.read(t))
		}
		change("web.yaml", manifestOf("web", "app:1"))
		change("db.yaml", manifestOf("db", "app:1"))
		show("two pods", 2, 0, 0)
		change("web.yaml", "{")
		change("new.yaml", "{")
		change("odd.yaml", manifestOf("odd", "app:1")+"  colour: red\n")
		show("one breaks, one never was a pod, one has an unknown field", 3, 1, 3)
		change("web.yaml", manifestOf("web", "app:2"))
		show("repaired", 3, 0, 2)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		diff(t, "after the end", map[string]int64{}, g.read(t))
	})
}
