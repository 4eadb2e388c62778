package poddir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

func text(s string) poddir.File { return poddir.File{Data: []byte(s), Mode: 0o644} }

// tree lists a volume as a container sees it: name, and text or target.
func tree(t *testing.T, volume string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(volume), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, "..") {
			return err
		}
		full := filepath.Join(volume, path)
		if target, err := os.Readlink(full); err == nil {
			out[path] = "-> " + target
			return nil
		}
		content, err := os.ReadFile(full)
		out[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What users know of config maps in volumes: links through ..data, and a new
// folder for new content.
func TestPublishSwapsAllFilesAtOnce(t *testing.T) {
	volume := t.TempDir()
	steps := []struct {
		files   map[string]poddir.File
		changed bool
		want    map[string]string
	}{
		{map[string]poddir.File{"a": text("1"), "d/b": text("2")}, true, map[string]string{"a": "-> ..data/a", "d": "-> ..data/d"}},
		{map[string]poddir.File{"a": text("1"), "d/b": text("2")}, false, map[string]string{"a": "-> ..data/a", "d": "-> ..data/d"}},
		{map[string]poddir.File{"a": {Data: []byte("1"), Mode: 0o400}, "d/b": text("2")}, true, map[string]string{"a": "-> ..data/a", "d": "-> ..data/d"}},
		{map[string]poddir.File{"a/x": text("3")}, true, map[string]string{"a": "-> ..data/a"}},
		{map[string]poddir.File{}, true, map[string]string{}},
	}
	for i, step := range steps {
		changed, err := poddir.Publish(t.Context(), volume, fmt.Sprint("..", i), step.files, nil, nil)
		if err != nil || changed != step.changed {
			t.Fatalf("step %d: changed %v, err %v", i, changed, err)
		}
		if got := tree(t, volume); !maps.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
		for name, f := range step.files {
			info, err := os.Stat(filepath.Join(volume, name))
			if err != nil || info.Mode() != f.Mode {
				t.Errorf("step %d: %s has mode %v, err %v", i, name, info.Mode(), err)
			}
			if content, _ := os.ReadFile(filepath.Join(volume, name)); string(content) != string(f.Data) {
				t.Errorf("step %d: %s holds %q", i, name, content)
			}
		}
		entries, err := os.ReadDir(volume)
		if err != nil || len(entries) != len(step.want)+2 {
			t.Errorf("step %d: old folders are left: %v", i, entries)
		}
	}
	if !poddir.Published(volume) || poddir.Published(t.TempDir()) {
		t.Error("Published")
	}
}

// A reader of two files never sees one of each time.
func TestPublishIsOneStep(t *testing.T) {
	volume := t.TempDir()
	publish := func(i int) {
		s := fmt.Sprint(i)
		if _, err := poddir.Publish(t.Context(), volume, ".."+s, map[string]poddir.File{"a": text(s), "b": text(s)}, nil, nil); err != nil {
			t.Error(err)
		}
	}
	publish(0)
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 200 {
			publish(i)
		}
	})
	defer writer.Wait()
	for range 500 {
		dir, err := filepath.EvalSymlinks(filepath.Join(volume, "..data"))
		if err != nil {
			continue // swapped while it was looked up
		}
		a, errA := os.ReadFile(filepath.Join(dir, "a"))
		b, errB := os.ReadFile(filepath.Join(dir, "b"))
		if errA == nil && errB == nil && string(a) != string(b) {
			t.Fatalf("%q beside %q", a, b)
		}
		if _, err := os.Lstat(filepath.Join(volume, "..data")); err != nil {
			t.Fatalf("..data is missing for a moment: %v", err)
		}
	}
}

