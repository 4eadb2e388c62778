package server

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// quietPeriod is the time between two messages of a quietLog.
const quietPeriod = 10 * time.Second

// quietLog writes one message per quietPeriod, because in an outage of the API server each request
// has one. It is safe for concurrent use.
type quietLog struct {
	log   logr.Logger
	clock clock.PassiveClock

	mu      sync.Mutex
	next    time.Time
	dropped int
}

// failed writes a message, with the number of messages that were suppressed since the last one.
func (q *quietLog) failed(err error, message string, keysAndValues ...any) {
	now := q.clock.Now()
	q.mu.Lock()
	if now.Before(q.next) {
		q.dropped++
		q.mu.Unlock()
		return
	}
	dropped := q.dropped
	q.next, q.dropped = now.Add(quietPeriod), 0
	q.mu.Unlock()
	q.log.Error(err, message, append(keysAndValues, "notLogged", dropped)...)
}
