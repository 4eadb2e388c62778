package podsource

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// TestRevisionOnAFailingDisk (KS7): a revision that the disk does not give back is as one that was never kept: the
// source delivers what the API server says, and keeps that.
func TestRevisionOnAFailingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "revision")
		if err := os.Symlink("/proc/self/mem", file); err != nil { // its first page cannot be read: EIO
			t.Fatal(err)
		}
		_, got, stop := run(t, newServer(), func(o *Options) { o.RevisionFile = file })
		want(t, "start", got, "")
		stop()
		if kept, err := os.ReadFile(file); err != nil || string(kept) != "100\n" {
			t.Errorf("the file holds %q, %v", kept, err)
		}
	})
}
