package podwright

import (
	"context"
	"fmt"
)

// part is a running component of an engine.
type part struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// start runs a component on a goroutine of its own. If it ends by itself, why goes
// to ended, which must have room for it; ended may be nil.
func start(ctx context.Context, ended chan<- error, name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(ctx)
	p := &part{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		err := run(ctx)
		if err != nil && ctx.Err() == nil {
			p.err = fmt.Errorf("%s: %w", name, err)
		}
		if ended == nil || ctx.Err() != nil {
			return
		}
		why := p.err
		if why == nil {
			why = fmt.Errorf("%s ended unexpectedly", name)
		}
		ended <- why
	}()
	return p
}

// stop ends the component and waits for it. It returns the error the component
// ended with by itself, if it did.
func (p *part) stop() error {
	p.cancel()
	<-p.done
	return p.err
}
