package eviction

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/tree"
	"github.com/podwright/podwright/internal/tree/treetest"
)

// TestDeepFolderIsMeasured (IN19): all of a folder counts that is deeper than a path is long.
func TestDeepFolderIsMeasured(t *testing.T) {
	const levels = 2500
	dir := t.TempDir()
	at := int(treetest.Chain(t, dir, levels, 0).Fd())
	defer func() {
		if err := tree.RemovePath(t.Context(), filepath.Join(dir, "deep")); err != nil {
			t.Error(err)
		}
	}()
	deepest, err := unix.Openat(at, "f", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(deepest), "f")
	_, err = f.Write(make([]byte, 1<<20))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	bytes, files, err := size(t.Context(), dir, 0)
	if err != nil || files != levels+2 || bytes < 1<<20 {
		t.Errorf("%d bytes in %d files, want %d: %v", bytes, files, levels+2, err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	if _, _, err := size(ended, dir, 0); !errors.Is(err, errStopped) {
		t.Errorf("a measurement that was cut: %v", err)
	}
}

var errStopped = errors.New("stopped")
