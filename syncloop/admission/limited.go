package admission

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Times of IN6.
const (
	// promptly is how long a caller waits for an answer before it goes on with other pods.
	promptly = 10 * time.Millisecond
	// HandlerTimeout is the time after which a handler that has not answered counts as one
	// that refuses for now.
	HandlerTimeout = 10 * time.Second
	// lateAnswer is how long an answer that came late is valid.
	lateAnswer = 10 * time.Second
)

// HandlerError says that a handler has given no verdict on a pod: it panicked, or has not
// answered yet. The pod waits, alone, and is asked about again (IN6).
type HandlerError struct {
	// Panic is what the handler panicked with; empty if it has not answered.
	Panic string
	stack string
	// Since is when a handler that has not answered was asked; Waited how long ago that was.
	Since  time.Time
	Waited time.Duration
}

// Error says what the handler did.
func (e *HandlerError) Error() string {
	if e.Panic != "" {
		return "a handler panicked: " + e.Panic
	}
	return "a handler, asked at " + e.Since.Format(time.RFC3339) + ", has not answered"
}

// Trace is the stack of the panic.
func (e *HandlerError) Trace() string { return e.stack }

// Fault reports a failure of the handler, rather than an answer that is still due.
func (e *HandlerError) Fault() bool { return e.Panic != "" || e.Waited >= HandlerTimeout }

// Limited is a handler that harms one pod at most: a panic is an error, and a question
// that is not answered promptly is left alone with its pod. There is one question per pod
// at a time, however long it takes, with a goroutine of its own. Use [Judge] to ask it.
type Limited struct {
	handler Handler
	clock   clock.Clock
	// answered is called when an answer came late.
	answered func(uid types.UID)

	mu        sync.Mutex
	questions map[types.UID]*question
}

// question is one that was not answered promptly.
type question struct {
	request  Request
	since    time.Time
	done     chan struct{}
	answered time.Time // zero: not yet
	left     bool      // the caller did not wait for it
	verdict  Verdict
	err      error
}

// Limit puts a handler under a time limit. answered, if it is not nil, hears from any
// goroutine of pods whose answer came late, and must not block.
func Limit(h Handler, c clock.Clock, answered func(uid types.UID)) *Limited {
	return &Limited{handler: h, clock: c, answered: answered, questions: map[types.UID]*question{}}
}

// Admit is for callers that know no open verdict: one without is a refusal.
func (l *Limited) Admit(r Request) Verdict {
	v, err := l.ask(r)
	if err != nil {
		return Refuse(ReasonUnexpected, "%v", err)
	}
	return v
}

// ask returns the handler's verdict, or why there is none yet.
func (l *Limited) ask(r Request) (Verdict, error) {
	q, begun, patient := l.question(r)
	if begun {
		go l.answer(q)
		if patient {
			timer := l.clock.NewTimer(promptly)
			defer timer.Stop()
			select {
			case <-q.done:
			case <-timer.C():
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.answered.IsZero() {
		q.left = true
		return Verdict{}, &HandlerError{Since: q.since, Waited: l.clock.Since(q.since)}
	}
	if begun {
		delete(l.questions, r.Pod.UID) // a prompt answer is not kept
	}
	return q.verdict, q.err
}

// question returns the question about a pod, whether it has to be asked now, and whether
// its answer is worth a short wait: not while the handler lets others wait.
func (l *Limited) question(r Request) (q *question, begun, patient bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	patient = true
	for uid, q := range l.questions {
		switch {
		case q.answered.IsZero():
			patient = patient && now.Sub(q.since) < promptly
		case now.Sub(q.answered) >= lateAnswer:
			delete(l.questions, uid)
		}
	}
	if q := l.questions[r.Pod.UID]; q != nil && (q.answered.IsZero() || q.about(r)) {
		return q, false, false
	}
	q = &question{request: r, since: now, done: make(chan struct{})}
	l.questions[r.Pod.UID] = q
	return q, true, patient
}

// about reports whether the answer holds for a request: its pod is as it was.
func (q *question) about(r Request) bool {
	a, b := q.request.Pod, r.Pod
	return a == b || apiequality.Semantic.DeepEqual(a.Spec, b.Spec) && apiequality.Semantic.DeepEqual(a.Labels, b.Labels)
}

// answer asks the handler.
func (l *Limited) answer(q *question) {
	v, err := ask(l.handler, q.request)
	l.mu.Lock()
	q.verdict, q.err, q.answered = v, err, l.clock.Now()
	left := q.left
	l.mu.Unlock()
	close(q.done)
	if left && l.answered != nil {
		l.answered(q.request.Pod.UID)
	}
}

// ask asks a handler; a panic is an error.
func ask(h Handler, r Request) (v Verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &HandlerError{Panic: fmt.Sprint(p), stack: string(debug.Stack())}
		}
	}()
	if l, ok := h.(*Limited); ok {
		return l.ask(r)
	}
	return h.Admit(r), nil
}
