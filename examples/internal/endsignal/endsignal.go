// Package endsignal tells a program that it is to end, by SIGTERM or SIGINT, and then that it is to end at once.
//
//	signal ──► end ──── 1 s ────┬── signal ──► end at once
//	             signals: the   │
//	             same request   │
//
// Programs such as timeout send their signal to a process and then to its group, so that it comes twice. Without
// the second between them such a program would never see an orderly end.
package endsignal

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// same is how long after the first signal others are the same request.
const same = time.Second

// Notify returns a channel of the requests to end: an orderly end first, then one at once. The function
// returned ends it; signals do what they do to any program again.
func Notify() (requests <-chan os.Signal, stop func()) {
	signals, out := make(chan os.Signal, 2), make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithCancel(context.Background())
	var relaying sync.WaitGroup
	relaying.Go(func() { relay(ctx, signals, out) })
	return out, func() {
		signal.Stop(signals)
		cancel()
		relaying.Wait()
	}
}

// relay passes signals on, without those that belong to the first, until ctx ends. It drops what is not received.
func relay(ctx context.Context, signals <-chan os.Signal, out chan<- os.Signal) {
	var first time.Time
	for {
		select {
		case s := <-signals:
			if first.IsZero() {
				first = time.Now()
			} else if time.Since(first) < same {
				continue
			}
			select {
			case out <- s:
			default:
			}
		case <-ctx.Done():
			return
		}
	}
}

// Context returns a context that the first request ends. The next one ends the process, as a signal does by itself.
func Context() (context.Context, context.CancelFunc) { return contextWithin(same) }

func contextWithin(same time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, func() { time.AfterFunc(same, stop) })
	return ctx, stop
}
