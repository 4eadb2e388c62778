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
	first, err := dirlock.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dirlock.Acquire(dir); !errors.Is(err, dirlock.ErrInUse) {
		t.Fatalf("second Acquire: %v, want ErrInUse", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	second, err := dirlock.Acquire(dir)
	if err != nil {
		t.Fatalf("after Release: %v", err)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestMissingFolder(t *testing.T) {
	if _, err := dirlock.Acquire(t.TempDir() + "/missing"); err == nil {
		t.Fatal("no error for a folder that does not exist")
	}
}
