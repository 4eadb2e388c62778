package node

import "syscall"

// diskBytes is the size of the file system that contains dir; 0 means unknown.
func diskBytes(dir string) int64 {
	var s syscall.Statfs_t
	if dir == "" || syscall.Statfs(dir, &s) != nil {
		return 0
	}
	return int64(s.Blocks) * int64(s.Bsize)
}
