package containerlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

const (
	// lookPeriod is how often a log that is followed is checked.
	lookPeriod = 250 * time.Millisecond
	// maxLooks bounds how often files may vanish before they are opened.
	maxLooks = 100
)

// Log says where the log of one run of a container is: names of folders below the log
// directory, and of the file.
type Log struct{ Pod, Container, File string }

// Of returns where the log of a run of a container is by default; runs are counted from 0
// (spec/runtime.md 18.1).
func Of(namespace, name string, uid types.UID, container string, run int) Log {
	return Log{Pod: PodFolder(namespace, name, uid), Container: container, File: strconv.Itoa(run) + ".log"}
}

// PodFolder returns the name of a pod's folder in the log directory (spec/runtime.md 3.9).
func PodFolder(namespace, name string, uid types.UID) string {
	return namespace + "_" + name + "_" + string(uid)
}

// Reader reads logs below one log directory. It is safe for concurrent use, and a
// reading that waits does not hold up others.
type Reader struct {
	dir   string
	clock timing.Clock
	watch func(path string) (<-chan struct{}, func())
}

// New returns a reader of the logs below dir. A nil clock is the real one.
func New(dir string, c clock.Clock) *Reader {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Reader{dir: dir, clock: c, watch: watch}
}

// Copy writes a log to w and returns nil at its end, or once w has all that options allow. An error
// that matches [fs.ErrNotExist] says that there is no such log. Other errors come from ctx, w or the
// file system; a file that cannot be read is left out, and named in the error at the end. Only the
// calling goroutine writes to w; while Copy waits for more, w has everything that there was.
func (r *Reader) Copy(ctx context.Context, log Log, options Options, w io.Writer) error {
	if err := options.Check(); err != nil {
		return err
	}
	dir, err := poddir.OpenDir(r.dir, log.Pod, log.Container)
	if err != nil {
		return fmt.Errorf("log of container %s: %w", log.Container, err)
	}
	defer dir.Close()
	c := &copying{
		folder: folder{dir: dir, log: log.File}, options: options, clock: r.clock,
		to: newJoiner(w, &options), stream: none,
	}
	for i, name := range streamNames {
		if name == options.Stream {
			c.stream = i
		}
	}
	if options.Follow {
		changes, stop := r.watch(filepath.Join(r.dir, log.Pod, log.Container))
		defer stop()
		c.changes = changes
	}
	defer func() { c.now.close(); c.before.close() }()
	if err := c.run(ctx); err != nil && !errors.Is(err, errLimit) {
		return fmt.Errorf("log of container %s: %w", log.Container, err)
	}
	return nil
}

// copying is one call of Copy.
type copying struct {
	folder
	options Options
	clock   timing.Clock
	changes <-chan struct{}
	to      *joiner
	stream  int // the only stream that is shown, or none

	// now is the file that is read, before the one before it: a runtime that has just opened a new
	// file may write its last lines to the old one.
	now, before *segment
	// last is the newest rotated file that has been read or opened; empty before the first.
	last string
	// until is the newest rotated file when a reading began that does not follow; empty if there was none.
	until string
	// skip is how many line ends come before the wanted lines.
	skip     int64
	entry    header // the one whose text is being read
	hidden   bool   // that entry is not shown
	problems []error
}

func (c *copying) run(ctx context.Context) error {
	if !c.options.Follow {
		rotated, err := c.rotated()
		if err != nil {
			return err
		}
		if len(rotated) > 0 {
			c.until = rotated[len(rotated)-1]
		}
	}
	if c.options.Tail != nil {
		if err := c.begin(*c.options.Tail); err != nil {
			return err
		}
	}
	if c.now == nil {
		first, err := c.following()
		if err != nil {
			return err
		}
		c.now = first
	}
	for {
		ended := c.options.Ended != nil && c.options.Ended()
		if c.now == nil { // nothing has been written yet
			if !c.options.Follow || ended {
				return fmt.Errorf("%s: %w", c.log, fs.ErrNotExist)
			}
			if err := c.wait(ctx); err != nil {
				return err
			}
		}
		if err := c.show(ctx); err != nil {
			return err
		}
		if c.complete() {
			return c.finish()
		}
		next, err := c.following()
		if err != nil {
			return err
		}
		if next != nil {
			if err := c.move(ctx, next, !c.options.Follow || ended); err != nil {
				return err
			}
			continue
		}
		if c.now == nil {
			continue
		}
		if err := c.drain(ctx, c.before, unlimited); err != nil {
			return err
		}
		if !c.options.Follow || ended {
			return c.finish()
		}
		if err := c.wait(ctx); err != nil {
			return err
		}
	}
}

