package images

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/timing"
)

const (
	// presentFor is how long an image that was found counts as present, so that many pods with one
	// image ask for it once (spec/runtime.md 9.12). A create that fails ends it.
	presentFor = 10 * time.Second
	// lookPatience is how long one look at an image waits for another that is under way.
	lookPatience = 500 * time.Millisecond
)

// lookKey tells looks at images apart.
type lookKey struct{ image, handler string }

func lookOf(spec *runtimeapi.ImageSpec) lookKey { return lookKey{spec.Image, spec.RuntimeHandler} }

// look is one look at an image that others share.
type look struct {
	// done is closed when what follows is set.
	done  chan struct{}
	image Image
	err   error
	at    time.Time
}

// find looks for an image, or returns what a recent look found. The zero Image means that it is
// absent, which is never kept.
func (p *Puller) find(ctx context.Context, spec *runtimeapi.ImageSpec) (Image, error) {
	key, now := lookOf(spec), p.options.Clock.Now()
	p.mu.Lock()
	known, mine := p.looks[key], &look{done: make(chan struct{}), at: now}
	switch {
	case known == nil:
	case !timing.Ended(known.done):
		p.mu.Unlock()
		if p.await(ctx, known); timing.Ended(known.done) && known.err == nil {
			return known.image, nil
		}
		p.mu.Lock()
	case now.Sub(known.at) >= 0 && now.Sub(known.at) < presentFor:
		p.mu.Unlock()
		return known.image, nil
	}
	p.looks[key] = mine
	p.mu.Unlock()
	defer func() { // also after a panic
		if mine.err != nil || mine.image.Ref == "" {
			p.forgetLook(key, mine)
		}
		close(mine.done)
	}()
	mine.image, mine.err = p.status(ctx, spec)
	return mine.image, mine.err
}

// await waits for a look that is under way, for a moment.
func (p *Puller) await(ctx context.Context, l *look) {
	ctx, cancel := timing.WithTimeout(ctx, p.options.Clock, lookPatience)
	defer cancel()
	select {
	case <-l.done:
	case <-ctx.Done():
	}
}

// keepLook notes that an image was found by a pull.
func (p *Puller) keepLook(key lookKey, image Image) {
	l := &look{done: make(chan struct{}), image: image, at: p.options.Clock.Now()}
	close(l.done)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks[key] = l
}

func (p *Puller) forgetLook(key lookKey, l *look) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looks[key] == l {
		delete(p.looks, key)
	}
}

// LookAgain forgets that an image was found: a container could not be created from it, or it was pulled.
func (p *Puller) LookAgain(image, handler string) {
	ref, err := Parse(image)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.looks, lookKey{ref.Text, handler})
}
