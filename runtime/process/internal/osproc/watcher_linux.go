package osproc

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Watcher reports when processes end. It has one goroutine, however many processes
// it watches. It is safe for concurrent use.
type Watcher struct {
	epoll, wake int
	done        chan struct{}

	mu     sync.Mutex
	closed bool
	next   int32
	waits  map[int32]func()
}

// NewWatcher starts a watcher. The caller must Close it.
func NewWatcher() (*Watcher, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	w := &Watcher{epoll: epoll, wake: wake, done: make(chan struct{}), waits: map[int32]func(){}}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		unix.Close(epoll)
		unix.Close(wake)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	go w.run()
	return w, nil
}

// Watch calls ended once when the process has ended (at once if it has already),
// from the watcher's goroutine: it must not block or call Close. A process is
// watched by one call at a time, and no longer once its handle is closed. If that may
// be before its end, the caller must call forget, which frees what ended refers to.
func (w *Watcher) Watch(p *Process, ended func()) (forget func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errors.New("the watcher is closed")
	}
	w.next++
	key := w.next // 0 is the wake-up; the kernel's data field is 32 bits here, ample
	w.waits[key] = ended
	err = p.WithFD(func(fd int) error {
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: key}
		return unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &event)
	})
	if err != nil {
		delete(w.waits, key)
		return nil, fmt.Errorf("watch process %d: %w", p.id.PID, err)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waits, key)
	}, nil
}

func (w *Watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(w.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil { // cannot happen with a valid descriptor
			return
		}
		for _, e := range events[:n] {
			w.mu.Lock()
			ended, closed := w.waits[e.Fd], w.closed
			delete(w.waits, e.Fd)
			w.mu.Unlock()
			if closed {
				return
			}
			if ended != nil {
				ended()
			}
		}
	}
}

// Close stops watching. After it returns no callback is called any more. Closing
// twice is allowed.
func (w *Watcher) Close() {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.mu.Unlock()
	if first {
		one := [8]byte{1}
		_, _ = unix.Write(w.wake, one[:])
	}
	<-w.done
	if first {
		unix.Close(w.epoll)
		unix.Close(w.wake)
	}
}
