package treetest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Chain makes a tree of n levels below dir, each with this many files, and returns the deepest folder.
func Chain(t testing.TB, dir string, n, files int) *os.File {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range n {
		for f := range files {
			if err == nil {
				var fd int
				if fd, err = unix.Openat(at, fmt.Sprint("f", f), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
					err = unix.Close(fd)
				}
			}
		}
		if err == nil {
			err = unix.Mkdirat(at, "deep", 0o755)
		}
		var next int
		if err == nil {
			next, err = unix.Openat(at, "deep", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(at)
		at = next
	}
	f := os.NewFile(uintptr(at), "deep")
	t.Cleanup(func() { f.Close() })
	return f
}
