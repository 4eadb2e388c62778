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

// volumeWithSecret makes a volume beside a folder that must not be reachable from it.
func volumeWithSecret(t *testing.T) (volume, outside string) {
	t.Helper()
	dir := t.TempDir()
	volume, outside = filepath.Join(dir, "volume"), filepath.Join(dir, "outside")
	write(t, filepath.Join(outside, "f"), "secret")
	write(t, filepath.Join(volume, "dir/f"), "mine")
	return volume, outside
}

// spec/runtime.md 12.1: what was resolved is mounted, whatever the path is later; and
// releasing it takes nothing from the volume.
func TestHeldSubPath(t *testing.T) {
	s := mountStore(t)
	volume, outside := volumeWithSecret(t)
	var held []string
	for i, path := range []string{"dir", "dir/f", "new/deep"} {
		h, err := s.OpenAndHold("u", poddir.SubPath{Volume: "v", Host: volume, Container: "app", Index: i, Path: path, Shared: i == 1})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, h)
	}
	if want := filepath.Join(s.Path, "u/volume-subpaths/v/app/0"); held[0] != want {
		t.Errorf("5: held at %s, want %s", held[0], want)
	}
	if err := errors.Join(
		os.Rename(filepath.Join(volume, "dir"), filepath.Join(volume, "was")),
		os.Symlink(outside, filepath.Join(volume, "dir")),
	); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(held[0], "f"), held[1]} {
		if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
			t.Errorf("%s holds %q, err %v", file, text, err)
		}
	}
	if _, err := s.OpenAndHold("u", poddir.SubPath{Volume: "v", Host: volume, Container: "other", Path: "was"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.ReleaseSubPaths("u", "app"); err != nil {
			t.Fatal(err)
		}
	}
	if n := mounted(t, s, "u"); n != 1 {
		t.Errorf("%d are held, want that of the other container", n)
	}
	if err := s.TearDown(t.Context(), "u"); err != nil || mounted(t, s, "u") != 0 {
		t.Errorf("err %v, %d mounts", err, mounted(t, s, "u"))
	}
	if text, err := os.ReadFile(filepath.Join(volume, "was/f")); err != nil || string(text) != "mine" {
		t.Errorf("ND1: %q, err %v", text, err)
	}
}

