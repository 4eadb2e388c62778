package checkpoint_test

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/status/checkpoint"
)

// small is a disk with limited space.
type small struct {
	*checkpointtest.Disk

	mu    sync.Mutex
	free  int // beside the files
	sizes map[string]int
	// quota: what does not fit is refused for a quota.
	quota bool
}

func newSmall(free int) *small {
	return &small{Disk: &checkpointtest.Disk{}, free: free, sizes: map[string]int{}}
}

func (s *small) Write(name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(data)-s.sizes[name] > s.free {
		if s.quota {
			return syscall.EDQUOT
		}
		return syscall.ENOSPC
	}
	s.free -= len(data) - s.sizes[name]
	s.sizes[name] = len(data)
	return s.Disk.Write(name, data)
}

func (s *small) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += s.sizes[name]
	delete(s.sizes, name)
	return s.Disk.Remove(name)
}

func (s *small) Rename(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += s.sizes[to]
	s.sizes[to] = s.sizes[from]
	delete(s.sizes, from)
	return s.Disk.Rename(from, to)
}

// fill uses up all space except this much.
func (s *small) fill(but int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = but
}

func (s *small) reserved() bool { return slices.Contains(s.Names(), ".reserve") }

// TestReserveIsGivenUpForRecords: IN4: records that do not fit take the space that was set
// apart, which is set apart again once there is room. When it is gone, Sync says so.
func TestReserveIsGivenUpForRecords(t *testing.T) {
	const reserve, plenty = 64 << 10, 1 << 20
	for _, quota := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			disk := newSmall(plenty)
			disk.quota = quota
			k := checkpoint.NewKeeper(checkpoint.Options{Store: checkpoint.NewFiles(disk), Reserve: reserve})
			run(t, k)
			synctest.Wait()
			if !disk.reserved() {
				t.Fatal("no space is set apart at the start")
			}
			disk.fill(10)
			ensure(k, "a", checkpoint.Durable)
			if err := k.Sync(t.Context(), "a"); err != nil {
				t.Errorf("the reserve was not given up: %v", err)
			}
			if disk.reserved() || problem.Health(k.Problems()) != nil {
				t.Error("it is still there, or it is called unhealthy", problem.Health(k.Problems()))
			}
			disk.fill(10) // another writer was faster
			ensure(k, "b", checkpoint.Durable)
			if err := k.Sync(t.Context(), "b"); err == nil {
				t.Error("a record was written on a full disk")
			}
			<-time.After(10 * time.Minute)
			if disk.reserved() {
				t.Error("space is set apart where there is none")
			}
			disk.fill(plenty)
			<-time.After(2 * time.Minute)
			if !disk.reserved() || !slices.Contains(disk.Names(), "b") {
				t.Errorf("there is room again: %q", disk.Names())
			}
		})
	}
}

// TestReserveOutlivesItsProcess: IN4: an agent that starts on a full disk finds the reserve of the previous
// one, and so does a write before the reserve is looked for; a truncated reserve is created again.
func TestReserveOutlivesItsProcess(t *testing.T) {
	disk := newSmall(1 << 20)
	if err := checkpoint.NewFiles(disk).Reserve(1000); err != nil {
		t.Fatal(err)
	}
	disk.fill(0)
	next := checkpoint.NewFiles(disk)
	if err := next.Reserve(1000); err != nil || !next.Reserved() {
		t.Error(err, next.Reserved())
	}
	third := checkpoint.NewFiles(disk)
	if err := third.Write(t.Context(), []*checkpoint.Record{{UID: "a"}}); err != nil || disk.reserved() {
		t.Error(err, disk.Names())
	}
	disk.fill(10)
	disk.Put(".reserve", []byte("cut"), 0o600)
	if err := third.Reserve(1000); !errors.Is(err, syscall.ENOSPC) || disk.reserved() {
		t.Error(err, disk.Names())
	}
	if loaded, err := third.Load(t.Context()); err != nil || len(loaded.Bad) != 0 || len(loaded.Records) != 1 {
		t.Error(loaded, err)
	}
}

// TestReserveIsNoRecord: reading the records does not return it.
func TestReserveIsNoRecord(t *testing.T) {
	files := checkpoint.NewFiles(&checkpointtest.Disk{})
	if err := files.Reserve(1000); err != nil {
		t.Fatal(err)
	}
	if loaded, err := files.Load(t.Context()); err != nil || len(loaded.Bad)+len(loaded.Records) != 0 {
		t.Errorf("%+v, %v", loaded, err)
	}
}
