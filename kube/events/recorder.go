package events

import (
	"cmp"
	"fmt"
	"math"
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

// Recorder sends events to an API server. Make one with [New]. Eventf may be called from many
// goroutines, even before and after Run.
type Recorder struct {
	options    Options
	client     corev1client.EventsGetter
	filter     *filter
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
		filter: newFilter(options.Clock),
		// Events over the limit are filtered before the queue, so that they displace no others.
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
			LRUCacheSize: remembered, BurstSize: math.MaxInt32, QPS: math.MaxInt32, Clock: options.Clock,
		}),
	}, nil
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
	if r.filter.drops(event) {
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