// complete reports that a reading that does not follow has shown what there was when it began: the current file of that time
// comes after all that were rotated then. Those that were made meanwhile may come faster than the client reads.
func (c *copying) complete() bool {
	return !c.options.Follow && c.now != nil && (c.now.base == "" || c.now.base > c.until)
}

// wait gives the client everything so far, and returns when there may be more.
func (c *copying) wait(ctx context.Context) error {
	if err := c.to.flush(); err != nil {
		return err
	}
	timer := c.clock.NewTimer(lookPeriod)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.changes:
	case <-timer.C():
	}
	return nil
}

func (c *copying) finish() error {
	for _, s := range []*segment{c.before, c.now} {
		if s != nil {
			if err := s.rest(c.emit, s != c.now); err != nil {
				return err
			}
		}
	}
	return errors.Join(append(c.problems, c.to.flush())...)
}

// show shows what has been written. What the runtime has written to the file before comes ahead of what it
// writes to the current one after that.
func (c *copying) show(ctx context.Context) error {
	limit, err := c.now.size()
	if err != nil {
		return err
	}
	if err := c.drain(ctx, c.before, unlimited); err != nil {
		return err
	}
	return c.drain(ctx, c.now, limit)
}

// drain shows what a file holds by now, up to limit. A file that cannot be read is skipped; only an
// error of the client or of ctx is returned.
func (c *copying) drain(ctx context.Context, s *segment, limit int64) error {
	if s == nil {
		return nil
	}
	var client error
	err := s.read(limit, func(raw []byte, first, last bool) error {
		if client = ctx.Err(); client == nil {
			client = c.emit(raw, first, last)
		}
		return client
	})
	if client != nil {
		return client
	}
	if err != nil {
		c.problem(err)
	}
	return nil
}

// problem notes what could not be read, up to a bound; a followed file may fail in the same way at every look.
func (c *copying) problem(err error) {
	known := slices.ContainsFunc(c.problems, func(p error) bool { return p.Error() == err.Error() })
	if !known && len(c.problems) < maxLooks {
		c.problems = append(c.problems, err)
	}
}

// emit shows a raw line or a piece of one.
func (c *copying) emit(raw []byte, first, last bool) error {
	text := raw
	if first {
		var ok bool
		c.entry, text, ok = parse(raw)
		c.hidden = !ok || c.stream != none && c.entry.stream != c.stream
		if !c.hidden && c.skip > 0 {
			c.hidden = true
			if c.entry.whole {
				c.skip--
			}
		}
		c.hidden = c.hidden || c.entry.at.Before(c.options.Since)
	}
	if c.hidden {
		return nil
	}
	return c.to.add(c.entry.stream, c.entry.at, text, last && c.entry.whole)
}

// move goes on with the next file. final says that the runtime writes no more to the one that was read.
func (c *copying) move(ctx context.Context, next *segment, final bool) error {
	for _, s := range []*segment{c.before, c.now} {
		err := c.drain(ctx, s, unlimited)
		if err == nil && s != nil && (final || s != c.now || s.zipped) {
			err = s.rest(c.emit, true)
		}
		if err != nil {
			next.close()
			return err
		}
	}
	c.before.close()
	c.before, c.now = c.now, next
	return nil
}

// following opens the file after the one that is read; nil if there is none yet.
func (c *copying) following() (*segment, error) {
	for range maxLooks {
		s, again, err := c.look()
		if err != nil || !again {
			return s, err
		}
	}
	return nil, fmt.Errorf("%s rotates faster than it can be read", c.log)
}

