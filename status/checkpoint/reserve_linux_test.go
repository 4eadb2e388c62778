package checkpoint_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/podwright/podwright/status/checkpoint"
)

// TestReserveTakesRealBlocks: IN4: a sparse file would give nothing back.
func TestReserveTakesRealBlocks(t *testing.T) {
	const size = 1 << 20
	dir := filepath.Join(t.TempDir(), "records")
	if err := checkpoint.NewFiles(checkpoint.Dir(dir)).Reserve(size); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, ".reserve"))
	if err != nil {
		t.Fatal(err)
	}
	if taken := info.Sys().(*syscall.Stat_t).Blocks * 512; taken < size || info.Mode().Perm() != 0o600 {
		t.Errorf("%d bytes on the disk, mode %v", taken, info.Mode())
	}
}
