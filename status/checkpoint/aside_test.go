package checkpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podwright/podwright/status/checkpoint"
)

// CK2: damaged files of pods that never come back do not add up: the newest of those that earlier loads set aside stay.
// Those of this load all do, and what is not a record's.
func TestDamagedFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(name string, written time.Time) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, written, written); err != nil {
			t.Fatal(err)
		}
	}
	const old, kept, fresh = 5, 64, 70
	for i := range old + kept {
		write(fmt.Sprintf("uid-%d.corrupt", i), day.Add(-time.Duration(i)*time.Hour)) // the last ones are the oldest
	}
	for i := range fresh {
		write(fmt.Sprintf("new-%d", i), day.Add(-1000*time.Hour))
	}
	write("not a record.corrupt", day.Add(-1000*time.Hour))
	inspected, err := checkpoint.NewFiles(checkpoint.Dir(dir)).Inspect(t.Context())
	if err != nil || len(inspected.Bad) != fresh {
		t.Fatalf("%d bad files, %v", len(inspected.Bad), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "uid-68.corrupt")); err != nil {
		t.Errorf("a look removes files: %v", err)
	}
	if _, err := checkpoint.NewFiles(checkpoint.Dir(dir)).Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, e := range entries {
		left[e.Name()] = true
	}
	for i := range old + kept {
		if name := fmt.Sprintf("uid-%d.corrupt", i); left[name] != (i < kept) {
			t.Errorf("%s is there: %t", name, left[name])
		}
	}
	for i := range fresh {
		if name := fmt.Sprintf("new-%d.corrupt", i); !left[name] {
			t.Errorf("%s is gone", name)
		}
	}
	if !left["not a record.corrupt"] {
		t.Error("a file that is not a record's is gone")
	}
}
