package tree_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// levels is deeper than a process may have open files, and a path bytes.
var levels = flag.Int("levels", 3000, "how deep the deep trees are")

// descriptors counts the open files of the process.
func descriptors(t testing.TB) int {
	r, w, err := os.Pipe() // so that the poller of the runtime has its files, whatever test is the first
	if err != nil {
		t.Fatal(err)
	}
	_, _ = r.Close(), w.Close()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Error(err)
	}
	return len(entries)
}

// watched is a context that counts the open files whenever it is asked, and ends when it has
// been asked so often.
type watched struct {
	context.Context
	t                  testing.TB
	asked, limit, most int
}

func (w *watched) Err() error {
	w.asked++
	w.most = max(w.most, descriptors(w.t))
	if w.limit > 0 && w.asked > w.limit {
		return context.Canceled
	}
	return nil
}

// open opens a folder until the test ends.
func open(t testing.TB, dir string) *os.File {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// empty fails unless nothing is in the folder.
func empty(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		t.Errorf("%d entries are left, as %.80s", len(entries), entries[0].Name())
	}
}

func contains(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q in it", err, text)
		}
	}
}
