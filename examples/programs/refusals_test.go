package programs_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
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

// battery is an eviction signal of the program's own: below 10 % the least important pod goes.
type battery struct{ percent atomic.Uint64 }

func (b *battery) Observe(context.Context) (eviction.Observation, error) {
	return eviction.Observation{Available: b.percent.Load(), Capacity: 100}, nil
}

func (b *battery) policy() (p eviction.Policy, err error) {
	p.Own = []eviction.OwnSignal{{Name: "battery.charge", Condition: "BatteryLow", Message: "the battery is nearly empty", Observer: b}}
	p.Thresholds, err = eviction.Text{Hard: "battery.charge<10%"}.Parse("battery.charge")
	return p, err
}

// counted returns a counter's values by a label, as an exporter would read them.
func counted(t *testing.T, reader metric.Reader, name, label string) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			data, ok := m.Data.(metricdata.Sum[int64])
			if !ok || m.Name != name {
				continue
			}
			for _, p := range data.DataPoints {
				v, _ := p.Attributes.Value(attribute.Key(label))
				values[v.AsString()] += p.Value
			}
		}
	}
	return values
}

// TestRefusals: a node takes two pods, of its own registry, counts those that it refuses, stops one for its
// battery, and is drained before its machine is switched off.
func TestRefusals(t *testing.T) {
	reader, charge := metric.NewManualReader(), &battery{}
	charge.percent.Store(80)
	policy, err := charge.policy()
	if err != nil {
		t.Fatal(err)
	}
	o := podwrighttest.Options{Configure: func(c *podwright.Config) {
		c.Admission.Handlers = []admission.Handler{admission.HandlerFunc(ownImages)}
		c.Admission.MaxPods = 2
		c.Eviction = &podwright.Eviction{Policy: policy}
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
		refused := counted(t, reader, "kubelet_admission_rejections_total", "reason")
		if refused["Other"] != 1 || refused["OutOfpods"] != 1 { // reasons of one's own are Other
			t.Errorf("refused: %v", refused)
		}

		charge.percent.Store(9)
		n.WaitPhase("db", v1.PodFailed) // of pods with the same priority the first by UID
		if s := n.Pod("db").Status; s.Reason != "Evicted" || !strings.Contains(s.Message, "the battery is nearly empty") {
			t.Errorf("pod db: %s, %s", s.Reason, s.Message)
		}
		if n := counted(t, reader, "kubelet_evictions", "eviction_signal"); n["battery.charge"] == 0 { // perhaps web too: the battery stays low
			t.Errorf("evicted: %v", n)
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
