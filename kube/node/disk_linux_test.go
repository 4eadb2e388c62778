package node

import (
	"syscall"
	"testing"
)

// TestBlocksHaveTheSizeOfFragments: KN3. A network file system may want to be read in larger pieces than it counts in.
func TestBlocksHaveTheSizeOfFragments(t *testing.T) {
	if got := sizeOf(&syscall.Statfs_t{Blocks: 1 << 20, Frsize: 4 << 10, Bsize: 128 << 10}); got != 4<<30 {
		t.Errorf("%d bytes, want 4 GiB", got)
	}
}
