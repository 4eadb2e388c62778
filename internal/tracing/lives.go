package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime/cri"
)

// scope names the tracer.
const scope = "github.com/podwright/podwright"

// maxSteps bounds the steps in the trace of one start or stop. A start that goes on for days, such as that
// of a pod that keeps crashing, would be a trace without an end; later steps have their own traces.
const maxSteps = 100

// unheard is the state of a pod that its worker does not know.
const unheard podworkers.State = 0

// Options are what a Traces needs; all but Provider and Clock may be nil.
type Options struct {
	// Provider makes the tracer.
	Provider trace.TracerProvider
	Clock    clock.PassiveClock
	// Status returns a pod's last status.
	Status func(uid types.UID) (v1.PodStatus, bool)
	// Explain returns how far the worker of a pod has got.
	Explain func(uid types.UID) (podworkers.Explanation, bool)
}

// Traces makes the spans. It has at most one open span for each pod that has a worker.
type Traces struct {
	options Options
	tracer  trace.Tracer

	mu    sync.Mutex
	lives map[types.UID]*life
}

// life is what is traced of one pod, guarded by Traces.mu. Steps of a pod never overlap; the end of
// the agent may come in between.
type life struct {
	// span is the start or stop in progress, nil between the two.
	span     trace.Span
	stopping bool
	running  bool // has been Running during this start
	steps    int
}

// New returns the traces of an engine, or nil without a provider.
func New(o Options) *Traces {
	if o.Provider == nil {
		return nil
	}
	return &Traces{options: o, tracer: o.Provider.Tracer(scope), lives: map[types.UID]*life{}}
}

// Open returns how many pods have a start or stop in progress, or are up.
func (t *Traces) Open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lives)
}

// End ends every open span, once the workers have ended.
func (t *Traces) End() {
	if t == nil {
		return
	}
	t.mu.Lock()
	lives := t.lives
	t.lives = map[types.UID]*life{}
	t.mu.Unlock()
	for _, l := range lives {
		t.close(l, "agent ended")
	}
}

// step is one call of a syncer in progress.
type step struct {
	traces *Traces
	life   *life
	span   trace.Span
	named  named
}

// named is what identifies a pod.
type named struct {
	uid             types.UID
	namespace, name string
}

func (n named) attributes(more ...attribute.KeyValue) trace.SpanStartEventOption {
	return trace.WithAttributes(append([]attribute.KeyValue{
		attribute.String("k8s.pod.uid", string(n.uid)), attribute.String("k8s.namespace.name", n.namespace), attribute.String("k8s.pod.name", n.name),
	}, more...)...)
}

// begin begins a step, and also the start or stop if this is its first step.
func (t *Traces) begin(ctx context.Context, name string, pod named, stopping bool, more ...attribute.KeyValue) (context.Context, step) {
	now := t.options.Clock.Now()
	t.mu.Lock()
	l := t.lives[pod.uid]
	known := l != nil
	if !known {
		l = &life{}
		t.lives[pod.uid] = l
	}
	stops := stopping && !l.stopping
	t.mu.Unlock()
	switch {
	case stops:
		t.close(l, "stopped before it was ready")
		_, span := t.tracer.Start(ctx, "pod stop", trace.WithNewRoot(), trace.WithTimestamp(now), pod.attributes())
		t.open(l, life{span: span, stopping: true})
	case !stopping && !known && !t.ready(pod.uid): // a pod that is ready was started by an earlier agent
		_, span := t.tracer.Start(ctx, "pod start", trace.WithNewRoot(), trace.WithTimestamp(t.began(pod.uid, now)), pod.attributes())
		t.open(l, life{span: span})
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(now), pod.attributes(more...)}
	if parent := t.parent(l); parent != nil {
		ctx = trace.ContextWithSpan(ctx, parent)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	return ctx, step{traces: t, life: l, span: span, named: pod}
}

// open records a start or stop that has begun.
func (t *Traces) open(l *life, now life) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*l = now
}

// parent returns what the next step of a life belongs to, or nil.
func (t *Traces) parent(l *life) trace.Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.steps++; l.steps > maxSteps {
		return nil
	}
	return l.span
}

// began returns when a start began: when the worker got the pod. The first step may have waited.
func (t *Traces) began(uid types.UID, now time.Time) time.Time {
	if t.options.Explain == nil {
		return now
	}
	e, _ := t.options.Explain(uid)
	for _, step := range e.Transitions {
		if step.From == unheard && step.At.Before(now) {
			now = step.At
		}
	}
	return now
}

// end ends a step with its error.
func (s step) end(err error) {
	outcome(s.span, err)
	s.span.End(trace.WithTimestamp(s.traces.options.Clock.Now()))
}

// started ends a start once the pod is ready, or has ended.
func (s step) started() {
	status, ok := s.traces.status(s.named.uid)
	if !ok {
		return
	}
	if span := s.traces.nowRunning(s.life, status.Phase); span != nil {
		span.AddEvent("Running", trace.WithTimestamp(s.traces.options.Clock.Now()))
	}
	switch {
	case podinfo.Terminal(status.Phase):
		s.traces.close(s.life, string(status.Phase))
	case podinfo.Ready(&status):
		s.traces.close(s.life, "Ready")
	}
}

// nowRunning returns the span of a start whose pod is Running for the first time.
func (t *Traces) nowRunning(l *life, phase v1.PodPhase) trace.Span {
	t.mu.Lock()
	defer t.mu.Unlock()
	if phase != v1.PodRunning || l.running {
		return nil
	}
	l.running = true
	return l.span
}

// over ends a stop: nothing of the pod is left.
func (s step) over() {
	s.traces.close(s.life, "released")
	s.traces.mu.Lock()
	defer s.traces.mu.Unlock()
	if s.traces.lives[s.named.uid] == s.life {
		delete(s.traces.lives, s.named.uid)
	}
}

// close ends the span of a life, if one is open.
func (t *Traces) close(l *life, how string) {
	t.mu.Lock()
	span := l.span
	l.span, l.steps = nil, 0
	t.mu.Unlock()
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String("podwright.outcome", how))
	span.End(trace.WithTimestamp(t.options.Clock.Now()))
}

func (t *Traces) status(uid types.UID) (v1.PodStatus, bool) {
	if t.options.Status == nil {
		return v1.PodStatus{}, false
	}
	return t.options.Status(uid)
}

func (t *Traces) ready(uid types.UID) bool {
	status, ok := t.status(uid)
	return ok && (podinfo.Ready(&status) || podinfo.Terminal(status.Phase))
}

// outcome records how a call ended, by the class of its error.
func outcome(span trace.Span, err error) {
	if err == nil {
		return
	}
	class := "error"
	if known := cri.Class(err); known != nil {
		class = known.Error()
	}
	span.SetAttributes(attribute.String("error.type", class))
	span.SetStatus(codes.Error, class)
}

// updateType returns the attribute, under the kubelet's name.
func updateType(t podworkers.UpdateType) attribute.KeyValue {
	return attribute.String("k8s.pod.update_type", t.String())
}
