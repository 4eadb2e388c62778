package foreign

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/problem"
)

// Call names a call of code outside the engine.
type Call struct {
	// Kind is what the call is listed as.
	Kind problem.Kind
	// Name is what is called, such as StartContainer or Cleanup.Veto.
	Name string
	// UID and Pod name the pod for which the call is made, Object anything else, as far as they are
	// known. There is only one call of [Ask] at a time with the same Kind, Name, UID, Object and Part.
	UID    types.UID
	Pod    string // namespace/name
	Object string
	// Part tells calls for the same subject apart, such as by container.
	Part string
	// About is the pod as it is now, if the answer depends on it: an answer about another spec,
	// other labels or other annotations does not count. It is read-only, and kept until the
	// function returns.
	About *v1.Pod
	// Patience is how long the call may take before it is a problem; 0: no limit.
	Patience time.Duration
	// Advice says what to do if the call takes longer; empty: what calls of the Kind need.
	Advice string
}

// key is what two calls about the same subject have in common.
type key struct {
	kind         problem.Kind
	name, object string
	part         string
	uid          types.UID
}

func (c Call) key() key { return key{c.Kind, c.Name, c.Object, c.Part, c.UID} }

// Calls holds the calls in progress, and those that panicked recently. Create one with [New]; all
// functions and methods are safe for concurrent use. A nil *Calls watches nothing.
type Calls struct {
	clock  clock.Clock
	logger logr.Logger

	mu      sync.Mutex
	running map[*running]struct{}
	// own holds the calls whose goroutine has not ended; idle is closed when there are none.
	own  map[*running]struct{}
	idle chan struct{}
	// asked holds the open questions, late those that were answered after a caller had left.
	asked map[key]*question
	late  []*question
	// crowds are the calls that do not return, by function.
	crowds map[function]*crowd
	vain   map[function]vain
	faults map[key]*fault
}

// running is a call in progress.
type running struct {
	Call
	since time.Time
}

// fault is a function that panicked.
type fault struct {
	Call
	since, last time.Time
	err         *PanicError
}

// faultKept is how long a panic that does not recur stays listed: retries come at least every
// 5 min.
const faultKept = 10 * time.Minute

// New returns an empty table.
func New(c clock.Clock) *Calls {
	return &Calls{
		clock: c, running: map[*running]struct{}{}, own: map[*running]struct{}{},
		asked: map[key]*question{}, crowds: map[function]*crowd{}, vain: map[function]vain{}, faults: map[key]*fault{},
	}
}

// LogTo makes [Calls.Contain] log panics, and returns c. It must be called before any other method.
func (c *Calls) LogTo(logger logr.Logger) *Calls {
	c.logger = logger
	return c
}

// PanicError says that a function panicked.
type PanicError struct {
	// Name is the function's name, Value what it panicked with.
	Name  string
	Value any
	part  string
	stack string
}

// Error returns one line.
func (e *PanicError) Error() string {
	if e.part != "" {
		return fmt.Sprintf("%s of %s panicked: %v", e.Name, e.part, e.Value)
	}
	return fmt.Sprintf("%s panicked: %v", e.Name, e.Value)
}

// Trace returns the stack of the panic.
func (e *PanicError) Trace() string { return e.stack }

// Fault reports that the function failed, rather than refused.
func (e *PanicError) Fault() bool { return true }

// Watch lists a call that the caller is about to make, until done is called.
func (c *Calls) Watch(call Call) (done func()) {
	if c == nil {
		return func() {}
	}
	r := c.begin(call, false)
	return func() { c.end(r) }
}

// Contain makes a call on the caller's goroutine. A panic is returned as a [*PanicError]; the first one, and the first
// after a call that did not panic, are logged.
func (c *Calls) Contain(call Call, f func() error) (err error) {
	defer c.Watch(call)()
	defer func() {
		if panicked := c.note(call, err); panicked != nil {
			c.logger.Error(panicked, "It is an error of this call only", "call", call.Name, "uid", call.UID, "stack", panicked.Trace())
		}
	}()
	defer contained(call, &err)
	return f()
}

// contained turns a panic into an error.
func contained(call Call, err *error) {
	if p := recover(); p != nil {
		panicked := Panicked(call.Name, p)
		panicked.part = call.Part
		*err = panicked
	}
}

// Panicked returns the error of a function that panicked with value. The deferred function that has recovered calls it.
func Panicked(name string, value any) *PanicError {
	return &PanicError{Name: name, Value: value, stack: string(debug.Stack())}
}

// begin lists a call; own says that it has its own goroutine.
func (c *Calls) begin(call Call, own bool) *running {
	r := &running{Call: call, since: c.clock.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[r] = struct{}{}
	if own {
		c.own[r] = struct{}{}
	}
	return r
}

func (c *Calls) end(r *running) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, r)
}

// note remembers a panic, and forgets it after a call that did not panic. It returns a panic that it did not remember.
func (c *Calls) note(call Call, err error) (news *PanicError) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	panicked, bad := err.(*PanicError) //nolint:errorlint // the error is contained's own
	f := c.faults[call.key()]
	switch now := c.clock.Now(); {
	case !bad && f != nil:
		delete(c.faults, call.key())
	case bad && f != nil:
		f.last, f.err = now, panicked
	case bad:
		c.dropOld(now)   // each pod of a function that always panics adds one, and not every owner asks for problems
		call.About = nil // the list does not need it
		c.faults[call.key()] = &fault{Call: call, since: now, last: now, err: panicked}
		return panicked
	}
	return nil
}

// dropOld forgets the panics that did not recur. The table's lock is held.
func (c *Calls) dropOld(now time.Time) {
	maps.DeleteFunc(c.faults, func(_ key, f *fault) bool { return now.Sub(f.last) >= faultKept })
}

// Problems returns the calls that take too long and the functions that panicked.
func (c *Calls) Problems() []problem.Problem {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []problem.Problem
	for r := range c.running {
		if r.Patience > 0 && now.Sub(r.since) >= r.Patience {
			p := r.problem(r.since)
			p.Waits = r.Name + " to return"
			out = append(out, p)
		}
	}
	c.dropOld(now)
	for _, f := range c.faults {
		p := f.problem(f.since)
		p.Waits, p.Advice = f.Name+" to succeed", "fix the function: it panicked, and the stack is in the log"
		out = append(out, p.Because(f.err))
	}
	return out
}

// problem describes the call as a problem.
func (c Call) problem(since time.Time) problem.Problem {
	p := problem.Problem{Kind: c.Kind, Severity: problem.Listed, Name: c.Name, UID: c.UID, Since: since, Advice: cmp.Or(c.Advice, advice[c.Kind])}
	switch {
	case c.Pod != "":
		p.Name = c.Pod
	case c.Object != "":
		p.Name = c.Object
	}
	return p
}

// advice says what to do about a call that does not return.
var advice = map[problem.Kind]string{
	problem.RuntimeCall: "look at the container runtime's log; the pod is cut off from it until the call returns",
	problem.Function:    "look at what the function waits for; it is not called again for this until it returns",
	problem.Stop:        "look at the other problems: the component waits for one of them; a second signal ends the program at once",
}

// podKey is the context key of the pod that a call is made for.
type podKey struct{}

// ForPod marks the calls made with ctx as calls for one pod.
func ForPod(ctx context.Context, uid types.UID) context.Context {
	return context.WithValue(ctx, podKey{}, uid)
}

// PodOf returns the pod that a call is made for, false if it is made for none.
func PodOf(ctx context.Context) (types.UID, bool) {
	uid, ok := ctx.Value(podKey{}).(types.UID)
	return uid, ok
}
