package poddir_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// askedServer mounts a file system at dir whose server answers only the kernel's first request. asked is called with the
// operation of the second; whatever waits for its answer fails.
func askedServer(t *testing.T, dir string, asked func(operation uint32)) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, fs.ErrPermission) {
		t.Skip("no FUSE here")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("server", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		defer unix.Close(fd)
		request := make([]byte, 1<<20)
		for {
			n, err := unix.Read(fd, request)
			if err != nil || n < 16 {
				return // it is unmounted
			}
			const initialize = 26
			operation := binary.NativeEndian.Uint32(request[4:])
			if operation != initialize {
				asked(operation)
				return
			}
			answer := make([]byte, 16+24)
			binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
			copy(answer[8:16], request[8:16])
			binary.NativeEndian.PutUint32(answer[16:], 7)  // the version
			binary.NativeEndian.PutUint32(answer[20:], 22) // with a short answer
			if _, err := unix.Write(fd, answer); err != nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		done.Wait()
	})
}

// spec/runtime.md 12.8: releasing a sub-path does not ask the server of its file system, which may be gone.
func TestReleaseAsksNoServer(t *testing.T) {
	s := mountStore(t)
	dir, at := t.TempDir(), poddir.SubPath{Volume: "v", Host: t.TempDir(), Container: "app", Path: "part"}
	askedServer(t, dir, func(operation uint32) { t.Errorf("the kernel asks for operation %d", operation) })
	held, err := s.OpenAndHold("u", at)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(dir, held, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.ReleaseSubPaths("u", "app"); err != nil || mounted(t, s, "u") != 0 {
		t.Errorf("err %v, %d mounts of %s", err, mounted(t, s, "u"), filepath.Base(held))
	}
}
