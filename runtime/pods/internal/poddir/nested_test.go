package poddir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// spec/runtime.md 12.1: mount points are made once, with the volume's mode on folders, and never where files come and go.
func TestMakeMountPoint(t *testing.T) {
	volume := t.TempDir()
	if err := os.Chmod(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]poddir.File{"a": text("1"), "d/b": text("2")}
	if _, err := poddir.Publish(t.Context(), volume, "..1", files, nil, nil); err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat("deep/", 600) + "f"
	for range 2 {
		for _, tc := range []struct {
			at     string
			folder bool
			says   string
		}{
			{"m", true, ""},
			{"n/o/p", true, ""},
			{"n/f", false, ""},
			{"g", false, ""},
			{deep, false, ""},
			{"a", false, ""},
			{"d", true, ""},
			{"a", true, ""}, // the runtime says what is wrong
			{"m", false, ""},
			{"d/c", true, "d is replaced"},
			{"d/c/e", false, "d is replaced"},
			{"..x", true, "..x is replaced"},
			{"..data/x", false, "..data is replaced"},
			{"a/x", true, "not a directory"},
			{"../x", true, "escapes"},
			{strings.Repeat("x", 300), true, "name too long"},
		} {
			err := poddir.MakeMountPoint(volume, tc.at, func() (bool, error) { return tc.folder, nil })
			if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("%.20s: err %v, want %q", tc.at, err, tc.says)
			}
			if err != nil && strings.Contains(err.Error(), volume) {
				t.Errorf("the error tells the host path: %v", err)
			}
		}
	}
	if info, err := os.Stat(filepath.Join(volume, "n/o")); err != nil || info.Mode() != fs.ModeDir|0o755 {
		t.Errorf("%v, err %v", info, err)
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(volume), "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("something was made outside")
	}
	if entries, err := os.ReadDir(filepath.Join(volume, "..1")); err != nil || len(entries) != 2 {
		t.Errorf("the files became %v, err %v", entries, err)
	}
}

// spec/runtime.md 12.1: a link in a volume never makes a mount point outside of it.
func TestMountPointsStayInside(t *testing.T) {
	volume, outside := volumeWithSecret(t)
	if err := errors.Join(
		os.Symlink(outside, filepath.Join(volume, "out")), os.Symlink("../../outside", filepath.Join(volume, "dir/up")),
	); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"out", "out/x", "out/f", "dir/up/x", "dir/up", "dir/f/x"} {
		for _, folder := range []bool{false, true} {
			if err := poddir.MakeMountPoint(volume, at, func() (bool, error) { return folder, nil }); err == nil {
				t.Errorf("%s: made", at)
			}
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside holds %v, err %v", entries, err)
	}
}

// spec/runtime.md 12.1: what is no link stays at the top of a volume, since something may be mounted there in a container; a
// file of its name takes its place only where that is denied.
func TestPublishBesideMountPoints(t *testing.T) {
	for name, inside := range map[string]func(string) bool{
		"mounted": func(string) bool { return true }, "not mounted": func(string) bool { return false }, "unknown": nil,
	} {
		t.Run(name, func(t *testing.T) {
			volume := t.TempDir()
			publish := func(fresh string, names ...string) {
				t.Helper()
				files := map[string]poddir.File{}
				for _, n := range names {
					files[n] = text("x")
				}
				if _, err := poddir.Publish(t.Context(), volume, fresh, files, nil, inside); err != nil {
					t.Error(err)
				}
				if err := poddir.Relink(t.Context(), volume, inside); err != nil {
					t.Error(err)
				}
			}
			link := func(name string) bool {
				info, err := os.Lstat(filepath.Join(volume, name))
				if err != nil {
					t.Error(err)
					return false
				}
				return info.Mode()&fs.ModeSymlink != 0
			}
			publish("..1", "a")
			for at, folder := range map[string]bool{"m/deep": true, "f": false} {
				if err := poddir.MakeMountPoint(volume, at, func() (bool, error) { return folder, nil }); err != nil {
					t.Fatal(err)
				}
			}
			publish("..1", "a")
			publish("..2", "a", "b")
			if link("m") || link("f") || !link("a") || !link("b") {
				t.Error("the wrong entries are links")
			}
			publish("..3", "m", "f", "a/b")
			if replaced := inside == nil || !inside(""); link("m") != replaced || link("f") != replaced || !link("a") {
				t.Errorf("m is a link: %v, f is one: %v", link("m"), link("f"))
			}
			publish("..4")
		})
	}
}
