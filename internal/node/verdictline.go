package node

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/timing"
)

// Limits of a line.
const (
	// turnLimit is how long one pod may keep the handlers from being asked about others.
	turnLimit = 500 * time.Millisecond
	// vainTurns is how often in vainPeriod such a turn may come to nothing: many pods without a
	// verdict delay others by at most 2 s in 10 s.
	vainTurns  = 4
	vainPeriod = 10 * time.Second
)

// verdictLine makes the user's handlers be asked about one pod after the other, because what one
// pod gets counts for the next (AD1). A pod whose verdict takes long, or many such pods, are
// overtaken by the others (IN6).
type verdictLine struct {
	clock clock.WithDelayedExecution
	// overdue is called when a turn is over, so that waiting pods are asked about again. A fake clock
	// calls it under its lock: it must not wait for anything that asks for the time.
	overdue func(uid types.UID)

	mu     sync.Mutex
	holder types.UID // whose verdict is open; empty: none is, or it has lost its turn
	due    time.Time // when the holder loses its turn
	end    clock.Timer
	// over is closed by the timer when the holder loses its turn: the timer needs no lock for that, and
	// due may be an hour away if the clock was set back.
	over chan struct{}
	// vain counts the turns since vainSince that came to nothing.
	vain      int
	vainSince time.Time
}

// behindError says that another pod's verdict comes first.
type behindError struct{ holder types.UID }

// Error names the other pod.
func (e *behindError) Error() string {
	return fmt.Sprintf("the verdict on the pod %s comes first", e.holder)
}

// Behind says that no pod is judged now except those that have already been asked about.
func (e *behindError) Behind() bool { return true }

// enter returns an error while it is another pod's turn.
func (l *verdictLine) enter(uid types.UID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if l.holder != "" && l.holder != uid {
		return &behindError{l.holder}
	}
	return nil
}

// note processes what a handler said about a pod that has entered.
func (l *verdictLine) note(uid types.UID, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	var open *foreign.UnansweredError
	switch {
	case !errors.As(err, &open), open.NotCalled: // no answer is on its way
		l.leave(uid)
	case l.holder == "" && open.Waited < turnLimit && !l.givenUp():
		l.hold(uid, turnLimit-open.Waited)
	}
}

// answered gives the pod whose turn it is time to use the answer.
func (l *verdictLine) answered(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expire(); l.holder == uid {
		l.end.Stop()
		l.hold(uid, turnLimit)
	}
}

// hold gives a pod the turn for some time. The lock is held.
func (l *verdictLine) hold(uid types.UID, limit time.Duration) {
	over := make(chan struct{})
	l.holder, l.due, l.over = uid, l.clock.Now().Add(limit), over
	l.end = l.clock.AfterFunc(limit, func() { l.wake(uid, over) })
}

// wake says that a turn is over. It takes no lock.
func (l *verdictLine) wake(uid types.UID, over chan<- struct{}) {
	close(over)
	l.overdue(uid)
}

// expire ends a turn that has lasted too long. The lock is held.
func (l *verdictLine) expire() {
	if l.holder == "" || !timing.Ended(l.over) {
		return
	}
	l.holder = ""
	if now := l.clock.Now(); now.Before(l.due) {
		l.due = now // the clock was set back
	}
	if l.vain == 0 || l.due.Sub(l.vainSince) >= vainPeriod {
		l.vain, l.vainSince = 0, l.due
	}
	l.vain++
}

// givenUp reports whether too many turns came to nothing. The lock is held.
func (l *verdictLine) givenUp() bool {
	return l.vain >= vainTurns && l.clock.Since(l.vainSince) < vainPeriod
}

// leave ends the pod's turn. The lock is held.
func (l *verdictLine) leave(uid types.UID) {
	if l.holder == uid {
		l.holder = ""
		l.end.Stop()
	}
}
