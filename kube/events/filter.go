package events

import (
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// The kubelet's limits: an object may have 25 events at once, then one per 5 min; the memory of
// objects and events is bounded.
const (
	spamBurst  = 25
	spamQPS    = 1.0 / 300
	remembered = 4096
)

// Equal events may be 5 at once, and then one every 30 min, which is often enough for a server that keeps them for an hour. All
// repetitions of an object may be 100 at once, and then one a minute: a pod can have any number of texts.
const (
	repeatBurst  = 5
	repeatQPS    = 1.0 / 1800
	repeatsBurst = 100
	repeatsQPS   = 1.0 / 60
)

// filter drops events of which there are too many (KV4). What is new to it takes from the room of its object, a
// repetition only from its own: a pod that crashes for hours leaves room for the event that says why it ended. An event that
// finds no room is not remembered, so that it displaces nothing.
type filter struct {
	clock clock.Clock
	// spam and repeats bound what an object may have, of new events and of repetitions.
	spam, repeats *record.EventSourceObjectSpamFilter

	mu sync.Mutex
	// known has a flowcontrol.PassiveRateLimiter for each event, by its text.
	known *lru.Cache
}

func newFilter(c clock.Clock) *filter {
	return &filter{
		clock: c, known: lru.New(remembered),
		spam:    record.NewEventSourceObjectSpamFilter(remembered, spamBurst, spamQPS, c, objectOf),
		repeats: record.NewEventSourceObjectSpamFilter(remembered, repeatsBurst, repeatsQPS, c, objectOf),
	}
}

// drops reports whether an event is one too many.
func (f *filter) drops(event *v1.Event) bool {
	text := textOf(event)
	f.mu.Lock()
	defer f.mu.Unlock()
	if limiter, ok := f.known.Get(text); ok {
		return !limiter.(flowcontrol.PassiveRateLimiter).TryAccept() || f.repeats.Filter(event)
	}
	if f.spam.Filter(event) {
		return true
	}
	limiter := flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(repeatQPS, repeatBurst, f.clock)
	f.known.Add(text, limiter)
	return !limiter.TryAccept()
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
