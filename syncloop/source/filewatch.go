package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/backoff"
)

const (
	// quiet is how long a folder must be still before changes are read: editors
	// write in steps (F8). quietMax is how long they are put off at most.
	quiet    = 100 * time.Millisecond
	quietMax = 500 * time.Millisecond
	// watchRetryMin and watchRetryMax bound the pause before a watch that
	// failed is tried again.
	watchRetryMin = time.Second
	watchRetryMax = 20 * time.Second
)

// Run reads the manifests at once, every period and after changes, and delivers
// the full set each time (F7). It returns when ctx ends, or with the error of
// deliver. At most one Run at a time.
func (f *File) Run(ctx context.Context, deliver func(ctx context.Context, pods []*v1.Pod) error) error {
	select {
	case f.run <- struct{}{}:
		defer func() { <-f.run }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	stop, err := f.metrics.observe()
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	defer stop()
	w := &watch{file: f}
	defer w.close()
	if !f.options.PollOnly {
		w.open(f.options.Clock.Now()) // before the first scan, so that nothing falls between
	}
	timer := f.options.Clock.NewTimer(0)
	defer timer.Stop()
	scanAt := f.options.Clock.Now()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		timer.Stop()
		select {
		case <-timer.C():
		default:
		}
		timer.Reset(max(0, w.earliest(scanAt).Sub(f.options.Clock.Now())))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event := <-w.events():
			w.note(event, f.options.Clock.Now())
			continue
		case err := <-w.errors():
			w.overflow(err, f.options.Clock.Now())
			continue
		case <-timer.C():
		}
		now := f.options.Clock.Now()
		if w.retryDue(now) {
			if w.open(now) {
				scanAt = now // what changed before the watch began
			}
		}
		if now.Before(scanAt) && !w.scanDue(now) {
			continue
		}
		scanAt = now.Add(f.options.Period)
		w.first, w.scanAt = time.Time{}, time.Time{}
		set, again, err := f.scan(ctx)
		if err != nil {
			continue
		}
		if again {
			w.scanAt = now.Add(quiet)
		}
		if err := deliver(ctx, set); err != nil {
			return err
		}
		w.follow(f.options.Clock.Now())
	}
}

// watch follows changes of the folder. It only says when to look; what there is
// to see is up to the scan. It belongs to the goroutine of Run.
type watch struct {
	file    *File
	watcher *fsnotify.Watcher
	// target is the folder watched, empty if none is.
	target string

	first, scanAt time.Time // of the changes not read yet

	retryAt    time.Time
	retryDelay time.Duration
}

// folder returns what to watch: the source itself if it is a folder, otherwise the
// folder it is, or will be, in.
func (w *watch) folder() string {
	if info, err := os.Stat(w.file.path); err == nil && info.IsDir() {
		return w.file.path
	}
	return filepath.Dir(w.file.path)
}

// open begins to watch, and reports whether it did. A failure is tried again.
func (w *watch) open(now time.Time) bool {
	err := w.add()
	if err == nil {
		w.retryAt, w.retryDelay = time.Time{}, 0
		return true
	}
	w.retryDelay = backoff.Next(watchRetryMin, watchRetryMax, w.retryDelay)
	if errors.Is(err, fs.ErrNotExist) {
		w.retryDelay = watchRetryMin // nothing is wrong, it is only not there yet
	} else {
		w.file.options.Logger.Error(err, "Cannot watch manifests, polling goes on",
			"path", w.file.path, "retryAfter", w.retryDelay)
	}
	w.retryAt = now.Add(w.retryDelay)
	return false
}

func (w *watch) add() error {
	if w.watcher == nil {
		watcher, err := fsnotify.NewWatcher()
		if err != nil {
			return err
		}
		w.watcher = watcher
	}
	target := w.folder()
	if err := w.watcher.Add(target); err != nil {
		return err
	}
	w.target = target
	return nil
}

// follow reopens the watch if the source has become a folder or a file.
func (w *watch) follow(now time.Time) {
	if w.target == "" || w.target == w.folder() {
		return
	}
	w.lose(now)
}

// lose ends the watch of the present target and has it opened again at once.
func (w *watch) lose(now time.Time) {
	_ = w.watcher.Remove(w.target) // it may be gone already
	w.target = ""
	w.retryAt = now
}

// note plans a scan for a change.
func (w *watch) note(e fsnotify.Event, now time.Time) {
	self := e.Name == w.target
	if self && e.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
		w.lose(now)
	}
	if !self && w.target != w.file.path && e.Name != w.file.path {
		return // a neighbour of the single file
	}
	// A hidden link is how a whole folder is switched at once; a hidden file is
	// no business of ours (F4).
	if !self && ignored(filepath.Base(e.Name)) && e.Op&(fsnotify.Create|fsnotify.Rename) == 0 {
		return
	}
	if m := w.file.files[e.Name]; m != nil {
		m.info = nil // whatever its time stamps say
	}
	w.plan(now)
}

// overflow handles a failure of the watch: events may be lost, so all files are
// read again.
func (w *watch) overflow(err error, now time.Time) {
	w.file.options.Logger.Error(err, "Watch of manifests lost events, all are read again", "path", w.file.path)
	for _, m := range w.file.files {
		m.info = nil
	}
	w.plan(now)
}

// plan puts the scan off until the folder is quiet.
func (w *watch) plan(now time.Time) {
	if w.first.IsZero() {
		w.first = now
	}
	w.scanAt = now.Add(quiet)
	if latest := w.first.Add(quietMax); w.scanAt.After(latest) {
		w.scanAt = latest
	}
}

// earliest returns the next moment at which something is due.
func (w *watch) earliest(poll time.Time) time.Time {
	for _, at := range []time.Time{w.scanAt, w.retryAt} {
		if !at.IsZero() && at.Before(poll) {
			poll = at
		}
	}
	return poll
}

func (w *watch) scanDue(now time.Time) bool  { return !w.scanAt.IsZero() && !now.Before(w.scanAt) }
func (w *watch) retryDue(now time.Time) bool { return !w.retryAt.IsZero() && !now.Before(w.retryAt) }

// events is nil while nothing is watched.
func (w *watch) events() <-chan fsnotify.Event {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Events
}

func (w *watch) errors() <-chan error {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Errors
}

func (w *watch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close() // ends its goroutine; nothing depends on it
	}
}
