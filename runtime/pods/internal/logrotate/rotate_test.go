package logrotate_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podwright/podwright/runtime/pods/internal/logrotate"
)

// writer is a container's log as a runtime holds it: an open file that follows its
// name only when told to.
type writer struct {
	t    *testing.T
	dir  string
	file *os.File
	next int
	// failBefore and failAfter fail reopenings, before or after they take effect.
	failBefore, failAfter bool
}

var errReopen = errors.New("the runtime is down")

func newWriter(t *testing.T) *writer {
	w := &writer{t: t, dir: t.TempDir()}
	if err := w.reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.file.Close() })
	return w
}

func (w *writer) reopen(context.Context) error {
	if w.failBefore {
		return errReopen
	}
	file, err := os.OpenFile(filepath.Join(w.dir, "0.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	if w.file != nil {
		w.file.Close()
	}
	w.file = file
	if w.failAfter {
		return errReopen
	}
	return nil
}

// write writes numbered lines.
func (w *writer) write(n int) {
	w.t.Helper()
	for range n {
		if _, err := fmt.Fprintf(w.file, "2026-01-01T00:00:00Z stdout F %d\n", w.next); err != nil {
			w.t.Fatal(err)
		}
		w.next++
	}
}

// rotate is what a look at the log does. cut ends it before its n-th change; -1 never.
func (w *writer) rotate(now time.Time, files, cut int) (steps []string, err error) {
	w.t.Helper()
	dir, err := os.OpenRoot(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	defer dir.Close()
	if _, err := dir.Lstat("0.log"); errors.Is(err, os.ErrNotExist) {
		if err := w.reopen(w.t.Context()); err != nil {
			return nil, err
		}
	}
	r := logrotate.Rotation{Dir: dir, Log: "0.log", MaxFiles: files, Now: now, Reopen: w.reopen}
	r.Before = func(step string) error {
		if len(steps) == cut {
			return errors.New("killed")
		}
		steps = append(steps, step)
		return nil
	}
	return steps, r.Run(w.t.Context())
}

// files are all there are, in reading order.
func (w *writer) files() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "0.log" {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return append(names, "0.log")
}

// lines reads the numbers in all files in reading order.
func (w *writer) lines() (out []int) {
	w.t.Helper()
	for _, name := range w.files() {
		file, err := os.Open(filepath.Join(w.dir, name))
		if err != nil {
			w.t.Fatal(err)
		}
		var text io.Reader = file
		if strings.HasSuffix(name, ".gz") {
			if text, err = gzip.NewReader(file); err != nil {
				w.t.Fatal(err)
			}
		}
		all, err := io.ReadAll(text)
		if err := errors.Join(err, file.Close()); err != nil {
			w.t.Fatalf("%s: %v", name, err)
		}
		for line := range strings.Lines(string(all)) {
			var n int
			if _, err := fmt.Sscanf(line, "2026-01-01T00:00:00Z stdout F %d\n", &n); err != nil {
				w.t.Fatalf("%s: line %q: %v", name, line, err)
			}
			out = append(out, n)
		}
	}
	return out
}

// wantLines checks that the lines are complete up to the last one written, once
// each and in order; with all from the first one on.
func (w *writer) wantLines(all bool) {
	w.t.Helper()
	lines := w.lines()
	if len(lines) == 0 || all && lines[0] != 0 || lines[len(lines)-1] != w.next-1 {
		w.t.Fatalf("lines %v of %d", lines, w.next)
	}
	for i, n := range lines {
		if n != lines[0]+i {
			w.t.Fatalf("line %d after %d, in %v", n, lines[0]+i-1, w.files())
		}
	}
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// spec/runtime.md 18.4: rotation after rotation, the number of files holds, older
// ones are compressed, and what is kept is complete.
func TestRotationKeepsTheNumberOfFiles(t *testing.T) {
	w := newWriter(t)
	for i := range 8 {
		w.write(10)
		if _, err := w.rotate(start.Add(time.Duration(i)*10*time.Second), 4, -1); err != nil {
			t.Fatal(err)
		}
		w.write(1)
		w.wantLines(i < 3)
		if n := len(w.files()); n != min(i+2, 4) {
			t.Errorf("rotation %d leaves %d files", i, n)
		}
	}
	want := []string{"0.log.20260101-000050.gz", "0.log.20260101-000100.gz", "0.log.20260101-000110", "0.log"}
	if got := w.files(); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	info, err := os.Stat(filepath.Join(w.dir, want[0]))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, err %v: users who cannot read the log cannot read its rotated file", info.Mode(), err)
	}
}

// A kill of the agent before any of the changes, between rename and reopening too,
// leaves a state which the next look repairs: no line is lost, none doubled.
func TestKilledAnywhere(t *testing.T) {
	prepare := func(t *testing.T) *writer {
		w := newWriter(t)
		for i := range 3 {
			w.write(5)
			if _, err := w.rotate(start.Add(time.Duration(i)*10*time.Second), 9, -1); err != nil {
				t.Fatal(err)
			}
		}
		w.write(5)
		// A compression that was cut short in its middle, an earlier day.
		if err := os.WriteFile(filepath.Join(w.dir, "0.log.20251231-000000.tmp"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		return w
	}
	steps, err := prepare(t).rotate(start.Add(time.Minute), 9, -1)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"remove 0.log.20251231-000000.tmp", "compress 0.log.20260101-000020", "rename 0.log.20260101-000020.tmp",
		"remove 0.log.20260101-000020", "rename 0.log", "reopen",
	}
	if !slices.Equal(steps, want) {
		t.Fatalf("steps %q, want %q", steps, want)
	}
	for cut, step := range want {
		t.Run("before "+step, func(t *testing.T) {
			w := prepare(t)
			if _, err := w.rotate(start.Add(time.Minute), 9, cut); err == nil {
				t.Fatal("not cut")
			}
			w.write(5) // the container goes on meanwhile
			if _, err := w.rotate(start.Add(2*time.Minute), 9, -1); err != nil {
				t.Fatal(err)
			}
			w.write(5)
			if _, err := w.rotate(start.Add(3*time.Minute), 9, -1); err != nil {
				t.Fatal(err)
			}
			w.write(1)
			w.wantLines(true)
		})
	}
}

// edge case 28: the runtime does not reopen the log: it has its name back and no
// line is lost. If the runtime did it all the same, both files stay as they are.
func TestReopenFails(t *testing.T) {
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprintf("done=%v", done), func(t *testing.T) {
			w := newWriter(t)
			w.write(5)
			w.failBefore, w.failAfter = !done, done
			if _, err := w.rotate(start, 5, -1); !errors.Is(err, errReopen) {
				t.Fatalf("err %v", err)
			}
			if got := len(w.files()); done && got != 2 || !done && got != 1 {
				t.Errorf("edge 28: files %v", w.files())
			}
			w.write(5)
			w.wantLines(true)
			w.failBefore, w.failAfter = false, false
			if _, err := w.rotate(start, 5, -1); err != nil {
				t.Fatal(err)
			}
			w.write(5)
			w.wantLines(true)
		})
	}
}

// What a container puts into its log folder is not followed: a link in place of a
// rotated file is not read, one in place of the unfinished file not written through.
func TestPlantedLinks(t *testing.T) {
	w := newWriter(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.write(3)
	if _, err := w.rotate(start, 9, -1); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0.log.20250101-000000", "0.log.20260101-000000.tmp", "0.log.20250102-000000.gz"} {
		if err := os.Symlink(secret, filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.write(3)
	if _, err := w.rotate(start.Add(time.Minute), 9, -1); err == nil {
		t.Error("no error names the link")
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "secret" {
		t.Errorf("the file outside: %q, err %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(w.dir, "0.log.20250101-000000.gz")); err == nil {
		t.Error("the link was read")
	}
	if !slices.Contains(w.files(), "0.log.20260101-000000.gz") || !slices.Contains(w.files(), "0.log.20260101-000100") {
		t.Errorf("the log is not rotated: %v", w.files())
	}
}

// A rotation whose context has ended changes nothing of the log.
func TestRotateCancelled(t *testing.T) {
	w := newWriter(t)
	w.write(3)
	dir, err := os.OpenRoot(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := logrotate.Rotation{Dir: dir, Log: "0.log", MaxFiles: 5, Now: start, Reopen: w.reopen}
	if err := r.Run(ctx); !errors.Is(err, context.Canceled) || len(w.files()) != 1 {
		t.Errorf("err %v, files %v", err, w.files())
	}
}

// Whatever is cut off, and however often the runtime does not reopen the log or does it late, the files hold the
// newest lines without a gap, and their number is bounded (spec/runtime.md 18.4).
func TestRandomRotations(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 11))
		w := newWriter(t)
		now, files := start, 2+random.IntN(4)
		for range 40 {
			w.write(random.IntN(4))
			w.failBefore, w.failAfter = random.IntN(5) == 0, random.IntN(5) == 0
			cut := -1
			if random.IntN(3) == 0 {
				cut = random.IntN(10)
			}
			now = now.Add(time.Duration(random.IntN(120)-40) * time.Second)
			_, err := w.rotate(now, files, cut)
			if failed := w.failBefore || w.failAfter || cut >= 0; err != nil && !failed {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if random.IntN(5) == 0 && w.failBefore {
				w.failBefore = false // the reopening that was given up takes effect late
				_ = w.reopen(t.Context())
			}
		}
		w.failBefore, w.failAfter = false, false
		for range 2 {
			w.write(1)
			if _, err := w.rotate(now, files, -1); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		w.write(1)
		w.wantLines(false)
		if n := len(w.files()); n > files {
			t.Fatalf("seed %d: %v, want %d files at most", seed, w.files(), files)
		}
	}
}
