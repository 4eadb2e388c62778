package offline

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/internal/timing"
)

// errRunning is the error of a second Run.
var errRunning = errors.New("kube/offline: already running")

// Pauses after a file that could not be written.
const (
	pauseMin = time.Second
	pauseMax = time.Minute
)

// Run writes pending entries until ctx ends, and then once more what is still pending. It returns
// when that is done. A second concurrent Run is an error.
func (c *Cache) Run(ctx context.Context) error {
	if c == nil {
		<-ctx.Done()
		return nil
	}
	c.mu.Lock()
	if c.running {
		c.mu.Unlock()
		return errRunning
	}
	c.running = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running = false
	}()
	withdraw, err := c.export()
	if err != nil {
		return err
	}
	defer withdraw()
	lasting := context.WithoutCancel(ctx)
	for c.waitForWork(ctx) {
		c.pass(lasting, false)
	}
	c.pass(lasting, true)
	return nil
}

// waitForWork returns false when ctx ends, and true when there may be something to write.
func (c *Cache) waitForWork(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	next, waiting := c.nextTime()
	if waiting && !next.After(c.options.Clock.Now()) {
		return true
	}
	due, stop := timing.Alarm(c.options.Clock, next)
	defer stop()
	select {
	case <-c.wake:
		return true
	case <-due:
		return true
	case <-ctx.Done():
		return false
	}
}

// nextTime returns when the next file may be written, and whether one is pending.
func (c *Cache) nextTime() (next time.Time, waiting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		if f.waits() && (!waiting || f.again.Before(next)) {
			next, waiting = f.again, true
		}
	}
	return next, waiting
}

// pass writes what is due. The last pass also writes what is not due yet, and ends at the first failure.
func (c *Cache) pass(ctx context.Context, last bool) {
	c.mu.Lock()
	tell := c.leftOut
	c.leftOut = nil
	c.mu.Unlock()
	if tell != nil {
		tell()
	}
	for _, name := range c.due(last) {
		if err := c.writeFile(ctx, name); err != nil && last {
			return
		}
	}
}

// due returns the files that can be written or removed now.
func (c *Cache) due(all bool) (names []string) {
	now := c.options.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, f := range c.files {
		if f.waits() && (all || !now.Before(f.again)) {
			names = append(names, name)
		}
	}
	return names
}

// writeFile writes or removes one file. What is put meanwhile waits for the next pass.
func (c *Cache) writeFile(ctx context.Context, name string) error {
	c.mu.Lock()
	f := c.files[name]
	text, removed, sum := f.text, f.removed, f.sum
	c.mu.Unlock()
	err := c.within(func(root *os.Root) error {
		if removed {
			return durable.Remove(root, name)
		}
		data, err := encode(c.keys, name, text)
		if err != nil {
			return err
		}
		return c.write(root, name, data)
	})
	c.mu.Lock()
	entry, told := f.entry, c.told
	switch {
	case err != nil:
		c.noteFailure(f)
	case f.pause > 0:
		c.noteRecovery(f)
	}
	switch {
	case err != nil:
	case removed && f.removed:
		delete(c.files, name)
	case !removed && !f.removed && f.sum == sum:
		f.text = nil
	}
	recovered := told && !c.told
	c.mu.Unlock() // before anything is logged or counted: a logger may block, and a meter may read the cache under its own lock
	switch {
	case err != nil:
		c.instruments.failures.Add(ctx, 1)
		if !told {
			c.options.Logger.Error(err, "The offline cache cannot be written; what runs goes on, and it is tried again",
				"entry", entry.String(), "folder", c.options.Dir, "file", name)
		}
	case recovered:
		c.options.Logger.Info("The offline cache is written again", "folder", c.options.Dir)
	}
	return err
}

// noteFailure schedules another attempt for a file. The first of several failures is logged. c.mu must be held.
func (c *Cache) noteFailure(f *file) {
	if f.pause == 0 {
		c.failing++
	}
	f.pause = backoff.Next(pauseMin, pauseMax, f.pause)
	f.again = c.options.Clock.Now().Add(f.pause)
	c.told = true
}

// noteRecovery records that a file was written after failures. c.mu must be held.
func (c *Cache) noteRecovery(f *file) {
	f.pause, f.again = 0, time.Time{}
	if c.failing--; c.failing == 0 {
		c.told = false
	}
}
