package fake

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// maxLogEntry is the length at which runtimes split a line into partial entries.
const maxLogEntry = 16 << 10

// logFile is the log of a running container. It opens its file when the first
// line comes and after a reopening. Its lock serialises writing and reopening.
// The nil logFile writes nothing.
type logFile struct {
	path string

	mu     sync.Mutex
	file   *os.File // nil when not open
	closed bool
}

// touch makes an empty log file if there is none. Its folder must exist.
func touch(path string) error {
	file, err := openAppend(path)
	if err != nil {
		return err
	}
	return file.Close()
}

func openAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
}

// write appends a line in the format of spec/runtime.md 18.3.
func (l *logFile) write(at time.Time, line Line) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.file == nil {
		file, err := openAppend(l.path)
		if err != nil {
			return err
		}
		l.file = file
	}
	stream := "stdout"
	if line.Stderr {
		stream = "stderr"
	}
	prefix := at.Format(time.RFC3339Nano) + " " + stream + " "
	var b strings.Builder
	text := line.Text
	for len(text) > maxLogEntry {
		b.WriteString(prefix + "P " + text[:maxLogEntry] + "\n")
		text = text[maxLogEntry:]
	}
	b.WriteString(prefix + "F " + text + "\n")
	_, err := io.WriteString(l.file, b.String())
	return err
}

// reopen opens the path again, for a file that was renamed. On an error the old
// file stays.
func (l *logFile) reopen() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	file, err := openAppend(l.path)
	if err != nil {
		return err
	}
	if l.file != nil {
		err = l.file.Close()
	}
	l.file = file
	return err
}

// close closes the file; writing then does nothing.
func (l *logFile) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// logQueue holds what runDue writes to logs: runDue runs under the runtime's lock,
// which is not held during I/O. The queue is guarded by that lock.
type logQueue struct {
	queue []func() error
	// writing serialises flushes, so that entries reach a file in order and a
	// caller that sees a container exited finds its log complete. Guarding
	// the file I/O is its only purpose.
	writing sync.Mutex
}

// add queues a line. The runtime's lock must be held.
func (q *logQueue) add(l *logFile, at time.Time, line Line) {
	if l != nil {
		q.queue = append(q.queue, func() error { return l.write(at, line) })
	}
}

// reopening is what became of a reopening, once the queue has been flushed.
type reopening struct{ err error }

// reopen queues reopening a file: lines that are due before belong in the old file. The
// runtime's lock must be held.
func (q *logQueue) reopen(l *logFile) *reopening {
	r := &reopening{}
	q.queue = append(q.queue, func() error {
		r.err = l.reopen()
		return nil
	})
	return r
}

// close queues closing a file. The runtime's lock must be held.
func (q *logQueue) close(l *logFile) {
	if l != nil {
		q.queue = append(q.queue, l.close)
	}
}

// flush writes what is queued. The runtime's lock must not be held.
func (q *logQueue) flush(f *Runtime) error {
	if !f.options.WriteLogs {
		return nil
	}
	q.writing.Lock()
	defer q.writing.Unlock()
	f.mu.Lock()
	queue := q.queue
	q.queue = nil
	f.mu.Unlock()
	var err error
	for _, write := range queue {
		err = errors.Join(err, write())
	}
	return err
}
