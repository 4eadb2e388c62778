package tracingtest

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Span is a copy of one span.
type Span struct {
	Name   string
	ID     uint64
	Parent uint64 // 0: none
	// Start and End; a zero End means that it has not ended.
	Start, End time.Time
	// Attributes are all attributes that were set.
	Attributes map[string]string
	// Failed is the description of an error, or "".
	Failed string
	Events []string
	// Ends counts the calls of End; there should be one.
	Ends int
}

// Provider remembers the spans of all its tracers. The zero value is ready for use by several
// goroutines.
type Provider struct {
	noop.TracerProvider

	mu    sync.Mutex
	spans []*Span
}

// Spans returns copies of all spans, in the order of their starts.
func (p *Provider) Spans() []Span {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Span, len(p.spans))
	for i, s := range p.spans {
		all[i] = *s
		all[i].Attributes, all[i].Events = maps.Clone(s.Attributes), slices.Clone(s.Events)
	}
	return all
}

// Tracer makes a tracer.
func (p *Provider) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{provider: p} }

type tracer struct {
	noop.Tracer
	provider *Provider
}

// Start begins a span.
func (t tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	config := trace.NewSpanStartConfig(options...)
	p := t.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	made := &Span{Name: name, ID: uint64(len(p.spans) + 1), Start: config.Timestamp(), Attributes: map[string]string{}}
	if parent, ok := trace.SpanFromContext(ctx).(*span); ok && !config.NewRoot() {
		made.Parent = parent.made.ID
	}
	for _, kv := range config.Attributes() {
		made.Attributes[string(kv.Key)] = kv.Value.String()
	}
	p.spans = append(p.spans, made)
	s := &span{provider: p, made: made}
	return trace.ContextWithSpan(ctx, s), s
}

type span struct {
	noop.Span
	provider *Provider
	made     *Span
}

func (s *span) note(f func(*Span)) {
	s.provider.mu.Lock()
	defer s.provider.mu.Unlock()
	f(s.made)
}

// SpanContext identifies the span.
func (s *span) SpanContext() trace.SpanContext {
	var id trace.SpanID
	binary.BigEndian.PutUint64(id[:], s.made.ID)
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: id, TraceFlags: trace.FlagsSampled})
}

// IsRecording returns true.
func (s *span) IsRecording() bool { return true }

// SetAttributes sets attributes.
func (s *span) SetAttributes(all ...attribute.KeyValue) {
	s.note(func(m *Span) {
		for _, kv := range all {
			m.Attributes[string(kv.Key)] = kv.Value.String()
		}
	})
}

// SetStatus records an error.
func (s *span) SetStatus(code codes.Code, description string) {
	if code == codes.Error {
		s.note(func(m *Span) { m.Failed = description })
	}
}

// AddEvent records an event.
func (s *span) AddEvent(name string, _ ...trace.EventOption) {
	s.note(func(m *Span) { m.Events = append(m.Events, name) })
}

// End ends the span.
func (s *span) End(options ...trace.SpanEndOption) {
	config := trace.NewSpanEndConfig(options...)
	at := config.Timestamp()
	s.note(func(m *Span) { m.End, m.Ends = at, m.Ends+1 })
}
