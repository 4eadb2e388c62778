package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/syncloop"
)

// ErrClosed is returned by the methods of a [Channel] that was closed, or whose Run has
// ended.
var ErrClosed = errors.New("the source is closed")

// ChannelOptions configures a [Channel]. The zero value is ready to use.
type ChannelOptions struct {
	// Name of the source. Default "channel". It also determines the lifecycle of its pods. Under the
	// name [syncloop.SourceAPI] they live like an API server's pods, one life per UID: a pod that
	// ended, was evicted or was removed stays ended, and to remove a pod the program first sets its
	// deletionTimestamp and later leaves it out. Under any other name they are static: leaving a pod
	// out stops and removes it, and one that is given again, or was evicted, begins a new life under the same UID.
	Name string
	// NodeName becomes the pods' spec.nodeName and part of generated UIDs.
	NodeName string
	// MaxPods limits how many pods the source may have (SRC6). Further pods are refused with an
	// [ErrTooMany]; replacing a pod of the source is always possible. Default 1,000; a negative
	// number means no limit.
	MaxPods int
	// Clock tells the source the time. Nil means the real clock.
	Clock clock.PassiveClock
}

// Channel is a source fed by the program itself (section 4.6). Pods are
// completed with [Default] and checked with [Validate]; one without a UID gets
// one derived from its content, so a changed pod of the same name is a new pod.
//
// Make one with [NewChannel]; methods are safe for concurrent use. Set, Apply
// and Close wait until the loop runs the source and has accepted the change
// (P1), or until their context ends; then nothing has changed. Only a change that
// the loop is accepting at that moment, or over which it panics, may still take
// effect: the error says so, and the call can be repeated. Once the loop has ended
// they return [ErrClosed] at once (IN9).
type Channel struct {
	options  ChannelOptions
	requests chan request

	closed chan struct{}

	mu sync.Mutex
	// Run closes ended when its context ends; the next Run makes a new one.
	ended  chan struct{}
	health syncloop.SourceHealth

	// pods is the accepted set, in the order given. The holder of the run
	// token owns it.
	run  chan struct{}
	pods []*v1.Pod
	// set: a set was accepted, perhaps an empty one.
	set bool
}

// request asks Run for a change; done receives the outcome, and has room for it: the caller may have left.
type request struct {
	ctx    context.Context
	change func(pods []*v1.Pod) []*v1.Pod
	// refused holds the errors of the pods that the change leaves out.
	refused []error
	last    bool
	quiet   bool
	done    chan error
}

// NewChannel returns an empty source. The source counts as seen after the first
// Set or Apply (P2): a program that wants no pods yet calls Set with none.
func NewChannel(options ChannelOptions) *Channel {
	if options.Name == "" {
		options.Name = "channel"
	}
	setMost(&options.MaxPods)
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Channel{
		options:  options,
		requests: make(chan request),
		closed:   make(chan struct{}),
		ended:    make(chan struct{}),
		run:      make(chan struct{}, 1),
	}
}

// Name returns the source's name.
func (c *Channel) Name() string { return c.options.Name }

// Precedence returns syncloop.PrecedenceInProcess.
func (c *Channel) Precedence() syncloop.Precedence { return syncloop.PrecedenceInProcess }

// Set replaces all pods of the source. The pods still belong to the caller. Set takes
// the valid pods and leaves the invalid ones out (SI9): a version of an invalid pod that
// was accepted before stays, and the error joins one [PodError] for each. Pods beyond
// MaxPods, counted from the last one given, are invalid too. If the source was not set
// before, Set then refuses all pods and the source stays unset, because it cannot know which run already (SRC6).
func (c *Channel) Set(ctx context.Context, pods []*v1.Pod) error {
	good, bad, refused := c.check(pods)
	given := keysOf(good)
	return c.do(ctx, request{refused: refused, change: func(known []*v1.Pod) []*v1.Pod {
		next := slices.Clone(good)
		for _, p := range known {
			if bad.has(p) && !given.has(p) {
				next = append(next, p)
			}
		}
		return next
	}})
}

// Apply adds pods, replaces those of the same UID or the same name, and removes
// the given UIDs; removing an unknown UID is not an error. It treats invalid pods
// as Set does.
func (c *Channel) Apply(ctx context.Context, upsert []*v1.Pod, remove ...types.UID) error {
	good, _, refused := c.check(upsert)
	replaced := keysOf(good)
	remove = slices.Clone(remove) // Run may still read it after the caller has left
	return c.do(ctx, request{refused: refused, change: func(known []*v1.Pod) []*v1.Pod {
		next := slices.DeleteFunc(slices.Clone(known), func(p *v1.Pod) bool {
			return replaced.has(p) || slices.Contains(remove, p.UID)
		})
		return append(next, good...)
	}})
}

// Close ends the source; its Run returns nil. The pods stay desired unless
// removeAll is true (P3). This includes the pods that an engine remembers of a source
// that was not set since the engine's start (IN9). A second Close returns ErrClosed.
func (c *Channel) Close(ctx context.Context, removeAll bool) error {
	return c.do(ctx, request{last: true, quiet: !removeAll, change: func([]*v1.Pod) []*v1.Pod { return nil }})
}

// do passes a change to Run and waits for the outcome.
func (c *Channel) do(ctx context.Context, r request) error {
	r.ctx, r.done = ctx, make(chan error, 1)
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	select {
	case <-c.closed:
		return ErrClosed
	case <-ended:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	case c.requests <- r:
	}
	select {
	case err := <-r.done: // Run answers every request it took
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-r.done:
		return err
	default:
		return fmt.Errorf("%w; the change may still take effect", context.Cause(ctx))
	}
}

