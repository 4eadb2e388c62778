package timing

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Clock is what a time limit needs of a clock.
type Clock interface {
	NewTimer(d time.Duration) clock.Timer
}

// WithTimeout returns a copy of parent that ends with [context.DeadlineExceeded] once d has passed
// on the clock. With the real clock it is [context.WithTimeout]. With any other clock the context
// reports only the deadline of its parent, because the network interprets deadlines as real time.
//
// The caller must call cancel, as with the context package. cancel returns once nothing of the
// timeout is left behind.
func WithTimeout(parent context.Context, c Clock, d time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	if _, real := c.(clock.RealClock); real {
		return context.WithTimeout(parent, d)
	}
	return limit(parent, c, d, nil)
}

// limit is WithTimeout on a timer of the clock. An answer makes the time begin again.
func limit(parent context.Context, c Clock, d time.Duration, answers <-chan struct{}) (context.Context, context.CancelFunc) {
	l := &limited{Context: parent, done: make(chan struct{})}
	if err := parent.Err(); err != nil {
		l.end(err)
		return l, func() {}
	}
	if d <= 0 {
		l.end(context.DeadlineExceeded)
		return l, func() {}
	}
	timer := c.NewTimer(d)
	canceled := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		defer timer.Stop()
		for {
			select {
			case <-answers:
				Restart(timer, d)
				continue
			case <-timer.C():
				if Renew(answers, timer, d) {
					continue
				}
				l.end(context.DeadlineExceeded)
			case <-parent.Done():
				l.end(parent.Err())
			case <-canceled:
			}
			return
		}
	})
	var once sync.Once
	return l, func() {
		once.Do(func() {
			close(canceled)
			l.end(context.Canceled)
		})
		watcher.Wait()
	}
}

// limited is a context that a timer ends. Values and deadline are those of its parent.
type limited struct {
	context.Context

	mu   sync.Mutex
	err  error
	done chan struct{} // closed when err is set
}

// end ends the context unless it has already ended.
func (l *limited) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.done)
	}
}

func (l *limited) Done() <-chan struct{} { return l.done }

func (l *limited) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
