package agenttest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
)

// errDead is the end of a call that outlived its agent.
var errDead = errors.New("the agent is dead")

// moment is when an agent dies in a call to the API server.
type moment string

const (
	// unsent: the server never hears of the call.
	unsent moment = "before"
	// unheard: the server has done it, and the agent does not see the answer.
	unheard moment = "during"
	// heard: the agent has seen the answer and done what can be done at once.
	heard moment = "after"
)

// death is a call at which an agent is killed, from 1, and when in it.
type death struct {
	call int
	moment
}

// way is how one agent reaches the API server. It counts the calls, and at one of them the
// agent dies: from then on no call of it is sent, or answered.
type way struct {
	next  http.RoundTripper
	death death
	// slow is how long calls take that are named in it.
	slow map[string]time.Duration
	// killed is closed at the death, buried when the calls under way may end.
	killed, buried chan struct{}

	mu    sync.Mutex
	dead  bool
	calls []string
}

func newWay(next http.RoundTripper, d death) *way {
	return &way{next: next, death: d, killed: make(chan struct{}), buried: make(chan struct{})}
}

// RoundTrip implements [http.RoundTripper].
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	number := w.begin(callOf(r))
	if number == 0 || w.diesAt(number, unsent) {
		<-w.buried
		return nil, errDead
	}
	if err := timing.Sleep(r.Context(), clock.RealClock{}, w.slow[callOf(r)]); err != nil {
		return nil, err
	}
	answer, err := w.next.RoundTrip(r)
	if w.diesAt(number, unheard) || w.isDead() {
		<-w.buried
		if err == nil {
			_ = answer.Body.Close()
		}
		return nil, errDead
	}
	if w.death == (death{number, heard}) {
		// Virtual time goes on when all is done that can be done at once.
		time.AfterFunc(time.Nanosecond, func() { w.diesAt(number, heard) })
	}
	return answer, err
}

// begin notes a call; 0: its agent is dead.
func (w *way) begin(call string) (number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return 0
	}
	w.calls = append(w.calls, call)
	return len(w.calls)
}

func (w *way) diesAt(number int, m moment) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.death != (death{number, m}) || w.dead {
		return false
	}
	w.dead = true
	close(w.killed)
	return true
}

func (w *way) isDead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// made returns the calls so far.
func (w *way) made() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// diedAt names the point in messages.
func (w *way) diedAt() string {
	calls := w.made()
	if !w.isDead() {
		return "none"
	}
	return fmt.Sprintf("call %d, %s %s", w.death.call, w.death.moment, calls[w.death.call-1])
}

// callOf names a call by what it does and to what.
func callOf(r *http.Request) string {
	verb := r.Method
	if r.URL.Query().Get("watch") != "" {
		verb = "WATCH"
	}
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/v1/")
	return verb + " " + path
}
