package pleg

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Options configures a [Generator]. The zero value is ready to use.
type Options struct {
	// View does the reading. Nil means one made from the reader with OwnerID, Sequence and Clock; a
	// given View uses its own three, and Clock is used here only for periods and time limits.
	View *cri.View
	// OwnerID limits the reading to objects of this owner; see [cri.ViewOptions].
	OwnerID string
	// Sequence orders readings. Pass the engine's; nil means a new one.
	Sequence *runtime.Sequence
	// Clock drives periods, time limits and back-off. Nil means the real clock.
	Clock clock.Clock

	// Streamer, if set, is watched for events that say which pod to look at (EV3). Nil means no
	// stream.
	Streamer cri.EventStreamer

	// Period is the time from the end of one relist to the start of the next. 0 means 1 s.
	Period time.Duration
	// QuietPeriod, if larger than Period, replaces it while nothing has changed for 10 s and the
	// event stream is up (B7). Values above 5 s are refused. 0 means never.
	QuietPeriod time.Duration

	// Inspections bounds how many pods are read at the same time. 0 means 8; 1 reads one pod after
	// the other, in order of UID. A reading that gets no answer within 0.5 s no longer counts.
	Inspections int
	// ListTimeout bounds each call that lists sandboxes or containers of all pods. 0 means 30 s.
	ListTimeout time.Duration
	// InspectTimeout bounds each call of a reading of one pod: a pod with many containers on a slow
	// runtime takes longer as a whole. 0 means 10 s.
	InspectTimeout time.Duration
	// WriteOffAfter is how long to wait for a call that ignores the end of its context, counted
	// from its start. 0 means 30 s.
	WriteOffAfter time.Duration

	// ConfirmVanished is how many further lists must also lack a pod before it may be gone, if
	// something of it was running. It is gone if the runtime then does not find its objects by their
	// IDs, or has no proper answer until as many further lists lack it. 0 means 2; negative means none.
	ConfirmVanished int

	// Rand returns the next random number in [0, 1), for jitter. It is called from one goroutine.
	// Nil means a private source.
	Rand func() float64
	// Logger; the zero value is silent.
	Logger logr.Logger
	// Meter makes the instruments of the package. Nil means none.
	Meter metric.Meter
	// Recorder receives the events meant for users. Nil drops them.
	Recorder podinfo.EventRecorder
}

// Defaults and bounds (section 2, B3, B4, B7).
const (
	defaultPeriod          = time.Second
	maxQuietPeriod         = 5 * time.Second
	defaultInspections     = 8
	defaultListTimeout     = 30 * time.Second
	defaultInspectTimeout  = 10 * time.Second
	defaultWriteOffAfter   = 30 * time.Second
	defaultConfirmVanished = 2
	// healthThreshold is the age of the last successful list beyond which Health has an error.
	healthThreshold = 3 * time.Minute
)

// complete fills in the defaults and reports every problem at once.
func (o Options) complete() (Options, error) {
	var problems []error
	duration := func(name string, value *time.Duration, def time.Duration) {
		if *value < 0 {
			problems = append(problems, fmt.Errorf("option %s is negative: %v", name, *value))
		}
		if *value == 0 {
			*value = def
		}
	}
	duration("Period", &o.Period, defaultPeriod)
	duration("QuietPeriod", &o.QuietPeriod, o.Period)
	duration("ListTimeout", &o.ListTimeout, defaultListTimeout)
	duration("InspectTimeout", &o.InspectTimeout, defaultInspectTimeout)
	duration("WriteOffAfter", &o.WriteOffAfter, max(defaultWriteOffAfter, o.InspectTimeout))
	if o.QuietPeriod > max(maxQuietPeriod, o.Period) {
		problems = append(problems, fmt.Errorf("option QuietPeriod is above %v: %v", maxQuietPeriod, o.QuietPeriod))
	}
	if o.WriteOffAfter < o.InspectTimeout {
		problems = append(problems, fmt.Errorf("option WriteOffAfter %v is below InspectTimeout %v", o.WriteOffAfter, o.InspectTimeout))
	}
	if o.Inspections < 0 {
		problems = append(problems, fmt.Errorf("option Inspections is negative: %d", o.Inspections))
	}
	if o.Inspections == 0 {
		o.Inspections = defaultInspections
	}
	switch {
	case o.ConfirmVanished == 0:
		o.ConfirmVanished = defaultConfirmVanished
	case o.ConfirmVanished < 0:
		o.ConfirmVanished = 0
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Rand == nil {
		o.Rand = timing.Jitter()
	}
	if o.Meter == nil {
		o.Meter = noop.Meter{}
	}
	return o, errors.Join(problems...)
}
