package images

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/credentials"
	"github.com/podwright/podwright/runtime/pods/internal/pullrecords"
	"github.com/podwright/podwright/runtime/pods/internal/worklimit"
)

// flightKey tells pulls apart: a pod with other credentials pulls separately, and so does one with
// another runtime handler, which may keep images of its own.
type flightKey struct{ image, credentials, handler string }

func keyOf(image string, list []credentials.Credential) flightKey {
	key := flightKey{image: image}
	for _, c := range list {
		key.credentials += c.Hash()
		if c.Secret != nil {
			key.credentials += fmt.Sprintf(" %q %q %q", c.Secret.UID, c.Secret.Namespace, c.Secret.Name)
		}
	}
	return key
}

// flight is one pull, shared by all containers that want it. It continues while one of
// them waits; the last to leave cancels it and waits for the end of the pull, but not for long for a disk that does not
// take its record: the pod may have to stop.
type flight struct {
	key         flightKey
	spec        *runtimeapi.ImageSpec
	sandbox     *runtimeapi.PodSandboxConfig
	repository  string
	credentials []credentials.Credential
	cancel      context.CancelFunc
	// over is closed when the pull has ended and its record has not, if it began; done when what follows is set.
	over   chan struct{}
	done   chan struct{}
	image  Image
	err    error
	pulled time.Duration // the pull alone, without waiting

	// Guarded by Puller.mu.
	waiters map[*waiter]bool
	since   time.Time
	began   bool // its turn has come
}

// waiter is a container that waits for a flight.
type waiter struct {
	pod  types.UID
	name string
}

// Progress is a pull that a container waits for.
type Progress struct {
	// Container is the name of the container, or of the volume.
	Container, Image string
	// Since is when the pull was asked for first.
	Since time.Time
	// Queued is true while other pulls come first.
	Queued bool
	// Waiters is how many containers wait for it, this one included.
	Waiters int
}

// Pulling returns what the pod waits for. It does not block.
func (p *Puller) Pulling(uid types.UID) []Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Progress
	for _, f := range p.flights {
		for w := range f.waiters {
			if w.pod == uid {
				out = append(out, Progress{
					Container: w.name, Image: f.key.image, Since: f.since, Queued: !f.began, Waiters: len(f.waiters),
				})
			}
		}
	}
	return out
}

// Turns returns the pulls that are made or wait for their turn, oldest first. It does not
// block.
func (p *Puller) Turns() []worklimit.Call { return p.options.Turns.Calls() }

// share joins the flight that is under way, or starts it, and waits for its end
// or for that of ctx.
func (p *Puller) share(ctx context.Context, r Request, f *flight) (*flight, error) {
	w := &waiter{r.Pod.UID, r.Container.Name}
	p.mu.Lock()
	if other := p.flights[f.key]; other != nil {
		f = other
	} else {
		var flightCtx context.Context
		flightCtx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		f.over, f.done, f.waiters, f.since = make(chan struct{}), make(chan struct{}), map[*waiter]bool{}, p.options.Clock.Now()
		p.flights[f.key] = f
		go p.run(flightCtx, f)
	}
	f.waiters[w] = true
	p.mu.Unlock()
	select {
	case <-f.done:
		return f, nil
	case <-ctx.Done():
	}
	if p.leave(f, w) {
		f.cancel()
		p.awaitEnd(f)
	}
	return f, ctx.Err()
}

// recordPatience is how long a pull that nothing waits for may take to write its record while its last waiter looks on.
const recordPatience = 2 * time.Second

// awaitEnd waits for the end of a flight.
func (p *Puller) awaitEnd(f *flight) {
	select {
	case <-f.done:
		return
	case <-f.over:
	}
	timer := p.options.Clock.NewTimer(recordPatience)
	defer timer.Stop()
	select {
	case <-f.done:
	case <-timer.C():
	}
}

// leave removes a waiter and reports whether it was the last.
func (p *Puller) leave(f *flight, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(f.waiters, w)
	if len(f.waiters) > 0 {
		return false
	}
	// A later request starts a new pull.
	p.remove(f)
	return true
}

