package images

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/timing"
)

// forgetAfter is Options.Reset by default.
const forgetAfter = 600 * time.Second

// failureKey is the pod that waits and the image it waits for (spec/runtime.md 9.3).
type failureKey struct {
	pod   types.UID
	image string
}

type failure struct {
	// count is how many pulls failed in a row, delay is what follows from it.
	count int
	delay time.Duration
	last  time.Time
	err   error
	// lacking: secrets of the pod could not be read; creds names the credentials it had.
	lacking bool
	creds   string
}

// backOff returns until when the pull must wait and the error that caused it.
func (p *Puller) backOff(key failureKey) (until time.Time, last error) {
	now := p.options.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.failed[key]
	if f == nil || now.Sub(f.last) >= f.delay {
		return time.Time{}, nil
	}
	return f.last.Add(f.delay), f.err
}

// arrived reports whether a pod that lacked credentials when its pull failed has others now: then
// the failure says nothing about the next pull (IN15).
func (p *Puller) arrived(key failureKey, creds func() string) bool {
	p.mu.Lock()
	f := p.failed[key]
	before, lacking := "", f != nil && f.lacking
	if f != nil {
		before = f.creds
	}
	p.mu.Unlock()
	return lacking && creds() != before
}

// lack notes the credentials with which a pull failed, and whether some were lacking.
func (p *Puller) lack(key failureKey, lacking bool, creds string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.failed[key]; f != nil {
		f.lacking, f.creds = lacking, creds
	}
}

// fail notes a pull that failed and returns how long the next one must wait.
func (p *Puller) fail(key failureKey, err error, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.failed[key]
	if f == nil || now.Sub(f.last) > p.options.Reset {
		f = &failure{}
		p.failed[key] = f
	}
	f.count++
	f.delay = backoff.Grow(p.options.Initial, p.options.Max, p.options.Factor, f.count)
	f.last, f.err = now, err
	return f.delay
}

func (p *Puller) succeed(key failureKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failed, key)
}

// Forget drops the delays of a pod.
func (p *Puller) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.failed {
		if key.pod == uid {
			delete(p.failed, key)
		}
	}
}

// Prune drops delays that no longer matter: a pull that fails now would start at the
// first delay.
func (p *Puller) Prune(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, f := range p.failed {
		if now.Sub(f.last) > max(p.options.Reset, f.delay) {
			delete(p.failed, key)
		}
	}
	for key, l := range p.looks {
		if timing.Ended(l.done) && now.Sub(l.at) >= presentFor {
			delete(p.looks, key)
		}
	}
}