// What a crash left held is replaced, not mounted upon.
func TestHoldAgain(t *testing.T) {
	s := mountStore(t)
	volume, _ := volumeWithSecret(t)
	for _, path := range []string{"dir", "dir/f", "dir"} {
		held, err := s.OpenAndHold("u", poddir.SubPath{Volume: "v", Host: volume, Container: "app", Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(held); err != nil || info.IsDir() != (path == "dir") || mounted(t, s, "u") != 1 {
			t.Errorf("%s: %v, err %v, %d mounts", path, info, err, mounted(t, s, "u"))
		}
	}
}

// spec/runtime.md 12.1: a container that swaps the path all the time, or what an absolute link on the way leads to, never gets
// anything outside mounted.
func TestSubPathRace(t *testing.T) {
	for _, sub := range []string{"dir", "now"} {
		t.Run(sub, func(t *testing.T) {
			s := mountStore(t)
			volume, outside := volumeWithSecret(t)
			path, spare := filepath.Join(volume, "dir"), filepath.Join(volume, "spare")
			if err := errors.Join(os.Symlink(outside, spare), os.Symlink(path, filepath.Join(volume, "now"))); err != nil {
				t.Fatal(err)
			}
			swapping(t, path, spare)
			inside, refused := 0, 0
			for i := 0; i < 20000 && (inside < 20 || refused < 20); i++ {
				held, err := s.OpenAndHold("u", poddir.SubPath{Volume: "v", Host: volume, Container: "app", Path: sub})
				if err != nil {
					refused++
					continue
				}
				inside++
				if text, err := os.ReadFile(filepath.Join(held, "f")); err != nil || string(text) != "mine" {
					t.Fatalf("held: %q, err %v", text, err)
				}
			}
			if inside == 0 || refused == 0 {
				t.Errorf("%d inside, %d refused: there was no race", inside, refused)
			}
		})
	}
}

// spec/runtime.md 12.1: an absolute link that leads to a part of the volume, by the volume's own path or by the one that it is a
// link to, is followed like any other; nothing outside is looked at.
func TestSubPathThroughAbsoluteLink(t *testing.T) {
	volume, outside := volumeWithSecret(t)
	base := filepath.Dir(volume)
	alias := filepath.Join(base, "alias")
	links := map[string]string{
		"now": filepath.Join(volume, "dir"), "all": volume, "slash": volume + "//dir/./", "up": filepath.Join(volume, "dir") + "/../dir",
		"chain": filepath.Join(volume, "now"), "relative": "dir/../now", "dir/back": filepath.Join(volume, "now/f"), "other": filepath.Join(alias, "dir"),
		"out": outside, "past": volume + "/../outside", "near": volume + "-2/f", "loop": filepath.Join(volume, "loop"), "gone": filepath.Join(volume, "none"),
		"dots": volume + "/dir/../../outside", "through": filepath.Join(volume, "out/f"),
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(volume, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(volume, alias); err != nil {
		t.Fatal(err)
	}
	write(t, volume+"-2/f", "secret")
	f := filepath.Join(volume, "dir/f")
	for _, tc := range []struct{ volume, sub, want string }{
		{volume, "now", filepath.Dir(f)},
		{volume, "now/f", f},
		{volume, "now/back", f},
		{volume, "all/dir/f", f},
		{volume, "all", volume},
		{volume, "slash/f", f},
		{volume, "up/f", f},
		{volume, "chain/f", f},
		{volume, "relative/f", f},
		{volume, "dir/back", f},
		{alias, "now/f", f},
		{alias, "other/f", f},
		{volume, "other/f", ""}, // it leads through a link outside
		{volume, "out/f", ""},
		{volume, "past/f", ""},
		{volume, "near", ""},
		{volume, "loop", ""},
		{volume, "gone", ""},
		{volume, "gone/new", ""},
		{volume, "dots/f", ""},
		{volume, "through", ""},
		{volume, "now/f/x", ""},
	} {
		path, err := poddir.OpenSubPath(tc.volume, tc.sub)
		if path != tc.want || (err == nil) != (tc.want != "") || err != nil && strings.Contains(err.Error(), base) {
			t.Errorf("12.1: %s of %s leads to %q, want %q, err %v", tc.sub, filepath.Base(tc.volume), path, tc.want, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside holds %v, err %v", entries, err)
	}
}

// Folders that are made have the volume's mode and group, also on a umask.
func TestSubPathMode(t *testing.T) {
	volume := t.TempDir()
	mode := fs.ModeSetgid | 0o777
	if err := os.Chmod(volume, mode); err != nil {
		t.Fatal(err)
	}
	if _, err := poddir.OpenSubPath(volume, "a/b"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a", "a/b"} {
		if info, err := os.Stat(filepath.Join(volume, dir)); err != nil || info.Mode() != fs.ModeDir|mode {
			t.Errorf("12.1: %s has %v, err %v", dir, info.Mode(), err)
		}
	}
}

// A sub-path, and links in the volume with any target, never lead outside, and
// nothing is made there.
func FuzzSubPath(f *testing.F) {
	for _, seed := range [][2]string{
		{"a", "b"},
		{"../x", ""},
		{"l", ".."},
		{"l/x", "../outside"},
		{"l/f", "/"},
		{"d/l/../x", "l"},
		{"l/new", "/etc"},
		{".", "."},
		{"l//x", "/proc/self/root"},
		{"l/cwd", "/proc/self"},
		{"d/../l", "d"},
		{"\x00", "a"},
		{"l/l", "l"},
		{"d/l", "../../outside/f"},
		{strings.Repeat("a/", 1000), "x"},
		{strings.Repeat("a/", 3000), "x"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, sub, target string) {
		base, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		volume, outside := filepath.Join(base, "volume"), filepath.Join(base, "outside")
		write(t, filepath.Join(outside, "f"), "secret")
		if err := os.MkdirAll(filepath.Join(volume, "d"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, link := range []string{"l", "d/l"} {
			_ = os.Symlink(target, filepath.Join(volume, link)) // not every text is a target
		}
		path, err := poddir.OpenSubPath(volume, sub)
		if err == nil && path != volume && !strings.HasPrefix(path, volume+"/") {
			t.Errorf("%q with a link to %q leads to %s", sub, target, path)
		}
		if err != nil && strings.Contains(err.Error(), base) {
			t.Errorf("the error tells the host path: %v", err)
		}
		for dir, want := range map[string]int{base: 2, outside: 1} {
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
				t.Errorf("%s holds %v, err %v", dir, entries, err)
			}
		}
	})
}