// Whatever a crash left, the next publication puts in order.
func TestPublishAfterCrash(t *testing.T) {
	volume := t.TempDir()
	files := map[string]poddir.File{"a": text("1")}
	write(t, filepath.Join(volume, "..new/half"), "x")
	if err := os.Symlink("..new", filepath.Join(volume, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // before the swap, and after it with the links missing
		if _, err := poddir.Publish(t.Context(), volume, "..new", files, nil, nil); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(volume)
		if err != nil || len(entries) != 3 {
			t.Errorf("left %v, err %v", entries, err)
		}
		if content, err := os.ReadFile(filepath.Join(volume, "a")); err != nil || string(content) != "1" {
			t.Errorf("%q, err %v", content, err)
		}
		if err := os.Remove(filepath.Join(volume, "a")); err != nil {
			t.Fatal(err)
		}
	}
}

// A publication that ended after the swap is completed without the files' sources.
func TestRelink(t *testing.T) {
	volume := t.TempDir()
	if err := poddir.Relink(t.Context(), volume, nil); err == nil {
		t.Error("a volume without content is complete")
	}
	for i, files := range []map[string]poddir.File{{"old": text("0")}, {"a": text("1"), "d/b": text("2")}} {
		if _, err := poddir.Publish(t.Context(), volume, fmt.Sprint("..", i), files, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := tree(t, volume)
	if err := errors.Join(
		os.Remove(filepath.Join(volume, "a")), os.Remove(filepath.Join(volume, "d")),
		os.Symlink("..data/old", filepath.Join(volume, "old")), os.Mkdir(filepath.Join(volume, "..0"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := poddir.Relink(t.Context(), volume, nil); err != nil {
			t.Fatal(err)
		}
		if got := tree(t, volume); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if _, err := os.Lstat(filepath.Join(volume, "..0")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the old folder: %v", err)
		}
	}
}

// 14.8: with fsGroup the group reads what others may not.
func TestPublishToGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("other groups need root")
	}
	volume := t.TempDir()
	files := map[string]poddir.File{"key": {Data: []byte("x"), Mode: 0o400}}
	if _, err := poddir.Publish(t.Context(), volume, "..1", files, ptr.To[int64](77), nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(volume, "key"))
	if err != nil || info.Mode() != 0o440 || info.Sys().(*syscall.Stat_t).Gid != 77 {
		t.Errorf("%v, err %v", info, err)
	}
	if changed, err := poddir.Publish(t.Context(), volume, "..2", files, ptr.To[int64](77), nil); err != nil || changed {
		t.Errorf("changed %v, err %v", changed, err)
	}
}

// 25.3: a file can have a user of its own, which others do not share.
func TestPublishToUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("other users need root")
	}
	volume := t.TempDir()
	files := map[string]poddir.File{"d/token": {Data: []byte("x"), Mode: 0o600, User: ptr.To[int64](66)}, "other": text("y")}
	for i, want := range []bool{true, false} {
		changed, err := poddir.Publish(t.Context(), volume, fmt.Sprint("..", i), files, nil, nil)
		if err != nil || changed != want {
			t.Errorf("%d: changed %v, err %v", i, changed, err)
		}
	}
	owner := func(name string) string {
		info, err := os.Stat(filepath.Join(volume, name))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %v", info.Sys().(*syscall.Stat_t).Uid, info.Mode())
	}
	if got, want := []string{owner("d/token"), owner("d"), owner("other")}, []string{"66 -rw-------", "0 drwxr-xr-x", "0 -rw-r--r--"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	files["d/token"] = poddir.File{Data: []byte("x"), Mode: 0o600, User: ptr.To[int64](67)}
	if changed, err := poddir.Publish(t.Context(), volume, "..9", files, nil, nil); err != nil || !changed || owner("d/token") != "67 -rw-------" {
		t.Errorf("another user: changed %v, err %v, %s", changed, err, owner("d/token"))
	}
}

// No file name leads out of a volume.
func FuzzPublish(f *testing.F) {
	for _, seed := range [][2]string{
		{"a", "b"},
		{"../x", "a"},
		{"/etc/x", "a"},
		{"..data", "a"},
		{"..data/../../x", "a"},
		{"a", "a/b"},
		{"a/../../x", ""},
		{"a//b", "a/./b"},
		{"a\x00", "."},
		{"..", "/"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		base := t.TempDir()
		volume := filepath.Join(base, "volume")
		if err := os.Mkdir(volume, 0o755); err != nil {
			t.Fatal(err)
		}
		files := map[string]poddir.File{one: text("1"), two: text("2")}
		_, err := poddir.Publish(t.Context(), volume, "..1", files, nil, nil)
		if entries, dirErr := os.ReadDir(base); dirErr != nil || len(entries) != 1 {
			t.Fatalf("%v, err %v", entries, dirErr)
		}
		if err != nil {
			if poddir.Published(volume) {
				t.Errorf("published in part: %v", err)
			}
			return
		}
		for name, want := range files {
			if got, err := os.ReadFile(filepath.Join(volume, name)); err != nil || string(got) != string(want.Data) {
				t.Errorf("%q holds %q, err %v", name, got, err)
			}
		}
	})
}

// 12, 14.8: fsGroup and its change policy; links are not followed.
func TestGiveToGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("other groups need root")
	}
	volume, outside := volumeWithSecret(t)
	if err := os.Symlink(outside, filepath.Join(volume, "link")); err != nil {
		t.Fatal(err)
	}
	look := func(path string) string {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %v", info.Sys().(*syscall.Stat_t).Gid, info.Mode())
	}
	before := look(filepath.Join(outside, "f"))
	for _, step := range []struct {
		name             string
		group            int64
		readOnly, onRoot bool
		prepare          func() error
		dir, file        string
	}{
		{"always", 55, false, false, nil, "55 dgrwxrwxr-x", "55 -rw-rw----"},
		{"the root matches", 55, false, true, func() error { return os.Chmod(filepath.Join(volume, "dir/f"), 0o600) }, "55 dgrwxrwxr-x", "55 -rw-------"},
		{"the root has another group", 56, false, true, nil, "56 dgrwxrwxr-x", "56 -rw-rw----"},
		{"read-only", 57, true, false, func() error { return os.Chmod(filepath.Join(volume, "dir/f"), 0o400) }, "57 dgrwxrwxr-x", "57 -r--r-----"},
	} {
		if step.prepare != nil {
			if err := step.prepare(); err != nil {
				t.Fatal(err)
			}
		}
		if err := poddir.GiveToGroup(t.Context(), volume, step.group, step.readOnly, step.onRoot); err != nil {
			t.Fatal(err)
		}
		got := []string{look(volume), look(filepath.Join(volume, "dir")), look(filepath.Join(volume, "dir/f"))}
		if want := []string{step.dir, step.dir, step.file}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", step.name, got, want)
		}
	}
	if after := look(filepath.Join(outside, "f")); after != before {
		t.Errorf("outside became %s", after)
	}
}

// spec/runtime.md 12.1: a sub-path that no file has leaves folders in the volume. They are in the way of no later
// publication, whether it changes anything or not, and give way to a file of their name.
func TestFoldersOfMissingSubPathsGiveWay(t *testing.T) {
	for name, files := range map[string]map[string]poddir.File{
		"as before": {"a": text("1")}, "other content": {"a": text("2")}, "a file in their place": {"a": text("1"), "d/e/f": text("3")},
	} {
		t.Run(name, func(t *testing.T) {
			volume := t.TempDir()
			if _, err := poddir.Publish(t.Context(), volume, "..1", map[string]poddir.File{"a": text("1")}, nil, nil); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(volume, "d/e/f"), 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := poddir.Publish(t.Context(), volume, "..2", files, nil, nil); err != nil {
				t.Error(err)
			}
			if err := poddir.Relink(t.Context(), volume, nil); err != nil {
				t.Error(err)
			}
			want := map[string]string{"a": "-> ..data/a"}
			if len(files) > 1 {
				want["d"] = "-> ..data/d"
			}
			if got := tree(t, volume); !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}
