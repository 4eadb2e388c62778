package status

import "time"

// sendPatience is how long a send may go unanswered before it loses its place, and
// placesPerUnanswered is how many extra places the other sends get for it: more than one, so that a
// crowd of hanging sends clears quickly (IN1).
const (
	sendPatience        = 500 * time.Millisecond
	placesPerUnanswered = 3
)

// watch takes away the place of the send that begins now if it is not answered soon. answered must
// be called under the manager's lock.
func (s *sender) watch() (answered func()) {
	m := s.manager
	over, waits := false, false // guarded by the manager's lock
	timer := m.options.Clock.AfterFunc(sendPatience, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !over {
			waits = true
			s.unanswered++
			s.notify()
		}
	})
	return func() {
		timer.Stop()
		over = true
		if waits {
			s.unanswered--
		}
	}
}
