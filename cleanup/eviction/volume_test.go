package eviction

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/tree"
	"github.com/podwright/podwright/internal/tree/treetest"
)

// TestDeepFolderIsMeasured (IN19): all of a folder counts that is deeper than a path is long.
func TestDeepFolderIsMeasured(t *testing.T) {
	const levels = 2500
	dir := t.TempDir()
	at := int(treetest.Chain(t, dir, levels, 0).Fd())
	defer func() {
		if err := tree.RemovePath(t.Context(), filepath.Join(dir, "deep")); err != nil {
			t.Error(err)
		}
	}()
	deepest, err := unix.Openat(at, "f", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(deepest), "f")
	_, err = f.Write(make([]byte, 1<<20))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	bytes, files, err := (walk{}).size(t.Context(), dir)
	if err != nil || files != levels+2 || bytes < 1<<20 {
		t.Errorf("%d bytes in %d files, want %d: %v", bytes, files, levels+2, err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	if _, _, err := (walk{}).size(ended, dir); !errors.Is(err, errStopped) {
		t.Errorf("a measurement that was cut: %v", err)
	}
}

// TestManyFilesHideNothing: FD2. However many files a folder has, what they and the others take up counts; only
// FolderSize ends early, and says what it has found.
func TestManyFilesHideNothing(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "many") // lists what was made last first
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "data"), make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 201 {
		sub := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		for j := range 1000 {
			if err := unix.Mknod(filepath.Join(sub, strconv.Itoa(j)), unix.S_IFREG|0o600, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if bytes, files, err := (walk{enough: 4 << 20}).size(t.Context(), dir); bytes < 8<<20 || err != nil {
		t.Errorf("%d bytes in %d files, %v", bytes, files, err)
	}
	if _, files, err := (walk{}).size(t.Context(), dir); files != 201*1001+2 || err != nil {
		t.Errorf("%d files, %v", files, err)
	}
	if _, files, err := FolderSize(t.Context(), dir); files != maxFiles || err != nil {
		t.Errorf("FolderSize: %d files, %v", files, err)
	}
}

// TestLinkedFilesCountOnce: also those that a walk can no longer remember, as long as all their names are in the folder.
func TestLinkedFilesCountOnce(t *testing.T) {
	file := tree.Entry{Stat: &unix.Stat_t{Mode: unix.S_IFREG, Blocks: 8, Nlink: 2, Ino: 1}}
	s := sum{linked: map[uint64]bool{}}
	for _, want := range []uint64{4096, 4096} {
		if err := s.add(t.Context(), file); err != nil || s.bytes != want {
			t.Errorf("%d bytes, %v, want %d", s.bytes, err, want)
		}
	}
	for i := range uint64(maxLinked) {
		s.linked[1000+i] = true
	}
	file.Stat.Ino = 2
	for _, want := range []uint64{6144, 8192} {
		if err := s.add(t.Context(), file); err != nil || s.bytes != want {
			t.Errorf("beyond what is remembered: %d bytes, %v, want %d", s.bytes, err, want)
		}
	}
}

// TestWalksTakeTurns: FD2. A long walk lets a short one pass, and one that is cut gives its turn back.
func TestWalksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := map[string]string{}
		for i := range 3 * turnFiles {
			content[strconv.Itoa(i)] = ""
		}
		dir := files(t, content)
		w := walk{turns: newTurns(clock.RealClock{}, 1)}
		give, err := w.turns.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errStopped)
		if _, _, err := w.size(ended, dir); !errors.Is(err, errStopped) {
			t.Errorf("a walk without its turn, at the end: %v", err)
		}
		give()
		give()
		begin := time.Now()
		var under sync.WaitGroup
		for range 4 {
			under.Go(func() {
				if _, files, err := w.size(t.Context(), dir); files != 3*turnFiles+1 || err != nil {
					t.Errorf("%d files, %v", files, err)
				}
			})
		}
		under.Wait()
		if took := time.Since(begin); took != 0 {
			t.Errorf("walks wait for the end of a turn: %v", took)
		}
		if _, _, err := w.size(ended, dir); err == nil {
			t.Error("a walk goes on after its end")
		}
		if synctest.Wait(); len(w.turns.taken) != 0 {
			t.Error("a turn was not given back")
		}
	})
}

// TestTurnIsLent: a walk that is cut while it waits for its next turn has none; a turn ends after a while, whatever its
// owner does, and at once with its context.
func TestTurnIsLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(clock.RealClock{}, 1)
		stuck, cut := context.WithCancel(t.Context())
		if _, err := turns.take(stuck); err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := sum{walk: walk{turns: turns}, files: turnFiles - 1, give: func() {}}
		if err := s.add(ended, tree.Entry{Stat: &unix.Stat_t{}}); err == nil {
			t.Error("a walk goes on without its turn")
		}
		begin := time.Now()
		give, err := turns.take(t.Context())
		if took := time.Since(begin); err != nil || took != turnLimit-time.Second {
			t.Errorf("the turn of a walk that is stuck lasts %v more: %v", took, err)
		}
		cut()
		if synctest.Wait(); len(turns.taken) != 1 {
			t.Error("a walk that has no turn gave one back")
		}
		give()
		if synctest.Wait(); len(turns.taken) != 0 {
			t.Error("a turn was not given back")
		}
		if _, err := turns.take(ended); err == nil {
			synctest.Wait()
		}
		if len(turns.taken) != 0 {
			t.Error("a turn outlives its context")
		}
	})
}

// TestReadingsTakeTurns: many pods with large folders do not keep more than some CPUs and disk queues busy.
func TestReadingsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := files(t, map[string]string{"a": "x"})
		m := machine(t, LinuxStatsOptions{PodDirs: func(*v1.Pod) []string { return []string{dir} }})
		for range maxWalks {
			if _, err := m.walks.take(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if used, err := m.Pod(limited, pod("a"), NodeFsAvailable); err == nil {
			t.Errorf("a walk begins beside %d others: %+v", maxWalks, used)
		}
	})
}

var errStopped = errors.New("stopped")

// TestTurnsOfLinuxStatsEndOnItsClock: the limit of a turn passes on the clock of the options, which may be virtual.
func TestTurnsOfLinuxStatsEndOnItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clocktesting.NewFakeClock(time.Now())
		stats, err := NewLinuxStats(LinuxStatsOptions{Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		var gives []func()
		for range maxWalks {
			give, err := stats.walks.take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			gives = append(gives, give)
		}
		ctx, cancel := context.WithCancel(t.Context())
		taken := make(chan error, 1)
		go func() {
			give, err := stats.walks.take(ctx)
			if err == nil {
				give()
			}
			taken <- err
		}()
		synctest.Wait()
		c.Step(turnLimit)
		synctest.Wait()
		select {
		case err := <-taken:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("a turn lasts longer than its limit")
			cancel()
			<-taken
		}
		cancel()
		for _, give := range gives {
			give()
		}
		synctest.Wait()
	})
}
