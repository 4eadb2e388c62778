package events

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	recordutil "k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"

	"github.com/podwright/podwright/internal/podinfo"
)

// The kubelet's limits: an object may have 25 events at once, then one per 5 min; the memory of
// objects and events is bounded.
const (
	spamBurst  = 25
	spamQPS    = 1.0 / 300
	remembered = 4096
)

// Equal events may be 5 at once, and then one every 30 min, which is often enough for a server that keeps them for an hour: a pod
// that crashes for hours leaves room for the event that says why it ended.
const (
	repeatBurst = 5
	repeatQPS   = 1.0 / 1800
)

// Recorder sends events to an API server. Make one with [New]. Eventf may be called from many
// goroutines, even before and after Run.
type Recorder struct {
	options Options
	client  corev1client.EventsGetter
	// repeats and spam filter events: equal ones, and all of an object.
	repeats    *record.EventSourceObjectSpamFilter
	spam       *record.EventSourceObjectSpamFilter
	correlator *record.EventCorrelator
	queue      *queue
	held       held
	// away counts the calls since an answer about an event that found the server away. Only Run uses it.
	away int

	mu sync.Mutex
	// last is the time in the name of the latest event.
	last int64
}

var _ podinfo.EventRecorder = (*Recorder)(nil)

// New returns a recorder, or everything that is wrong with its options. Nothing is sent before
// [Recorder.Run].
func New(options Options) (*Recorder, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return &Recorder{
		options: options, client: options.Client.CoreV1(), queue: newQueue(options.MaxQueued), held: held{},
		repeats: record.NewEventSourceObjectSpamFilter(remembered, repeatBurst, repeatQPS, options.Clock, textOf),
		spam:    record.NewEventSourceObjectSpamFilter(remembered, spamBurst, spamQPS, options.Clock, objectOf),
		// Events over the limit are filtered before the queue, so that they displace no others.
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
			LRUCacheSize: remembered, BurstSize: math.MaxInt32, QPS: math.MaxInt32, Clock: options.Clock,
		}),
	}, nil
}

// objectOf names the object of an event.
func objectOf(event *v1.Event) string {
	o := &event.InvolvedObject
	return o.Kind + "/" + o.Namespace + "/" + o.Name + "/" + string(o.UID)
}

// textOf names what equal events have in common.
func textOf(event *v1.Event) string {
	return strings.Join([]string{objectOf(event), event.InvolvedObject.FieldPath, event.Type, event.Reason, event.Message}, "\x00")
}

// Eventf implements podwright.EventRecorder. It returns at once; an event that cannot be built is
// logged and dropped.
func (r *Recorder) Eventf(object apiruntime.Object, eventtype, reason, format string, args ...any) {
	about, err := reference.GetReference(scheme.Scheme, object)
	if err == nil && !recordutil.ValidateEventType(eventtype) {
		err = fmt.Errorf("type %q is neither %s nor %s", eventtype, v1.EventTypeNormal, v1.EventTypeWarning)
	}
	if err != nil {
		r.options.Logger.Error(err, "Event dropped, it has no object or type", "reason", reason)
		return
	}
	event := r.event(about, eventtype, reason, fmt.Sprintf(format, args...))
	if r.repeats.Filter(event) || r.spam.Filter(event) {
		r.options.Logger.V(1).Info("Event dropped, its object has too many", "object", objectOf(event), "reason", reason)
		return
	}
	r.queue.push(event)
}

func (r *Recorder) event(about *v1.ObjectReference, eventtype, reason, message string) *v1.Event {
	now := r.options.Clock.Now()
	at := metav1.NewTime(now)
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      recordutil.GenerateEventName(about.Name, r.unique(now)),
			Namespace: cmp.Or(about.Namespace, metav1.NamespaceDefault),
		},
		InvolvedObject: *about,
		Reason:         reason,
		Message:        message,
		Type:           eventtype,
		Count:          1,
		FirstTimestamp: at, LastTimestamp: at,
		Source:              v1.EventSource{Component: r.options.Component, Host: r.options.Node},
		ReportingController: r.options.Component,
		ReportingInstance:   r.options.Node,
	}
}

// unique returns the time in nanoseconds, but always later than the previous one, so names are unique.
func (r *Recorder) unique(now time.Time) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last+1, now.UnixNano())
	return r.last
}
