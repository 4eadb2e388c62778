package crilog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// MaxLine is the length in bytes of the longest text in one entry; longer lines
// are split into partial entries.
const MaxLine = 16 << 10

// timeFormat is RFC3339Nano with trailing zeros, so that entries sort as text.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// Writer is an open log file. It is safe for concurrent use.
type Writer struct {
	dir, name string
	clock     clock.PassiveClock

	// mu serialises entries of two streams and reopening. It is held during the
	// write because it only orders the writes to one file.
	mu     sync.Mutex
	file   *os.File // nil: not opened yet, or closed
	closed bool
	// torn: the file ends within an entry, because the disk was full or the program that wrote it was killed. The
	// next entry would become a part of that one, or be lost with it.
	torn bool
}

// Open opens the log file name below the folder dir for appending and creates
// what is missing: folders with mode 0755, the file with 0640. name must be a
// relative path; it cannot leave dir, not even through symbolic links.
func Open(dir, name string, clock clock.PassiveClock) (*Writer, error) {
	w := Late(dir, name, clock)
	file, err := w.open()
	if err != nil {
		return nil, err
	}
	w.use(file)
	return w, nil
}

// Late returns a writer as Open does, which opens the file with the first entry that finds it can be opened.
func Late(dir, name string, clock clock.PassiveClock) *Writer {
	return &Writer{dir: dir, name: name, clock: clock}
}

func (w *Writer) open() (*os.File, error) {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return nil, fmt.Errorf("log folder: %w", err)
	}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, fmt.Errorf("log folder: %w", err)
	}
	defer root.Close()
	if parent := filepath.Dir(w.name); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return nil, fmt.Errorf("log folder: %w", err)
		}
	}
	file, err := root.OpenFile(w.name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	return file, nil
}

// use makes file the one that entries go to. The lock is held, or nothing else has the writer yet.
func (w *Writer) use(file *os.File) { w.file, w.torn = file, endsTorn(file) }

// endsTorn reports whether a file ends within an entry. One that cannot be read counts as whole.
func endsTorn(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Reopen opens the file by its name again. If that fails, entries keep going to
// the old file and no new one exists.
func (w *Writer) Reopen() error {
	file, err := w.open()
	if err != nil {
		return err
	}
	w.mu.Lock()
	old, closed := w.file, w.closed
	w.use(file)
	w.mu.Unlock()
	switch {
	case closed: // it stays so
		return errors.Join(os.ErrClosed, w.Close())
	case old == nil:
		return nil
	}
	return old.Close()
}

// Close closes the file. Later writes fail with [os.ErrClosed]. Flush the streams
// first.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

func (w *Writer) write(entries []byte) error {
	if len(entries) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return os.ErrClosed
	}
	if w.file == nil {
		file, err := w.open()
		if err != nil {
			return err
		}
		w.use(file)
	}
	if w.torn {
		if _, err := w.file.Write([]byte{'\n'}); err != nil {
			return err
		}
		w.torn = false
	}
	n, err := w.file.Write(entries)
	w.torn = n > 0 && entries[n-1] != '\n'
	return err
}

// Stream returns a writer of one of the container's streams, "stdout" or
// "stderr".
func (w *Writer) Stream(name string) *Stream { return &Stream{writer: w, name: name} }

// Stream turns a stream of bytes into log entries. It is not safe for concurrent
// use, but two streams of one Writer may be used at once.
type Stream struct {
	writer  *Writer
	name    string
	pending []byte // the beginning of an unfinished line
	entries []byte
}

// Write logs the lines that p completes and keeps the rest for the next call. It
// takes all of p even if it returns an error: what could not be written is lost.
func (s *Stream) Write(p []byte) (int, error) {
	n, now := len(p), s.writer.clock.Now()
	s.entries = s.entries[:0]
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		if room := MaxLine - len(s.pending); len(line) > room {
			s.entry(now, 'P', p[:room])
			p = p[room:]
			continue
		}
		if !whole {
			s.pending = append(s.pending, line...)
			break
		}
		s.entry(now, 'F', line)
		p = rest
	}
	return n, s.writer.write(s.entries)
}

// Flush logs a line that has not ended as partial. Call it when the stream ends.
func (s *Stream) Flush() error {
	if len(s.pending) == 0 {
		return nil
	}
	s.entries = s.entries[:0]
	s.entry(s.writer.clock.Now(), 'P', nil)
	return s.writer.write(s.entries)
}

// entry adds one entry with the pending text and more.
func (s *Stream) entry(now time.Time, tag byte, more []byte) {
	s.entries = now.UTC().AppendFormat(s.entries, timeFormat)
	s.entries = append(append(append(s.entries, ' '), s.name...), ' ', tag, ' ')
	s.entries = append(append(append(s.entries, s.pending...), more...), '\n')
	s.pending = s.pending[:0]
}
