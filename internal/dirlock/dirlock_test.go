package dirlock_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/dirlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOneHolder(t *testing.T) {
	dir := t.TempDir()
	first, err := dirlock.Acquire(dir, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dirlock.Acquire(dir, "b"); !errors.Is(err, dirlock.ErrInUse) {
		t.Fatalf("second Acquire: %v, want ErrInUse", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := dirlock.Acquire(dir, "a")
	if err != nil {
		t.Fatalf("after Release: %v", err)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
}

// The holder of a folder can be looked up without harm, and a free lock says nothing about its
// former holder.
func TestHolder(t *testing.T) {
	dir := t.TempDir()
	want := func(owner string, held bool) {
		t.Helper()
		for range 2 {
			if o, h := dirlock.Holder(dir); o != owner || h != held {
				t.Errorf("held %v by %q, want %v by %q", h, o, held, owner)
			}
		}
	}
	want("", false)
	for _, owner := range []string{"a-long-name", "b"} {
		lock, err := dirlock.Acquire(dir, owner)
		if err != nil {
			t.Fatal(err)
		}
		want(owner, true)
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		want("", false)
	}
}

// A running engine elsewhere with the same owner is a rival; the same folder under another name, a
// folder of another owner and one that nothing holds are not.
func TestRival(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(ours, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{ours, theirs} {
		lock, err := dirlock.Acquire(dir, "a")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lock.Release() })
	}
	for _, c := range []struct {
		dir, owner string
		rival      bool
	}{
		{theirs, "a", true}, {theirs, "b", false}, {ours, "a", false}, {link, "a", false}, {t.TempDir(), "a", false}, {ours + "/none", "a", false},
	} {
		if err := dirlock.Rival(c.dir, ours, c.owner); errors.Is(err, dirlock.ErrSameOwner) != c.rival {
			t.Errorf("%s for %s: %v, want a rival: %v", c.dir, c.owner, err, c.rival)
		}
	}
}

// The pods of a folder keep their owner (spec/runtime.md 1.11), so the text offers another one only for a folder without pods.
func TestRivalOfAFolderWithPods(t *testing.T) {
	for _, pods := range []bool{false, true} {
		ours, theirs := t.TempDir(), t.TempDir()
		if pods {
			if err := os.MkdirAll(filepath.Join(ours, "pods", "uid"), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		for _, dir := range []string{ours, theirs} {
			lock, err := dirlock.AcquireRoot(dir, "a")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = lock.Release() })
		}
		err := dirlock.Rival(theirs, ours, "a")
		if !errors.Is(err, dirlock.ErrSameOwner) || strings.Contains(err.Error(), "drain") != pods || strings.Contains(err.Error(), "Node.Name") == pods {
			t.Errorf("pods %t: %v", pods, err)
		}
	}
}

// An engine that could not record its owner may be a rival: the text says no more than that.
func TestRivalWithoutARecord(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	for _, dir := range []string{ours, theirs} {
		lock, err := dirlock.Acquire(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lock.Release() })
	}
	if err := dirlock.Rival(theirs, ours, "a"); !errors.Is(err, dirlock.ErrSameOwner) || strings.Contains(err.Error(), "has the OwnerID") {
		t.Error(err)
	}
}

// Looking up the holder keeps nothing from locking the folder, and neither does a program that
// locks it for a moment.
func TestLookingUpTheHolderRefusesNothing(t *testing.T) {
	dir := t.TempDir()
	stop, done := make(chan struct{}), make(chan struct{})
	var looks atomic.Int64
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				dirlock.Holder(dir)
				looks.Add(1)
			}
		}
	}()
	for acquired := 0; acquired < 20 || looks.Load() < 20; acquired++ {
		lock, err := dirlock.Acquire(dir, "a")
		if err != nil {
			t.Error(err)
			continue
		}
		_ = lock.Release()
	}
	close(stop)
	<-done
}

// An engine without a lock file, because there was no room for it or somebody removed it, keeps
// others out, also once there is a file.
func TestHolderWithoutAFile(t *testing.T) {
	dir := t.TempDir()
	folder, err := os.Open(dir) // what an engine on a full disk holds
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is a file
		if owner, held := dirlock.Holder(dir); owner != "" || !held {
			t.Errorf("held %v by %q", held, owner)
		}
		if _, err := dirlock.Acquire(dir, "b"); !errors.Is(err, dirlock.ErrInUse) {
			t.Fatalf("%v, want ErrInUse", err)
		}
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	lock, err := dirlock.Acquire(dir, "b")
	if err != nil {
		t.Fatal(err)
	}
	// The same for one whose file was removed.
	if err := os.Remove(filepath.Join(dir, ".lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := dirlock.Acquire(dir, "c"); !errors.Is(err, dirlock.ErrInUse) {
		t.Errorf("%v, want ErrInUse", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestMissingFolder(t *testing.T) {
	if _, err := dirlock.Acquire(t.TempDir()+"/missing", "a"); err == nil {
		t.Fatal("no error for a folder that does not exist")
	}
}
