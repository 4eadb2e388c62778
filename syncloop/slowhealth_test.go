package syncloop

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// slowHealth is a source that is slow to report its health.
type slowHealth struct {
	*scripted
	err error
}

func (s slowHealth) Health() SourceHealth {
	pass(time.Second)
	return SourceHealth{LastSuccess: time.Now(), LastError: s.err}
}

// TestSlowHealthIsNoTrouble: IN2, IN6. A source that takes a second to report that it is healthy is not a problem.
// One that reports that it is not healthy is a problem at every look after the first.
func TestSlowHealthIsNoTrouble(t *testing.T) {
	for _, err := range []error{nil, errors.New("no such folder")} {
		synctest.Test(t, func(t *testing.T) {
			source := slowHealth{newScripted("api"), err}
			loop, stop := run(t, &log{}, Options{Sources: []Source{source}})
			defer stop()
			source.set()
			loop.Problems()
			for i := range 12 {
				pass(5 * time.Second)
				if got := loop.Problems(); len(got) > 0 != (err != nil) {
					t.Errorf("look %d: %v", i, got)
				}
			}
		})
	}
}