// look is one try of following; again says that files have changed meanwhile.
func (c *copying) look() (next *segment, again bool, err error) {
	if c.now != nil && c.now.base == "" {
		same, exists, err := c.isCurrent(c.now)
		if err != nil || same || !exists {
			return nil, false, err
		}
	}
	rotated, err := c.rotated()
	if err != nil {
		return nil, false, err
	}
	if c.now != nil && !slices.Contains(rotated, c.now.base) {
		// It was the current file, or the rotation that gave it this name failed: then it may have any
		// other name by now, also an earlier one if the clock was set back.
		candidates := rotated
		if c.now.base == "" {
			candidates = after(rotated, c.last)
		}
		name, err := c.nameOf(c.now, candidates)
		if err != nil {
			return nil, false, err
		}
		if name != "" {
			c.now.base, c.last = name, name
		}
	}
	if newer := after(rotated, c.last); len(newer) > 0 {
		next, err := c.openRotated(newer[0])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, true, nil
		case err != nil:
			c.problem(err)
			c.last = newer[0]
			return nil, true, nil
		}
		c.last = newer[0]
		return next, false, nil
	}
	return c.current()
}

// current opens the current file, unless another one comes before it.
func (c *copying) current() (next *segment, again bool, err error) {
	next, err = c.openCurrent()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	// It may be newer than the file that was current when the folder was listed.
	rotated, err := c.rotated()
	if err != nil {
		next.close()
		return nil, false, err
	}
	if newer := after(rotated, c.last); len(newer) > 0 {
		if name, err := c.nameOf(next, newer[:1]); err != nil || name == "" {
			next.close()
			return nil, err == nil, err
		}
	}
	if c.now != nil && sameFile(c.now.file, next.file) {
		// The rotation failed, and the file has got its name back.
		next.close()
		c.now.base, c.last = "", ""
		if len(rotated) > 0 {
			c.last = rotated[len(rotated)-1]
		}
		return nil, false, nil
	}
	return next, false, nil
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// after returns the names after last.
func after(sorted []string, last string) []string {
	for i, name := range sorted {
		if name > last {
			return sorted[i:]
		}
	}
	return nil
}

// begin finds where the last n lines begin.
func (c *copying) begin(n int64) error {
	for range maxLooks {
		again, err := c.tryBegin(n)
		if err != nil || !again {
			return err
		}
	}
	return fmt.Errorf("%s rotates faster than it can be read", c.log)
}

// tryBegin is one try of begin; again says that files have changed meanwhile.
func (c *copying) tryBegin(n int64) (again bool, err error) {
	rotated, err := c.rotated()
	if err != nil {
		return false, err
	}
	c.last = ""
	if len(rotated) > 0 {
		c.last = rotated[len(rotated)-1]
	}
	s, again, err := c.current()
	if err != nil || again {
		return again, err
	}
	lines := counter{want: n, stream: c.stream}
	for i := len(rotated); ; i-- {
		if s != nil {
			done, err := c.count(&lines, s)
			if err != nil {
				s.close()
				return false, err
			}
			if done || i == 0 {
				c.now, c.last = s, ""
				if i > 0 {
					c.last = rotated[i-1]
				}
				if s.base != "" {
					c.last = s.base
				}
				return false, nil
			}
			s.close()
		}
		if i == 0 {
			c.last = ""
			return false, nil // nothing has been written yet, or nothing can be read
		}
		s, err = c.openRotated(rotated[i-1])
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		if err != nil {
			c.problem(err)
			s = nil
		}
	}
}

// count counts the lines of a file and goes to where the wanted ones begin, if that is in it;
// otherwise to its start.
func (c *copying) count(lines *counter, s *segment) (done bool, err error) {
	if s.zipped {
		skip, done, err := lines.tailSkip(s)
		if err != nil {
			c.problem(err)
		}
		if err := s.rewind(); err != nil {
			return false, err
		}
		if done {
			c.skip = skip
		}
		return done, nil
	}
	info, err := s.file.Stat()
	if err != nil {
		return false, err
	}
	start, done, err := lines.tailStart(s.file, info.Size())
	if err != nil {
		return false, err
	}
	_, err = s.file.Seek(start, io.SeekStart)
	return done, err
}
