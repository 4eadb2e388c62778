package status

import (
	"errors"
	"time"
)

// sendPatience is how long a send may go unanswered before it loses its place, and
// placesPerUnanswered is how many extra places the other sends get for it: more than one, so that a
// crowd of hanging sends clears quickly (IN1).
const (
	sendPatience        = 500 * time.Millisecond
	placesPerUnanswered = 3
)

// errSendTimeout is the cause of a send ended by Options.SendTimeout.
var errSendTimeout = errors.New("the sink did not answer in time")

// flights are the sends of one sink in flight. The zero value has none; the manager's lock guards it.
type flights struct {
	// all counts them, the unanswered ones too, which no longer hold a place.
	all, unanswered int
	// timely are those that still hold a place, oldest first, and some that are over.
	timely []*flight
}

// flight is one send that has begun.
type flight struct {
	began            time.Time
	over, unanswered bool
}

// begin counts a send that begins now.
func (f *flights) begin(now time.Time) *flight {
	begun := &flight{began: now}
	f.all++
	f.timely = append(f.timely, begun)
	return begun
}

// end counts a send that has ended.
func (f *flights) end(ended *flight) {
	ended.over = true
	f.all--
	if ended.unanswered {
		f.unanswered--
	}
}

// place reports whether another send may begin, and otherwise how long until one of those in flight
// loses its place, negative if one has to end. It needs no timer per send, whose function would need the
// manager's lock: a fake clock calls it under its own, and the manager asks for the time under its lock.
func (f *flights) place(now time.Time, limit int) (free bool, wait time.Duration) {
	wait = f.overtake(now)
	return f.all < limit+(1+placesPerUnanswered)*f.unanswered, wait
}

// overtake takes away the places of sends that have not been answered for too long. It returns how
// long the next one still has, negative if there is none.
func (f *flights) overtake(now time.Time) time.Duration {
	for len(f.timely) > 0 {
		oldest := f.timely[0]
		if oldest.began.After(now) {
			oldest.began = now // the clock was set back: the send must not keep its place for that long
		}
		if left := oldest.began.Add(sendPatience).Sub(now); !oldest.over && left > 0 {
			return left
		}
		if !oldest.over {
			oldest.unanswered = true
			f.unanswered++
		}
		f.timely[0] = nil
		f.timely = f.timely[1:]
	}
	f.timely = nil // release the underlying array
	return -1
}
