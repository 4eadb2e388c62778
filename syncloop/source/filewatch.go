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
	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/backoff"
)

const (
	// quiet is how long a folder must be still before changes are read: editors
	// write in steps (F8). quietMax is the longest that changes wait.
	quiet    = 100 * time.Millisecond
	quietMax = 500 * time.Millisecond
	// watchRetryMin and watchRetryMax bound the pause before a watch that
	// failed is tried again.
	watchRetryMin = time.Second
	watchRetryMax = 20 * time.Second
)

// Run reads the manifests immediately, every period and after changes, and delivers
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
	w := &watch{
		path: f.path, period: f.options.Period, pollOnly: f.options.PollOnly, clock: f.options.Clock, logger: f.options.Logger,
		changed: f.distrust,
	}
	return w.run(ctx, func(ctx context.Context) (read, again bool, err error) {
		set, again, err := f.scan(ctx)
		if err != nil {
			return false, false, nil
		}
		return true, again, deliver(ctx, set)
	})
}

// distrust makes the next scan read a file again, whatever its timestamps say; all files if path is empty.
func (f *File) distrust(path string) {
	if m := f.files[path]; m != nil {
		m.info = nil
	}
	if path == "" {
		for _, m := range f.files {
			m.info = nil
		}
	}
}

// run calls look immediately, every period and after changes, until ctx ends or look fails. read
// is false if the folder could not be read; again asks for another look soon.
func (w *watch) run(ctx context.Context, look func(ctx context.Context) (read, again bool, err error)) error {
	defer w.close()
	if !w.pollOnly {
		w.open(w.clock.Now()) // before the first look, so that no change is missed
	}
	scanAt := w.clock.Now()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !w.wait(ctx, w.earliest(scanAt).Sub(w.clock.Now())) {
			continue
		}
		now := w.clock.Now()
		if w.retryDue(now) {
			if w.open(now) {
				scanAt = now // files may have changed before the watch began
			}
		}
		if now.Before(w.lookAt(scanAt)) {
			continue
		}
		scanAt = now.Add(w.period)
		w.first, w.scanAt = time.Time{}, time.Time{}
		read, again, err := look(ctx)
		if err != nil {
			return err
		}
		if !read {
			continue
		}
		if again {
			w.scanAt = now.Add(quiet)
		}
		w.follow(w.clock.Now())
	}
}

// wait reports whether the time has passed, rather than that something has come which may change what is due.
func (w *watch) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := w.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case event := <-w.events():
		w.note(event, w.clock.Now())
	case err := <-w.errors():
		w.overflow(err, w.clock.Now())
	case <-timer.C():
		return true
	}
	return false
}

// watch follows changes of a folder or file. It only decides when to look; the look
// finds out what changed. Only the goroutine of run uses it.
type watch struct {
	path     string
	period   time.Duration
	pollOnly bool
	clock    clock.Clock
	logger   logr.Logger
	// changed is called with each path that changed, and with "" if any may have.
	changed func(path string)

	watcher *fsnotify.Watcher
	// target is the folder watched, empty if none is; watched says which folder that path led to.
	target  string
	watched os.FileInfo

	first, scanAt time.Time // of the changes not read yet: when the first came, and when to scan

	retryAt    time.Time
	retryDelay time.Duration
}

// folder returns what to watch: the source itself if it is a folder, otherwise the
// folder it is, or will be, in.
func (w *watch) folder() string {
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		return w.path
	}
	return filepath.Dir(w.path)
}

// open starts the watch and reports whether it succeeded. It plans a retry after a failure.
func (w *watch) open(now time.Time) bool {
	err := w.add()
	if err == nil {
		w.retryAt, w.retryDelay = time.Time{}, 0
		return true
	}
	w.retryDelay = backoff.Next(watchRetryMin, watchRetryMax, w.retryDelay)
	if errors.Is(err, fs.ErrNotExist) {
		w.retryDelay = watchRetryMin // not a fault: the folder does not exist yet
	} else {
		w.logger.Error(err, "Cannot watch manifests, polling goes on",
			"path", w.path, "retryAfter", w.retryDelay)
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
	info, err := os.Stat(target) // before it is watched: a folder that replaces it meanwhile is another one
	if err != nil {
		return err
	}
	if err := w.watcher.Add(target); err != nil {
		return err
	}
	w.target, w.watched = target, info
	return nil
}

// follow reopens the watch if the source has become a folder or a file, or its path leads to another
// folder, such as a link that was switched, or a file system mounted over it.
func (w *watch) follow(now time.Time) {
	if w.target == "" {
		return
	}
	if w.target == w.folder() {
		if info, err := os.Stat(w.target); err == nil && os.SameFile(info, w.watched) {
			return
		}
	}
	w.lose(now)
}

// lose ends the watch of the current target and plans an immediate retry.
func (w *watch) lose(now time.Time) {
	_ = w.watcher.Remove(w.target) // it may be gone already
	w.target = ""
	w.retryAt = now
}

// note plans a scan after a change.
func (w *watch) note(e fsnotify.Event, now time.Time) {
	self := e.Name == w.target
	if self && e.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
		w.lose(now)
	}
	if !self && w.target != w.path && e.Name != w.path {
		return // a neighbour of the single file
	}
	// Replacing a hidden link switches a whole folder at once; other changes of
	// hidden files do not matter (F4).
	if !self && ignored(filepath.Base(e.Name)) && e.Op&(fsnotify.Create|fsnotify.Rename) == 0 {
		return
	}
	w.changed(e.Name)
	w.plan(now)
}

// overflow handles a failure of the watch: events may be lost, so the next scan
// reads all files again.
func (w *watch) overflow(err error, now time.Time) {
	w.logger.Error(err, "Watch of manifests lost events, all are read again", "path", w.path)
	w.changed("")
	w.plan(now)
}

// plan postpones the scan until the folder is quiet.
func (w *watch) plan(now time.Time) {
	if w.first.IsZero() {
		w.first = now
	}
	w.scanAt = now.Add(quiet)
	if latest := w.first.Add(quietMax); w.scanAt.After(latest) {
		w.scanAt = latest
	}
}

// lookAt returns when to look. A poll waits for a folder that changes: it could find files half
// written, or gone because they are being replaced (F8).
func (w *watch) lookAt(poll time.Time) time.Time {
	if !w.scanAt.IsZero() {
		return w.scanAt
	}
	return poll
}

// earliest returns the next moment at which something is due.
func (w *watch) earliest(poll time.Time) time.Time {
	if at := w.lookAt(poll); w.retryAt.IsZero() || at.Before(w.retryAt) {
		return at
	}
	return w.retryAt
}

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
