package latency

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// meter keeps what its histograms record, by name.
type meter struct {
	noop.Meter
	values map[string][]float64
}

func (m meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{name: name, meter: m}, nil
}

type histogram struct {
	noop.Float64Histogram
	name  string
	meter meter
}

func (h histogram) Record(_ context.Context, v float64, _ ...metric.RecordOption) {
	h.meter.values[h.name] = append(h.meter.values[h.name], v)
}

// calls is a runtime that takes every call.
type calls struct{ cri.RuntimeService }

func (calls) StopPodSandbox(context.Context, string) error { return nil }

const uid = types.UID("web")

// world is an Exits with one pod, of which a container ended.
type world struct {
	exits  *Exits
	clock  *testclock.FakeClock
	values map[string][]float64
	status runtime.PodStatus
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{clock: testclock.NewFakeClock(time.Unix(1_000_000, 0)), values: map[string][]float64{}}
	var err error
	w.exits, err = New(meter{values: w.values}, w.clock, func(types.UID) (*runtime.PodStatus, error) { return &w.status, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// exit has a container end now, and its pod read one second later.
func (w *world) exit(id string) pleg.PodEvents {
	w.status.Containers = []*runtime.ContainerStatus{{ID: runtime.ContainerID{ID: id}, State: runtime.Exited, FinishedAt: w.clock.Now()}}
	w.clock.Step(time.Second)
	w.status.ObservedAt = w.clock.Now()
	return pleg.PodEvents{UID: uid, Kinds: pleg.Died, Died: []string{id}}
}

func (w *world) want(t *testing.T, want string) {
	t.Helper()
	var got string
	for _, edge := range []string{"seen", "refreshed", "worker", "call"} {
		got += fmt.Sprint(edge, w.values["podwright_exit_"+edge+"_seconds"], " ")
	}
	if got != want+" " {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

// Each edge is the time between its two steps, and a sync's first call alone counts.
func TestEdgesAreMeasuredOnce(t *testing.T) {
	w := newWorld(t)
	event := w.exit("a")
	w.clock.Step(2 * time.Second)
	w.exits.Delivered(event)
	w.clock.Step(3 * time.Second)
	ctx := w.exits.Entered(t.Context(), uid)
	w.clock.Step(4 * time.Second)
	rt := w.exits.Runtime(calls{})
	for range 2 {
		if err := rt.StopPodSandbox(ctx, "s"); err != nil {
			t.Fatal(err)
		}
	}
	w.exits.Entered(t.Context(), uid) // the next sync follows no exit
	w.want(t, "seen[1] refreshed[2] worker[3] call[4]")
}

// Nothing is measured for pods without a following sync, for sandboxes, and for other events.
func TestWhatIsNotMeasured(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"a pod that is being stopped": func(w *world) { w.exits.Delivered(w.exit("a")); w.exits.Dropped(uid) },
		"a sandbox":                   func(w *world) { e := w.exit("a"); e.Died = []string{"other"}; w.exits.Delivered(e) },
		"a start":                     func(w *world) { e := w.exit("a"); e.Kinds = pleg.Started; w.exits.Delivered(e) },
		"a pod handed on long ago": func(w *world) {
			w.exits.Delivered(w.exit("a"))
			w.clock.Step(pendingTimeout + time.Second)
			e := w.exit("b")
			e.UID = "db"
			w.exits.Delivered(e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			do(w)
			w.exits.Entered(t.Context(), uid)
			w.want(t, "seen[] refreshed[] worker[] call[]")
		})
	}
}

// An exit from before the engine, or with an impossible time, does not count as seen.
func TestUnbelievableExitsAreNotSeen(t *testing.T) {
	for name, age := range map[string]time.Duration{"before the engine": time.Minute, "too old": maxExitAge + time.Minute, "in the future": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if name == "too old" {
				w.clock.Step(time.Hour)
			}
			event := w.exit("a")
			w.status.Containers[0].FinishedAt = w.clock.Now().Add(-age)
			w.exits.Delivered(event)
			w.exits.Entered(t.Context(), uid)
			w.want(t, "seen[] refreshed[0] worker[0] call[]")
		})
	}
}
