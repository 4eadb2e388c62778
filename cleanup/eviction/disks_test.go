package eviction

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/internal/foreign"
)

// TestDiskThatDoesNotAnswer (syncloop.md 16): memory is read although a disk hangs, within a second, and the
// signals of the disk say so until it answers. It is not asked again meanwhile.
func TestDiskThatDoesNotAnswer(t *testing.T) {
	procfs := proc(t)
	for name, hung := range map[string]string{"of the node": "/node", "of images": "/images"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := machine(t, LinuxStatsOptions{Proc: procfs, NodeFs: "/node", ImageFs: func(context.Context) (string, error) { return "/images", nil }})
				var asked atomic.Int32
				answers := make(chan struct{})
				m.inspect = func(path string) (fileSystem, error) {
					if path == hung {
						asked.Add(1)
						<-answers
					}
					return inspect("/")
				}
				signals := map[string][]Signal{"/node": {NodeFsAvailable, NodeFsInodesFree}, "/images": {ImageFsAvailable, ImageFsInodesFree}}
				for range 3 {
					began := time.Now()
					got, err := m.Node(t.Context())
					if took := time.Since(began); took > diskWait || got[MemoryAvailable].Capacity == 0 || got[PIDAvailable].Capacity == 0 {
						t.Errorf("after %v: %v", took, got)
					}
					for path, of := range signals {
						for _, s := range of {
							_, read := got[s]
							late := (*foreign.UnansweredError)(nil)
							if failed := errors.As(signalErrors(err)[s], &late); failed != (path == hung) || read && failed {
								t.Errorf("%s: read %t, %v", s, read, err)
							}
						}
					}
				}
				if n := asked.Load(); n != 1 {
					t.Errorf("the disk was asked %d times", n)
				}
				close(answers)
				synctest.Wait()
				if got, err := m.Node(t.Context()); err != nil || got[NodeFsAvailable].Capacity == 0 || got[ImageFsAvailable].Capacity == 0 {
					t.Errorf("once it answers: %v, %v", got, err)
				}
			})
		})
	}
}
