package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFileSystem makes everything that was written to the file system of f durable.
func syncFileSystem(f *os.File) error {
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}
