package node

import "syscall"

// diskBytes is the size of the file system that contains dir; 0 means unknown.
func diskBytes(dir string) int64 {
	var s syscall.Statfs_t
	if dir == "" || syscall.Statfs(dir, &s) != nil {
		return 0
	}
	return sizeOf(&s)
}

// sizeOf counts in fragments: a block is what reads are best made in, and may be larger.
func sizeOf(s *syscall.Statfs_t) int64 { return int64(s.Blocks) * int64(s.Frsize) }
