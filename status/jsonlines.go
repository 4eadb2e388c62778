package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// JSONLinesSink writes one line of JSON per update:
//
//	{"time":…,"uid":…,"namespace":…,"name":…,"version":…,"finished":…,"forgotten":…,"status":{…}}
//
// A line goes out in one write. If a write fails half-way (disk full, crash), the update counts as
// not stored and is offered again, and the next update starts on a new line, so a reader that skips
// lines that do not parse sees every stored update whole. The sink does not sync each line to disk.
type JSONLinesSink struct {
	clock  clock.PassiveClock
	closed atomic.Bool
	// turn is held while a line is written, and guards the fields below.
	turn chan struct{}
	w    io.Writer
	// partial is set if the last line may lack its line end.
	partial bool
}

// jsonLine is the form of a line.
type jsonLine struct {
	Time      time.Time     `json:"time"`
	UID       types.UID     `json:"uid"`
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Version   uint64        `json:"version"`
	Finished  bool          `json:"finished,omitempty"`
	Forgotten bool          `json:"forgotten,omitempty"`
	Status    *v1.PodStatus `json:"status"`
}

// NewJSONLinesSink returns a sink that writes to w. A write that blocks holds up the sink, even
// beyond the end of its context. A nil clk means the real clock.
func NewJSONLinesSink(w io.Writer, clk clock.PassiveClock) *JSONLinesSink {
	if clk == nil {
		clk = clock.RealClock{}
	}
	return &JSONLinesSink{clock: clk, turn: make(chan struct{}, 1), w: w}
}

// OpenJSONLinesSink appends to the file at path and creates it with mode 0600 if it does not exist.
// Existing content stays: if it ends in the middle of a line, after a crash, the sink ends that
// line. Call Close after the manager's Run has returned.
func OpenJSONLinesSink(path string, clk clock.PassiveClock) (*JSONLinesSink, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open status file: %w", err)
	}
	s := NewJSONLinesSink(f, clk)
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		var last [1]byte
		_, err = f.ReadAt(last[:], info.Size()-1)
		s.partial = last[0] != '\n'
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read status file: %w", err), f.Close())
	}
	return s, nil
}

// Store writes u as one line.
func (s *JSONLinesSink) Store(ctx context.Context, u Update) (StoreResult, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.closed.Load() {
		return 0, fmt.Errorf("write status line: %w", os.ErrClosed)
	}
	line, err := json.Marshal(jsonLine{
		Time: s.clock.Now().UTC(), UID: u.UID, Namespace: u.Namespace, Name: u.Name,
		Version: u.Version, Finished: u.Finished, Forgotten: u.Forgotten, Status: u.Status,
	})
	if err != nil {
		return 0, fmt.Errorf("encode status line: %w", err)
	}
	if s.partial {
		line = append([]byte{'\n'}, line...)
	}
	line = append(line, '\n')
	n, err := s.w.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.partial = s.partial || n > 0
		return 0, fmt.Errorf("write status line: %w", err)
	}
	s.partial = false
	return Stored, nil
}

// Close closes the file, or the writer if it can be closed. Later stores fail. A second Close does
// nothing. A writer that is no [os.File] is closed between two lines, so a write that blocks holds up
// Close; a file is closed at once, which ends a write that waits for the reader of a pipe.
func (s *JSONLinesSink) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if f, ok := s.w.(*os.File); ok {
		return f.Close()
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if c, ok := s.w.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Name returns "jsonlines".
func (s *JSONLinesSink) Name() string { return "jsonlines" }
