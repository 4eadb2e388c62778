package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// redrawPeriod is how often the screen updates ages and states.
const redrawPeriod = 500 * time.Millisecond

// keptLines is how much of the log the screen remembers.
const keptLines = 1000

// screen shows a table above the newest log lines. It is the log's writer.
type screen struct {
	out *os.File

	mu     sync.Mutex
	lines  []string
	closed bool
}

// newScreen takes over the terminal's alternate screen.
func newScreen(out *os.File) *screen {
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l")
	return &screen{out: out}
}

// Write keeps log lines for the next frame.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.out.Write(p)
	}
	for line := range bytes.Lines(p) {
		s.lines = append(s.lines, printable(strings.TrimRight(string(line), "\n")))
	}
	if extra := len(s.lines) - keptLines; extra > 0 {
		s.lines = append(s.lines[:0], s.lines[extra:]...)
	}
	return len(p), nil
}

// draw paints one frame: the table, a rule, and as much of the log's end as fits.
func (s *screen) draw(table []string) {
	width, height := usualSize(term.GetSize(int(s.out.Fd())))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	_, _ = io.WriteString(s.out, frame(table, s.lines, width, height))
}

// usualSize replaces the size of a terminal that does not know it, such as a serial line, which says 0.
func usualSize(width, height int, err error) (int, int) {
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// frame composes the content of a terminal of this size.
func frame(table, log []string, width, height int) string {
	room := max(height-len(table)-1, 0)
	if len(log) > room {
		log = log[len(log)-room:]
	}
	rows := append(append([]string{}, table...), strings.Repeat("─", max(width, 0)))
	rows = append(rows, log...)
	if len(rows) > height {
		rows = rows[:max(height, 0)]
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, row := range rows {
		if i > 0 {
			b.WriteString("\r\n")
		}
		runes := []rune(row)
		b.WriteString(string(runes[:min(len(runes), max(width, 0))]))
		b.WriteString("\x1b[K")
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// close restores the terminal. From now on the log is written directly to it.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	fmt.Fprint(s.out, "\x1b[?25h\x1b[?1049l")
}

// draw keeps the screen up to date until ctx ends, then leaves the last table on the normal screen.
// It closes the channel when it is done.
func (a *agent) draw(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	if a.screen == nil {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		tick := time.NewTicker(redrawPeriod)
		defer tick.Stop()
		for {
			a.screen.draw(table(a.engine.Pods(), time.Now()))
			select {
			case <-tick.C:
			case <-ctx.Done():
				a.screen.close()
				fmt.Fprintln(a.screen.out, strings.Join(table(a.engine.Pods(), time.Now()), "\n"))
				return
			}
		}
	}()
	return done
}