// Run serves Set, Apply and Close until Close or until ctx ends. At most one Run
// at a time.
func (c *Channel) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	select {
	case c.run <- struct{}{}:
		defer func() { <-c.run }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.begin()
	defer c.end(ctx)
	for {
		select {
		case <-c.closed:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-c.requests:
			c.answer(ctx, r, deliver)
		}
	}
}

// answer serves a request and tells its caller the outcome, also when deliver panics: the loop
// recovers the panic, and the caller must not hang.
func (c *Channel) answer(ctx context.Context, r request, deliver func(context.Context, []*v1.Pod) error) {
	err := errUnfinished
	defer func() { r.done <- err }()
	switch {
	case ctx.Err() != nil:
		err = ErrClosed
	case r.ctx.Err() != nil:
		err = context.Cause(r.ctx) // its caller leaves, and nothing has changed yet
	default:
		err = c.serve(ctx, r, deliver)
	}
}

// errUnfinished is the outcome of a change if deliver did not return.
var errUnfinished = errors.New("the loop failed while it accepted the change, which may have taken effect")

// begin makes callers wait for Run again.
func (c *Channel) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.ended:
		c.ended = make(chan struct{})
	default:
	}
}

// end releases the callers that wait for Run, also after a panic. If the loop goes on, it runs
// the source again, and they go on waiting.
func (c *Channel) end(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		close(c.ended)
	}
}

// serve makes one change, or none if the caller or Run gave up before it was
// accepted.
func (c *Channel) serve(ctx context.Context, r request, deliver func(context.Context, []*v1.Pod) error) error {
	if !r.quiet {
		next, over := c.limit(r.change(c.pods))
		if r.refused = append(r.refused, over...); len(over) > 0 && !c.set {
			return errors.Join(r.refused...)
		}
		both, cancel := context.WithCancelCause(r.ctx)
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		if err := deliver(both, next); err != nil {
			return err
		}
		c.pods, c.set = next, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health = syncloop.SourceHealth{LastSuccess: c.options.Clock.Now()}
	if r.last {
		close(c.closed)
	}
	return errors.Join(r.refused...)
}

// limit leaves out pods beyond MaxPods. It drops only pods that the source does not have yet,
// from the last one on (SRC6).
func (c *Channel) limit(next []*v1.Pod) (kept []*v1.Pod, refused []error) {
	if len(next) <= c.options.MaxPods {
		return next, nil
	}
	known, room := keysOf(c.pods), c.options.MaxPods
	for _, p := range next {
		if known.has(p) {
			room--
		}
	}
	limit := fmt.Errorf("%w pods: the source has %d already; remove some or raise ChannelOptions.MaxPods", ErrTooMany, c.options.MaxPods)
	for _, p := range next {
		if !known.has(p) {
			if room--; room < 0 {
				refused = append(refused, &PodError{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Err: limit})
				continue
			}
		}
		kept = append(kept, p)
	}
	return kept, refused
}

// Health reports the time of the last accepted change.
func (c *Channel) Health() syncloop.SourceHealth {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}

// check completes copies of the pods and separates the valid from the invalid ones.
func (c *Channel) check(pods []*v1.Pod) (good []*v1.Pod, bad keys, refused []error) {
	taken, bad := newKeys(), newKeys()
	for _, given := range pods {
		if given == nil {
			refused = append(refused, &PodError{Err: errors.New("the pod is nil")})
			continue
		}
		pod := given.DeepCopy()
		err := c.complete(pod)
		if err == nil && taken.has(pod) {
			err = ErrDuplicate
		}
		if err != nil {
			refused = append(refused, &PodError{Namespace: pod.Namespace, Name: pod.Name, UID: given.UID, Err: err})
			bad.add(pod)
			continue
		}
		taken.add(pod)
		good = append(good, pod)
	}
	return good, bad, refused
}

// complete gives pod its identity and defaults, and checks it.
func (c *Channel) complete(pod *v1.Pod) error {
	if pod.UID == "" {
		text, err := json.Marshal(pod)
		if err != nil {
			return err
		}
		var content map[string]any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&content); err != nil {
			return err
		}
		if pod.UID, err = generatedUID(content, "host:"+c.options.NodeName, "source:"+c.options.Name); err != nil {
			return err
		}
	}
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = c.options.NodeName
	}
	if pod.Annotations[podinfo.AnnotationHash] == "" {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[podinfo.AnnotationHash] = string(pod.UID)
	}
	delete(pod.Annotations, podinfo.AnnotationMirror) // only an API server makes mirror pods
	Default(pod)
	if problems := Validate(pod); len(problems) > 0 {
		return problems.ToAggregate()
	}
	return nil
}

// keys holds the UIDs and names of some pods. A node runs one pod per UID and per name.
type keys struct {
	uids  map[types.UID]bool
	names map[types.NamespacedName]bool
}

func newKeys() keys {
	return keys{uids: map[types.UID]bool{}, names: map[types.NamespacedName]bool{}}
}

func keysOf(pods []*v1.Pod) keys {
	k := newKeys()
	for _, p := range pods {
		k.add(p)
	}
	return k
}

func (k keys) add(p *v1.Pod) {
	k.uids[p.UID] = true
	k.names[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = true
}

func (k keys) has(p *v1.Pod) bool {
	return k.uids[p.UID] || k.names[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
}

// PodError says why one pod was refused.
type PodError struct {
	// Namespace, Name and UID are as given, but the namespace is completed.
	Namespace, Name string
	UID             types.UID
	// Err lists every reason.
	Err error
}

// Error names the pod and the reasons.
func (e *PodError) Error() string { return "pod " + e.Namespace + "/" + e.Name + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *PodError) Unwrap() error { return e.Err }
