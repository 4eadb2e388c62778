package enginetest_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/runtime/pods/containerlog"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop/admission"
)

// program is a program around an engine that has one lock for all it does: each of its functions needs it, and looks at the engine
// while it has it.
type program struct {
	noop.MeterProvider
	mu     sync.Mutex
	engine atomic.Pointer[podwright.Engine]
	looks  atomic.Int64
	clock  *clocktesting.FakeClock
	meter  lockedMeter
}

// called is any of the program's functions.
func (h *program) called() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.looks.Add(1); n%8 == 0 { // a look at all of a node is slow
		h.look(int(n / 8))
	}
}

// look reads the engine in one of all ways that call nothing.
func (h *program) look(way int) {
	e := h.engine.Load()
	if e == nil {
		return
	}
	uid := types.UID(fmt.Sprintf("uid-web-%d", way%5))
	switch way % 12 {
	case 0:
		e.Pods()
	case 1:
		e.Explain(uid)
	case 2:
		e.Problems()
	case 3:
		_ = e.Healthy()
	case 4:
		e.NodeConditions()
	case 5:
		e.Recovery()
	case 6:
		e.Refresh(uid)
		e.ObjectChanged(podwright.Object{Kind: "ConfigMap", Namespace: "default", Name: "c"})
	case 7:
		e.NodeKnown()
		e.PodNamed("default", "web-0")
	case 8:
		for range e.Watch(ended()) {
			break
		}
	case 9:
		e.LocalStorage(uid)
	case 10:
		_, _ = e.LastShutdown()
	case 11:
		_ = e.ContainerLog(ended(), uid, "main", containerlog.Options{}, io.Discard)
	}
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// The logger's sink.
func (h *program) Init(logr.RuntimeInfo) {}

func (h *program) Enabled(int) bool                                         { h.called(); return true }
func (h *program) Info(int, string, ...any)                                 { h.called() }
func (h *program) Error(error, string, ...any)                              { h.called() }
func (h *program) WithValues(...any) logr.LogSink                           { return h }
func (h *program) WithName(string) logr.LogSink                             { return h }
func (h *program) Eventf(apiruntime.Object, string, string, string, ...any) { h.called() }
func (h *program) Store(context.Context, status.Update) (status.StoreResult, error) {
	h.called()
	if h.looks.Load()%5 == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return status.Stored, nil
}

func (h *program) Admit(r admission.Request) admission.Verdict {
	h.called()
	if r.Pod.Name == slow {
		<-h.clock.After(2 * time.Second) // longer than its turn lasts, so that the clock ends the turn
	}
	return admission.Verdict{}
}

// slow is the name of a pod about which the program thinks for long.
const slow = "web-0"

func (h *program) Meter(string, ...metric.MeterOption) metric.Meter { return &h.meter }

// lockedMeter records, and collects, under one lock.
type lockedMeter struct {
	instrumenttest.Meter
	mu sync.Mutex
}

func (m *lockedMeter) collect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Read(context.Background())
}

func (m *lockedMeter) recorded() { m.mu.Lock(); defer m.mu.Unlock() }

func (m *lockedMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return lockedCounter{meter: m}, nil
}

// lockedCounter is there because the meter of the tests tells only of histograms.
type lockedCounter struct {
	noop.Int64Counter
	meter *lockedMeter
}

func (c lockedCounter) Add(context.Context, int64, ...metric.AddOption) { c.meter.recorded() }

// TestProgramWithOneLock: whatever lock a program holds while it asks the engine, and its functions need, the engine goes on,
// because it holds none of its own while it calls them. Nor does it hold up a fake clock that is stepped meanwhile.
func TestProgramWithOneLock(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	h := &program{clock: c}
	h.meter.OnRecord = func(string, float64) { h.meter.recorded() }
	flaky := func(context.Context) (eviction.Observation, error) {
		h.called()
		if h.looks.Load()%2 == 0 {
			return eviction.Observation{}, io.ErrUnexpectedEOF
		}
		return eviction.Observation{Available: 50, Capacity: 100}, nil
	}
	n := newSteppedNode(t, c, h.called, func(o *podwright.Config) {
		o.Observe.Sinks = append(o.Observe.Sinks, h)
		o.Observe.Logger, o.Observe.Events, o.Observe.MeterProvider = logr.New(h), h, h
		o.Admission.Handlers, o.Admission.Soft = []admission.Handler{h}, []admission.Handler{admission.HandlerFunc(func(admission.Request) admission.Verdict { h.called(); return admission.Verdict{} })}
		o.Node.Addresses = func() []string { h.called(); return []string{fmt.Sprint("nonsense", h.looks.Load())} }
		o.Node.AllocatableNow = func() v1.ResourceList { h.called(); return nil }
		o.Eviction = &podwright.Eviction{
			Critical: func(*v1.Pod) bool { h.called(); return false }, Stats: &calmNode{},
			Policy: eviction.Policy{
				Own:        []eviction.OwnSignal{{Name: "battery", Condition: "BatteryLow", Message: "low", Observer: eviction.ObserverFunc(flaky)}},
				Thresholds: []eviction.Threshold{{Signal: "battery", Value: eviction.Value{Percent: 10}}},
			},
		}
	})
	h.engine.Store(n.engine)
	n.every(time.Millisecond, h.meter.collect)
	way := 0
	n.every(time.Millisecond, func() { // looks that need no other lock
		h.look(way)
		way++
		for range 20 {
			n.engine.Explain("uid-" + slow)
		}
	})
	n.every(time.Millisecond, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.look(int(h.looks.Add(1)))
	})
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprint("web-", i))
	}
	n.live(3, 24, names...)
}
