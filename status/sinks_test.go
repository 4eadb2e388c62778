package status_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/statustest"
)

// TestChannelSink runs the conformance suite on the channel sink.
func TestChannelSink(t *testing.T) {
	statustest.Run(t, func(*testing.T) statustest.Subject {
		sink := status.NewChannelSink(1000)
		stored := map[types.UID][]v1.PodStatus{}
		filled := 0
		return statustest.Subject{
			Sink: sink,
			Stored: func(uid types.UID) []v1.PodStatus {
				for {
					select {
					case u := <-sink.Updates():
						stored[u.UID] = append(stored[u.UID], *u.Status)
						continue
					default:
					}
					return stored[uid]
				}
			},
			Block: func(blocked bool) {
				for ; blocked && filled < cap(sink.Updates()); filled++ {
					if _, err := sink.Store(t.Context(), status.Update{Status: &v1.PodStatus{}}); err != nil {
						t.Fatal(err)
					}
				}
				for ; !blocked && filled > 0; filled-- {
					<-sink.Updates()
				}
			},
		}
	})
}

// disk is a writer that fails in the middle of a line when it is full, like a
// file on a full disk.
type disk struct {
	mu   sync.Mutex
	data bytes.Buffer
	full bool
}

func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		n, _ := d.data.Write(p[:len(p)/2])
		return n, syscall.ENOSPC
	}
	return d.data.Write(p)
}

func (d *disk) setFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

func (d *disk) bytes() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(d.data.Bytes())
}

// line is a line of the JSON-lines sink.
type line struct {
	Time      time.Time    `json:"time"`
	UID       types.UID    `json:"uid"`
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Version   uint64       `json:"version"`
	Finished  bool         `json:"finished"`
	Status    v1.PodStatus `json:"status"`
}

// parse reads lines as the documentation tells readers to: what does not parse
// is skipped.
func parse(t *testing.T, data []byte) (lines []line, skipped int) {
	t.Helper()
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var l line
		if len(scanner.Bytes()) == 0 || json.Unmarshal(scanner.Bytes(), &l) != nil {
			skipped++
			continue
		}
		lines = append(lines, l)
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return lines, skipped
}

func storedIn(t *testing.T, data func() []byte) func(uid types.UID) []v1.PodStatus {
	return func(uid types.UID) (out []v1.PodStatus) {
		lines, _ := parse(t, data())
		for _, l := range lines {
			if l.UID == uid {
				out = append(out, l.Status)
			}
		}
		return out
	}
}

// TestJSONLinesSink runs the conformance suite on the JSON-lines sink, on a disk
// that can be full and on a real file.
func TestJSONLinesSink(t *testing.T) {
	t.Run("writer", func(t *testing.T) {
		statustest.Run(t, func(t *testing.T) statustest.Subject {
			d := &disk{}
			return statustest.Subject{Sink: status.NewJSONLinesSink(d, nil), Stored: storedIn(t, d.bytes), Break: d.setFull}
		})
	})
	t.Run("file", func(t *testing.T) {
		statustest.Run(t, func(t *testing.T) statustest.Subject {
			path := filepath.Join(t.TempDir(), "status.jsonl")
			sink := open(t, path)
			return statustest.Subject{Sink: sink, Stored: storedIn(t, func() []byte { return read(t, path) })}
		})
	})
}

func open(t *testing.T, path string) *status.JSONLinesSink {
	t.Helper()
	sink, err := status.OpenJSONLinesSink(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(sink.Close(), sink.Close()); err != nil {
			t.Error(err)
		}
	})
	return sink
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func store(t *testing.T, sink status.StatusSink, version uint64) {
	t.Helper()
	u := status.Update{
		PodRef:  status.PodRef{UID: "u1", Namespace: "shop", Name: "web"},
		Version: version, Finished: version == 9, Status: &v1.PodStatus{Phase: v1.PodRunning},
	}
	if result, err := sink.Store(t.Context(), u); err != nil || result != status.Stored {
		t.Fatalf("Store: %v, %v", result, err)
	}
}

// What a line holds.
func TestJSONLineHoldsTheWholeUpdate(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := &disk{}
	store(t, status.NewJSONLinesSink(d, clocktesting.NewFakePassiveClock(at)), 9)
	want := `{"time":"2026-11-20T12:00:00Z","uid":"u1","namespace":"shop","name":"web","version":9,"finished":true,"status":{"phase":"Running"}}` + "\n"
	if got := string(d.bytes()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestJSONLinesFile: mode, appending, and a line cut by a crash.
func TestJSONLinesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.jsonl")
	store(t, open(t, path), 1)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	store(t, open(t, path), 2)
	whole := read(t, path)
	if err := os.WriteFile(path, append(whole, `{"time":"2026`...), 0o600); err != nil {
		t.Fatal(err)
	}
	store(t, open(t, path), 3)
	lines, skipped := parse(t, read(t, path))
	if len(lines) != 3 || lines[2].Version != 3 || skipped != 1 {
		t.Errorf("%d lines, %d skipped", len(lines), skipped)
	}

	sink, err := status.OpenJSONLinesSink(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Store(t.Context(), status.Update{Status: &v1.PodStatus{}}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := status.OpenJSONLinesSink(filepath.Join(path, "below a file"), nil); err == nil {
		t.Error("opened a file below a file")
	}
}

// A pipe whose reader pauses holds up a store, and no Close, which ends the store.
func TestCloseDoesNotWaitForTheReaderOfAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	sink, err := status.OpenJSONLinesSink(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	stored, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		long := status.Update{Status: &v1.PodStatus{Message: strings.Repeat("x", 1<<20)}} // more than a pipe holds
		_, err := sink.Store(context.WithoutCancel(t.Context()), long)
		stored <- err
	}()
	if _, err := reader.Read(make([]byte, 1)); err != nil { // the store has begun
		t.Fatal(err)
	}
	go func() { closed <- sink.Close() }()
	for what, ended := range map[string]chan error{"Close": closed, "Store": stored} {
		select {
		case err := <-ended:
			if (err == nil) != (what == "Close") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(patience.Of(10 * time.Second)):
			t.Fatalf("%s waits for the reader", what)
		}
	}
	if _, err := sink.Store(t.Context(), status.Update{Status: &v1.PodStatus{}}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The error is reported, nothing stored is lost, and no
// stored line is damaged by the half line before it.
func TestFullDiskDamagesNoLine(t *testing.T) {
	d := &disk{}
	sink := status.NewJSONLinesSink(d, nil)
	store(t, sink, 1)
	d.setFull(true)
	for range 2 {
		if _, err := sink.Store(t.Context(), status.Update{Status: &v1.PodStatus{}}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error %v", err)
		}
	}
	d.setFull(false)
	store(t, sink, 2)
	store(t, sink, 3)
	if lines, skipped := parse(t, d.bytes()); len(lines) != 3 || skipped == 0 {
		t.Errorf("%d lines, %d skipped", len(lines), skipped)
	}
}

// A full channel holds Store until there is room.
func TestFullChannelHoldsStore(t *testing.T) {
	sink := status.NewChannelSink(1)
	store(t, sink, 1)
	done := make(chan error)
	go func() {
		_, err := sink.Store(context.WithoutCancel(t.Context()), status.Update{Version: 2})
		done <- err
	}()
	for want := uint64(1); want <= 2; want++ {
		if u := <-sink.Updates(); u.Version != want {
			t.Errorf("version %d, want %d", u.Version, want)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
