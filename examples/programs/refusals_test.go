package programs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/syncloop/admission"
)

// ownImages refuses pods whose images are not of the own registry.
func ownImages(r admission.Request) admission.Verdict {
	for _, c := range r.Pod.Spec.Containers {
		if !strings.HasPrefix(c.Image, "registry.example.com/") {
			return admission.Refuse("ForeignImage", "image %s of container %s is not of registry.example.com", c.Image, c.Name)
		}
	}
	return admission.Verdict{}
}

// measured returns a metric's values by a label, as an exporter would read them.
func measured(t *testing.T, reader metric.Reader, name, label string) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	at := func(set attribute.Set) string { v, _ := set.Value(attribute.Key(label)); return v.AsString() }
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[at(p.Attributes)] += float64(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					values[at(p.Attributes)] += float64(p.Value)
				}
			default:
				t.Fatalf("%s is a %T", name, data)
			}
		}
	}
	return values
}

// TestRefusals: a node takes two pods, of its own registry, counts those that it refuses, and is
// drained before its machine is switched off.
func TestRefusals(t *testing.T) {
	reader := metric.NewManualReader()
	o := podwrighttest.Options{Configure: func(c *podwright.Config) {
		c.Admission.Handlers = []admission.Handler{admission.HandlerFunc(ownImages)}
		c.Admission.MaxPods = 2
		c.Observe.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	}}
	podwrighttest.Run(t, o, func(n *podwrighttest.Node) {
		pod := func(name, image string) *v1.Pod {
			p := podwrighttest.Pod(name)
			p.Spec.Containers[0].Image = image
			return p
		}
		n.Add(pod("web", "registry.example.com/web:1"), pod("foreign", "docker.io/library/nginx:1.29"))
		n.WaitPhase("foreign", v1.PodFailed)
		n.Add(pod("db", "registry.example.com/db:1"))
		n.WaitPhase("web", v1.PodRunning)
		n.WaitPhase("db", v1.PodRunning)
		n.Add(pod("late", "registry.example.com/late:1"))
		n.WaitPhase("late", v1.PodFailed)
		for name, want := range map[string]string{"foreign": "ForeignImage", "late": "OutOfpods"} {
			if s := n.Pod(name).Status; s.Reason != want || s.Message == "" {
				t.Errorf("pod %s: %s, %s", name, s.Reason, s.Message)
			}
		}
		refused := measured(t, reader, "kubelet_admission_rejections_total", "reason")
		if refused["Other"] != 1 || refused["OutOfpods"] != 1 { // reasons of one's own are Other
			t.Errorf("refused: %v", refused)
		}
		n.Advance(time.Minute) // the runtime is listed again
		if got := measured(t, reader, "kubelet_running_pods", ""); got[""] != 2 {
			t.Errorf("running: %v", got)
		}

		if err := n.Engine().Drain(context.Background()); err != nil {
			t.Errorf("drain: %v", err)
		}
		left, err := n.Runtime().ListContainers(t.Context(), nil)
		if err != nil || len(left) > 0 {
			t.Errorf("%d containers are left, %v", len(left), err)
		}
	})
}
