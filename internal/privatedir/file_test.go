package privatedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// KG2 of spec/kube.md: a program that others could change, or replace, is not the agent's to run.
func TestCheckFileWalksToTheFile(t *testing.T) {
	top := t.TempDir()
	file := func(dir string, dirMode, mode fs.FileMode) string {
		t.Helper()
		dir = filepath.Join(top, dir)
		path := filepath.Join(dir, "plugin")
		if err := errors.Join(os.MkdirAll(dir, 0o750), os.Chmod(dir, dirMode), os.WriteFile(path, nil, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755)); err != nil {
		t.Fatal(err)
	}
	good := file("good", 0o755, 0o755)
	link := filepath.Join(top, "good", "link")
	if err := os.Symlink("../open/plugin", link); err != nil {
		t.Fatal(err)
	}
	for path, safe := range map[string]bool{
		good:                        true,
		file("group", 0o755, 0o775): false,
		file("all", 0o755, 0o757):   false,
		file("open", 0o777, 0o755):  false,
		file("sticky", 0o777|fs.ModeSticky, 0o777): false,
		link:                            false,
		filepath.Join(top, "good/none"): true,
	} {
		if err := CheckFile(path); (err == nil) != safe || err != nil && !errors.Is(err, ErrUnsafe) {
			t.Errorf("%s: %v, want safe: %v", path, err, safe)
		}
	}
}

// A file may belong to root, whatever user the agent has; the agent's own folder may not.
func TestCheckFileMayBelongToRoot(t *testing.T) {
	for owner, safe := range map[int]bool{0: true, 1000: true, 1001: false} {
		err := checkFile(place{path: "/plugin", owner: owner, mode: 0o755}, 1000, true)
		if (err == nil) != safe {
			t.Errorf("owner %d: %v, want safe: %v", owner, err, safe)
		}
	}
}
