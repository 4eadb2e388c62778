package dirlock_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

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

// Who holds a folder can be asked without harm, and a lock that is free says nothing of its
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

func TestMissingFolder(t *testing.T) {
	if _, err := dirlock.Acquire(t.TempDir()+"/missing", "a"); err == nil {
		t.Fatal("no error for a folder that does not exist")
	}
}
