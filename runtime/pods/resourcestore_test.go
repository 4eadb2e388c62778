package pods_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods"
)

// 21.1: records survive, a crash while one is written leaves the old one and, after
// the next start, nothing of the new one, and files are only for the owner.
func TestResourceFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "resources")
	s := pods.ResourceFiles{Dir: dir}
	if records, err := s.Load(); err != nil || len(records) != 0 {
		t.Errorf("without a folder: %v, %v", records, err)
	}
	if err := s.Remove("u"); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"old", "new"} {
		if err := s.Save("u", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "u.json.tmp"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	records, err := s.Load()
	if err != nil || len(records) != 1 || string(records["u"]) != "new" {
		t.Errorf("%q, %v", records, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "u.json.tmp")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the half-written file stays: %v", err)
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, "u.json"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := s.Remove("u"); err != nil {
		t.Error(err)
	}
	if records, err := s.Load(); err != nil || len(records) != 0 {
		t.Errorf("after Remove: %v, %v", records, err)
	}
}

// A UID comes from a manifest: none leads out of the folder.
func TestResourceFilesStayInside(t *testing.T) {
	parent := t.TempDir()
	s := pods.ResourceFiles{Dir: filepath.Join(parent, "resources")}
	if err := s.Save("ok", nil); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []types.UID{"", ".", "..", "../x", "a/b", "/x", "a\x00", types.UID(strings.Repeat("u", 255))} {
		if s.Save(uid, []byte("x")) == nil || s.Remove(uid) == nil {
			t.Errorf("UID %.20q was taken", uid)
		}
	}
	outside := filepath.Join(parent, "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.Dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); err == nil {
		t.Error("a record was read through a link")
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}

// 21.1: what cannot be read stops the start, and the error says what to do.
func TestLoadDamaged(t *testing.T) {
	a, err := pods.NewAllocations(pods.AllocationOptions{Store: memoryStore{"u-7": []byte("{")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Load(); err == nil || !strings.Contains(err.Error(), "u-7") || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("Load: %v", err)
	}
	if _, err := pods.NewAllocations(pods.AllocationOptions{}); err == nil {
		t.Error("allocations without a store")
	}
}
