package status

import "time"

// sendPatience is how long a send may go unanswered before it loses its place, and
// placesPerUnanswered how many places the others get for it: more than one, so that a crowd
// of sends that hang is through in moments (IN1).
const (
	sendPatience        = 500 * time.Millisecond
	placesPerUnanswered = 3
)

// watch takes the place of the send that begins now if it is not answered soon. answered is
// to be called under the manager's lock.
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
