package eviction

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
)

// diskWait is how long a reading waits for a disk that does not answer, such as one whose server is gone:
// the other signals must not wait for it.
const diskWait = time.Second

// runtimeWait is the same for the runtime, which names the disk of its images.
const runtimeWait = 3 * time.Second

// fileSystem is what the kernel says of a folder's file system.
type fileSystem struct {
	device uint64
	space  syscall.Statfs_t
}

func inspect(path string) (fileSystem, error) {
	var out fileSystem
	if err := syscall.Statfs(path, &out.space); err != nil {
		return fileSystem{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	var folder syscall.Stat_t
	if err := syscall.Stat(path, &folder); err != nil {
		return fileSystem{}, fmt.Errorf("stat %s: %w", path, err)
	}
	out.device = uint64(folder.Dev)
	return out, nil
}

// apartFrom reports whether two folders are on different disks.
func (f fileSystem) apartFrom(other fileSystem) bool {
	if f.space.Type == other.space.Type && f.space.Type == unix.BTRFS_SUPER_MAGIC {
		return f.space.Blocks != other.space.Blocks // subvolumes have devices of their own, and share the space
	}
	return f.device != other.device
}

// disk is a reading of a file system; both fields are nil if there is none to read.
type disk struct {
	read *fileSystem
	err  error
}

// statfs returns what was read, or nil.
func (d disk) statfs() *syscall.Statfs_t {
	if d.read == nil {
		return nil
	}
	return &d.read.space
}

// disks reads both file systems at the same time, and notes whether they are two.
func (m *LinuxStats) disks(ctx context.Context) (node, image disk) {
	var both sync.WaitGroup
	if m.options.NodeFs != "" {
		both.Go(func() { node = m.look(ctx, m.options.NodeFs) })
	}
	if m.options.ImageFs != nil {
		both.Go(func() {
			call := foreign.Call{Kind: problem.Function, Name: "LinuxStatsOptions.ImageFs"}
			path, err := foreign.Ask(ctx, m.calls, call, foreign.Limits{Wait: runtimeWait, Join: true}, m.options.ImageFs)
			if image.err = err; err == nil && path != "" {
				image = m.look(ctx, path)
			}
		})
	}
	both.Wait()
	if node.read != nil && image.read != nil {
		apart := node.read.apartFrom(*image.read)
		m.apart.Store(&apart)
	}
	return node, image
}

// look reads a file system. While a call does not return, no further one is made for the folder.
func (m *LinuxStats) look(ctx context.Context, path string) disk {
	call := foreign.Call{Kind: problem.Function, Name: "statfs " + path}
	got, err := foreign.Ask(ctx, m.calls, call, foreign.Limits{Wait: diskWait, Join: true}, func(context.Context) (fileSystem, error) {
		return m.inspect(path)
	})
	if err != nil {
		return disk{err: err}
	}
	return disk{read: &got}
}

// imagesApart reports whether images are known to have a file system of their own.
func (m *LinuxStats) imagesApart(ctx context.Context) bool {
	if m.apart.Load() == nil && m.options.ImageFs != nil {
		m.disks(ctx)
	}
	known := m.apart.Load()
	return known != nil && *known
}
