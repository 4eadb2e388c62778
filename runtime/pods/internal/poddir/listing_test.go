package poddir

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

// TestUnchangedFolderIsNotReadAgain: a folder that has not changed is not read again, one that changed a
// moment ago is, whatever its time says.
func TestUnchangedFolderIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	make := func(name string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Unix(1_700_000_000, 0)
	setTime := func() {
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
	}
	clock := testclock.NewFakePassiveClock(at.Add(500 * time.Millisecond))
	l := &Listing{Path: dir, Clock: clock}
	want := func(entries, reads int) {
		t.Helper()
		uids, err := l.List()
		if err != nil || len(uids) != entries || l.reads != reads {
			t.Errorf("%v after %d readings, %v; want %d after %d", uids, l.reads, err, entries, reads)
		}
	}
	make("a")
	setTime()
	want(1, 1)
	make("b")
	setTime() // in the same tick
	want(2, 2)
	clock.SetTime(at.Add(10 * time.Second))
	want(2, 3)
	want(2, 3)
	want(2, 3)
	make("c")
	want(3, 4)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if uids, err := l.List(); err != nil || len(uids) != 0 {
		t.Errorf("without the folder: %v, %v", uids, err)
	}
}
