package stats

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestUnreadCgroupsAreSearchedAgain (KV1): what was not found because folders could not be read, as without open files, is
// searched again at the next scrape; what is not there is searched for once.
func TestUnreadCgroupsAreSearchedAgain(t *testing.T) {
	for _, unified := range []bool{false, true} {
		m := newMachine(t, unified)
		m.cgroup("kubepods/poduid-web/c1", time.Second, 4096, 41)
		s := m.source()
		all := &found{containers: []*runtimeapi.Container{{Id: "c1"}, {Id: "bare"}}}
		withoutFiles(t, func() { s.locate(all) })
		if len(s.paths) != 0 {
			t.Errorf("unified %t: without open files: %v", unified, s.paths)
		}
		s.locate(all)
		if bare, known := s.paths["bare"]; s.paths["c1"] != "kubepods/poduid-web/c1" || bare != "" || !known {
			t.Errorf("unified %t: with open files: %v", unified, s.paths)
		}
	}
}

// withoutFiles calls f while this process can open no file.
func withoutFiles(t *testing.T, f func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	set := func(limit uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	defer set(old.Cur)
	f()
}
