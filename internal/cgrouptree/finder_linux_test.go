package cgrouptree

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnreadFolders (runtime.md 28.1, kube.md KV1): a search in which folders could not be read, as without open files, is not
// complete; no pause follows.
func TestUnreadFolders(t *testing.T) {
	f, _ := finderOf(t, "pods/"+idA)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	found, complete := f.Find(ids(idA, idB), nil)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 || complete {
		t.Errorf("without open files: %v, complete %t", found, complete)
	}
	if found, complete = f.Find(ids(idA, idB), nil); found[idA] == "" || !complete {
		t.Errorf("with open files: %v, complete %t", found, complete)
	}
}
