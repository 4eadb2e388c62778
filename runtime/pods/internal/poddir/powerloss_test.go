package poddir_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// spec/runtime.md 12.7: files and folders are durable before they become the volume's content, and that is durable
// before the old content goes. Without a change nothing is synced.
func TestPublishIsDurable(t *testing.T) {
	volume := t.TempDir()
	publish := func(fresh string, files map[string]poddir.File) (synced string) {
		t.Helper()
		var out []string
		changed, err := poddir.PublishSyncing(t.Context(), volume, fresh, files, func(f *os.File) error {
			name, err := filepath.Rel(volume, f.Name())
			if err != nil {
				return err
			}
			current, _ := os.Readlink(filepath.Join(volume, "..data"))
			_, old := os.Lstat(filepath.Join(volume, "..1"))
			out = append(out, fmt.Sprintf("%s(%s %v)", name, current, old == nil))
			return nil
		})
		if err != nil || changed != (len(out) > 0) {
			t.Errorf("changed %v, err %v, synced %v", changed, err, out)
		}
		return strings.Join(out, " ")
	}
	one, two := map[string]poddir.File{"a": text("1")}, map[string]poddir.File{"b": text("2"), "d/e/f": text("3")}
	for _, step := range []struct {
		fresh, want string
		files       map[string]poddir.File
	}{
		{"..1", "..1/a( true) ..1( true) .(..1 true)", one},
		{"..2", "", one},
		{"..3", "..3/b(..1 true) ..3/d/e/f(..1 true) ..3/d/e(..1 true) ..3/d(..1 true) ..3(..1 true) .(..3 true)", two},
		{"..4", "", two},
	} {
		if got := publish(step.fresh, step.files); got != step.want {
			t.Errorf("12.7: %s: synced %s, want %s", step.fresh, got, step.want)
		}
	}
	if _, err := os.Lstat(filepath.Join(volume, "..1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old content stays: %v", err)
	}
}

// spec/runtime.md 12.7: whatever cannot be made durable replaces nothing, and what is not durably replaced stays.
func TestPublishOnAFailingDisk(t *testing.T) {
	files := map[string]poddir.File{"a": text("2"), "d/b": text("2")}
	for _, failing := range []string{"..2/a", "..2/d/b", "..2/d", "..2", "."} {
		volume := t.TempDir()
		if _, err := poddir.Publish(t.Context(), volume, "..1", map[string]poddir.File{"a": text("1")}, nil, nil); err != nil {
			t.Fatal(err)
		}
		_, err := poddir.PublishSyncing(t.Context(), volume, "..2", files, func(f *os.File) error {
			if name, err := filepath.Rel(volume, f.Name()); err != nil || name == failing {
				return errors.Join(err, &os.PathError{Op: "sync", Path: name, Err: syscall.EIO})
			}
			return nil
		})
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("12.7: %s: %v", failing, err)
		}
		left, err := filepath.Glob(filepath.Join(volume, "..[0-9]"))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"..1": "1"}
		if failing == "." {
			want = map[string]string{"..1": "1", "..2": "2"}
		}
		got := map[string]string{}
		for _, dir := range left {
			content, err := os.ReadFile(filepath.Join(dir, "a"))
			if err != nil {
				t.Error(err)
			}
			got[filepath.Base(dir)] = string(content)
		}
		if !maps.Equal(got, want) {
			t.Errorf("12.7: %s: left %v, want %v", failing, got, want)
		}
		if _, err := poddir.Publish(t.Context(), volume, "..3", files, nil, nil); err != nil {
			t.Error(err)
		}
		if names := slices.Sorted(maps.Keys(tree(t, volume))); !slices.Equal(names, []string{"a", "d"}) {
			t.Errorf("%s: %v", failing, names)
		}
		if left, err := filepath.Glob(filepath.Join(volume, "..[0-9]")); err != nil || len(left) != 1 {
			t.Errorf("12.7: %s: %v, %v are left", failing, left, err)
		}
	}
}

// spec/runtime.md 12.7: a first publication that could not be made durable is not complete: the next one syncs it.
func TestFirstPublicationOnAFailingDisk(t *testing.T) {
	volume, files := t.TempDir(), map[string]poddir.File{"a": text("1")}
	var synced []string
	fails := true
	publish := func(fresh string) error {
		_, err := poddir.PublishSyncing(t.Context(), volume, fresh, files, func(f *os.File) error {
			name, err := filepath.Rel(volume, f.Name())
			if name == "." && fails {
				return syscall.EIO
			}
			synced = append(synced, name)
			return err
		})
		return err
	}
	if err := publish("..1"); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	fails, synced = false, nil
	if err := publish("..2"); err != nil || !slices.Contains(synced, ".") {
		t.Errorf("12.7: synced %v, err %v", synced, err)
	}
	if got := tree(t, volume); len(got) != 1 {
		t.Errorf("content %v", got)
	}
}

// BenchmarkPublish is what new content costs, for one pod and for a crowd at once.
func BenchmarkPublish(b *testing.B) {
	files := map[string]poddir.File{}
	for i := range 5 {
		files[fmt.Sprint("file", i)] = poddir.File{Data: make([]byte, 2000), Mode: 0o644}
	}
	for _, crowd := range []int{1, 100} {
		b.Run(fmt.Sprint(crowd), func(b *testing.B) {
			var volumes []string
			for range crowd {
				volumes = append(volumes, b.TempDir())
			}
			for n := 0; b.Loop(); n++ {
				var all sync.WaitGroup
				for _, volume := range volumes {
					all.Go(func() {
						files := maps.Clone(files)
						files["n"] = poddir.File{Data: fmt.Append(nil, n), Mode: 0o644}
						if _, err := poddir.Publish(b.Context(), volume, fmt.Sprint("..", n), files, nil, nil); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
			}
		})
	}
}