// remove removes the flight from the table. The lock must be held.
func (p *Puller) remove(f *flight) {
	if p.flights[f.key] == f {
		delete(p.flights, f.key)
	}
}

// run waits for its turn and pulls.
func (p *Puller) run(ctx context.Context, f *flight) {
	defer func() {
		p.mu.Lock()
		p.remove(f)
		p.mu.Unlock()
		f.cancel()
		close(f.done)
	}()
	f.err = p.options.Turns.Do(ctx, worklimit.Job{Call: "PullImage", Name: f.spec.Image}, func() error { return p.fetch(ctx, f) })
}

// fetch pulls, now that it is the flight's turn.
func (p *Puller) fetch(ctx context.Context, f *flight) error {
	p.mu.Lock()
	f.began = true
	token := p.limiter.take(p.options.Clock.Now())
	p.mu.Unlock()
	if !token {
		return errors.New("pull QPS exceeded")
	}
	return p.pullRecorded(ctx, f)
}

// pullRecorded pulls and keeps the records. They name an image by its ID, which is not what every
// runtime answers to a pull.
func (p *Puller) pullRecorded(ctx context.Context, f *flight) error {
	if f.repository == "" || p.options.Ledger == nil {
		_, _, err := p.pullAndLook(ctx, f)
		return err
	}
	pull, err := p.options.Ledger.Begin(ctx, f.spec.Image, f.repository, f.credentials)
	if err != nil {
		return ours(err)
	}
	id, by, err := p.pullAndLook(ctx, f)
	close(f.over)
	pull.End(pullrecords.Outcome{
		ID: id, By: by, Unknown: id == "" && (f.image.Pulled || ctx.Err() != nil || uncertain(err)),
	})
	return err
}

// pullAndLook pulls with the first credential that works, and looks at the image: the answer of a
// pull does not name its user. id is the image's ID, empty if it is not known.
func (p *Puller) pullAndLook(ctx context.Context, f *flight) (id string, by *credentials.Credential, err error) {
	began := p.options.Clock.Now()
	ref, by, err := p.try(ctx, f)
	p.LookAgain(f.spec.Image, f.spec.RuntimeHandler)
	f.pulled = p.options.Clock.Since(began)
	if err != nil {
		return "", by, err
	}
	f.image, err = p.status(ctx, &runtimeapi.ImageSpec{
		Image: ref, UserSpecifiedImage: f.spec.UserSpecifiedImage, Annotations: f.spec.Annotations,
		RuntimeHandler: f.spec.RuntimeHandler,
	})
	if id = f.image.Ref; id != "" {
		p.keepLook(lookOf(f.spec), f.image)
	}
	f.image.Ref, f.image.Pulled = ref, true
	if err != nil && ctx.Err() == nil {
		err = inspectError(f.spec.Image, err)
	}
	return id, by, err
}

// try pulls with one credential after the other, or with none if there are none
// (spec/runtime.md 9.6). It returns the credential that was used last.
func (p *Puller) try(ctx context.Context, f *flight) (ref string, by *credentials.Credential, err error) {
	if len(f.credentials) == 0 {
		ref, err := p.pullOnce(ctx, f, nil)
		return ref, nil, err
	}
	var refused []error
	for i := range f.credentials {
		by = &f.credentials[i]
		ref, err := p.pullOnce(ctx, f, by.Auth)
		if err == nil {
			return ref, by, nil
		}
		refused = append(refused, err)
		if ctx.Err() != nil || uncertain(err) || cri.Class(err) == runtime.ErrUnavailable {
			break // another credential would not help either
		}
	}
	return "", by, refusals(refused, f.credentials)
}

func (p *Puller) pullOnce(ctx context.Context, f *flight, auth *runtimeapi.AuthConfig) (string, error) {
	ref, err := p.options.Service.PullImage(ctx, f.spec, auth, f.sandbox)
	if err == nil && ref == "" {
		err = errors.New("the runtime returned no image reference")
	}
	return ref, err
}

// uncertain reports whether a pull that failed so may have taken effect.
func uncertain(err error) bool {
	return errors.As(err, new(*foreign.PanicError)) || cri.MayHaveActed(err)
}
