package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/outbound"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
)

// Defaults and limits of section 9.
const (
	defaultNetworkSlots = 64
	defaultExecSlots    = 16
	defaultPodSlots     = 8
	defaultMinPeriod    = 100 * time.Millisecond
	lowestMinPeriod     = 10 * time.Millisecond
	// recordMaxAge is how old a record of Memory may be, if two periods of its probe are not longer; an older one
	// says only whether a container has started (8.6).
	recordMaxAge = 5 * time.Minute
)

// Outbound says where probes may connect to. Its fields:
//
//	Allow  []netip.Prefix // addresses that are permitted all the same, such as 127.0.0.0/8; nil: none
//	NoHost bool           // refuse every httpGet and tcpSocket that names a host
//	Dial   func(ctx context.Context, uid types.UID, network, address string) (net.Conn, error)
//	                      // connects instead of the node, and decides over addresses; nil: from the node's network
type Outbound = outbound.Options

// Options configures a [Manager]. Pods is required; every other field has a useful
// zero value.
type Options struct {
	// Pods shows the pods. Required.
	Pods Pods
	// Runtime runs commands. Nil: exec probes return an error.
	Runtime Executor
	// Memory keeps results across restarts. Nil: nothing is kept.
	Memory Memory
	// OnResult is called with every new result, from one goroutine per kind. It may block:
	// meanwhile only the latest result of each container is kept for it (6.4). Nil: results are
	// only stored.
	OnResult func(ctx context.Context, a Announcement)

	// Handler returns a handler to use instead of the package's own, or nil to use the package's
	// own. It runs before each attempt and must not block. Nil: the package's own is always used.
	Handler func(Target) Handler
	// Outbound says where http, tcp and grpc probes may connect to, and how (5.11, 11). Zero: they
	// connect from the node's network, but not to link-local addresses, cloud metadata services
	// and, for pods with a network of their own, the node's loopback.
	Outbound Outbound
	// HTTP2 honors httpGet.protocol HTTP2 (5.7), and GRPCTLS honors grpc.mode TLS (5.9): both are
	// alpha in Kubernetes. False: HTTP/1.1 and plaintext.
	HTTP2, GRPCTLS bool

	// Timing may override when a probe runs, with sub-second precision (9.6); false leaves it as
	// the pod says. It is called for each worker, when the pod's probe has changed since, and for a
	// status before there is a worker, and must not block. Values out of bounds are brought into bounds. Nil: never.
	Timing func(pod *v1.Pod, container string, kind Kind, timing Timing) (Timing, bool)
	// MinPeriod is the shortest period Timing may give. 0 means 100 ms; less than
	// 10 ms is refused.
	MinPeriod time.Duration
	// SubSecondExec allows exec probes with periods below 1 s.
	SubSecondExec bool
	// FastUntilReady, if not 0, is the period of a readiness probe until its first success in a
	// container, if it is shorter than the probe's own period. The bounds of Timing apply to it.
	FastUntilReady time.Duration
	// StartSpread bounds the random wait before the first run of a probe that is
	// added early in the engine's life (2.3). 0 means one period.
	StartSpread time.Duration

	// NetworkSlots and ExecSlots bound how many probes of a kind run at once, PodSlots how many of
	// one pod (9.2). 0 means 64, 16 and 8. A probe that gets no answer within 0.5 s no longer takes
	// a slot of its kind (9.10).
	NetworkSlots, ExecSlots, PodSlots int

	// Events receives Unhealthy and ProbeWarning. Nil drops them.
	Events podinfo.EventRecorder
	// EveryEvent also passes on events that repeat the last one of a probe word for word, for recorders
	// that count repeats themselves. Otherwise these are passed on at doubling counts, with the
	// count in the text (9.9). In an engine, that of the pods' options counts.
	EveryEvent bool
	// Clock is the manager's time. Nil means the real clock.
	Clock clock.WithTicker
	// Rand returns numbers in [0, 1) for the wait of 2.3; calls do not overlap. Nil: a private
	// generator.
	Rand func() float64
	// Logger is silent by default.
	Logger logr.Logger
	// Meter receives the metrics of section 10. Nil drops them.
	Meter metric.Meter
}

// complete fills in defaults and reports every problem at once.
func (o *Options) complete() error {
	var problems []error
	if o.Pods == nil {
		problems = append(problems, errors.New("Pods is required"))
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"MinPeriod", &o.MinPeriod, defaultMinPeriod},
		{"FastUntilReady", &o.FastUntilReady, 0},
		{"StartSpread", &o.StartSpread, 0},
	} {
		if *d.value < 0 {
			problems = append(problems, fmt.Errorf("%s is negative: %v", d.name, *d.value))
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if o.MinPeriod > 0 && o.MinPeriod < lowestMinPeriod {
		problems = append(problems, fmt.Errorf("MinPeriod is %v, less than %v", o.MinPeriod, lowestMinPeriod))
	}
	for _, n := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"NetworkSlots", &o.NetworkSlots, defaultNetworkSlots},
		{"ExecSlots", &o.ExecSlots, defaultExecSlots},
		{"PodSlots", &o.PodSlots, defaultPodSlots},
	} {
		if *n.value < 0 {
			problems = append(problems, fmt.Errorf("%s is negative: %d", n.name, *n.value))
		}
		if *n.value == 0 {
			*n.value = n.zero
		}
	}
	problems = append(problems, outbound.Validate(o.Outbound))
	o.fill()
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}

// fill replaces what is nil.
func (o *Options) fill() {
	if o.Memory == nil {
		o.Memory = noMemory{}
	}
	if o.OnResult == nil {
		o.OnResult = func(context.Context, Announcement) {}
	}
	if o.Handler == nil {
		o.Handler = func(Target) Handler { return nil }
	}
	if o.Events == nil {
		o.Events = podinfo.DiscardEvents{}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Rand == nil {
		o.Rand = timing.Jitter()
	}
	if o.Meter == nil {
		o.Meter = noop.NewMeterProvider().Meter("")
	}
}
