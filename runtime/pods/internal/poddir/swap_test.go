package poddir_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// withoutWaiting fails the test if do waits for the other end of pipe.
func withoutWaiting(t *testing.T, pipe string, do func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
	}()
	select {
	case <-ended:
		return
	case <-time.After(patience.Of(time.Minute)): // who waits for the other end waits without end
		t.Error("it waits for a pipe")
	}
	for {
		// Both ends: every open returns.
		f, err := os.OpenFile(pipe, os.O_RDWR|unix.O_NONBLOCK, 0)
		if err == nil {
			defer f.Close()
		}
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// swapping exchanges two names until the test ends.
func swapping(t *testing.T, a, b string) {
	var swapper sync.WaitGroup
	stop := make(chan struct{})
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		swapper.Wait()
	})
}

func pipe(t *testing.T, path string) string {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A pipe in the place of a folder is refused: a pod cannot hold up the agent with it.
func TestPipeIsNoFolder(t *testing.T) {
	dir := t.TempDir()
	fifo := pipe(t, filepath.Join(dir, "fifo"))
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o755), os.Symlink("fifo", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	withoutWaiting(t, fifo, func() {
		for name, good := range map[string]bool{"a": true, "fifo": false, "link": false} {
			sub, err := poddir.OpenRoot(root, name)
			if (err == nil) != good {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				sub.Close()
			}
		}
	})
	withoutWaiting(t, fifo, func() {
		if path, err := poddir.OpenSubPath(fifo, "sub"); err == nil {
			t.Errorf("a volume that is a pipe has the sub-path %s", path)
		}
	})
}

// A pod that swaps a folder on the way to a file with a pipe does not hold up the agent.
func TestFolderSwappedWithPipe(t *testing.T) {
	volume := t.TempDir()
	write(t, filepath.Join(volume, "a/env"), "x")
	fifo := pipe(t, filepath.Join(volume, "fifo"))
	withoutWaiting(t, fifo, func() {
		swapping(t, filepath.Join(volume, "a"), fifo)
		for range 20000 {
			if f, err := poddir.OpenFile(volume, filepath.Join(volume, "a/env")); err == nil {
				f.Close()
			}
		}
	})
}

// A pod that swaps a file with a pipe or device never makes the agent open that, which could change its state.
func TestFileSwappedWithPipe(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "x")
	fifo := pipe(t, filepath.Join(dir, "fifo"))
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, fifo, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	swapping(t, filepath.Join(dir, "f"), fifo)
	opened, refused := 0, 0
	for i := 0; i < 100_000 && (opened < 5000 || refused < 5000); i++ {
		f, err := poddir.OpenFile(dir, filepath.Join(dir, "f"))
		if err != nil {
			refused++
			continue
		}
		opened++
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			t.Fatalf("opened %v, err %v", info, err)
		}
		f.Close()
	}
	if opened == 0 || refused == 0 {
		t.Errorf("%d opened, %d refused: there was no race", opened, refused)
	}
	if n, err := unix.Read(watch, make([]byte, 1024)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("the pipe was opened: %d bytes of events, err %v", n, err)
	}
}
