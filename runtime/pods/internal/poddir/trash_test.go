package poddir_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// cutAfter is a context that ends once it has been asked this often.
type cutAfter struct {
	context.Context
	asked, limit int
}

func (c *cutAfter) Err() error {
	if c.asked++; c.asked > c.limit {
		return context.Canceled
	}
	return nil
}

// filled makes an emptyDir with n files, some of them deep.
func filled(t *testing.T, s poddir.Store, n int) (volume string) {
	t.Helper()
	volume, err := emptyDir(s, "u", "v", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"a/b/c", "d"} {
		if err := os.MkdirAll(filepath.Join(volume, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(volume, []string{"", "a/b/c", "d"}[i%3], fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return volume
}

// files counts the files below a folder.
func files(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return n
}

// TestBigTreeGoesInSlices (IN12): a removal that is cut off ends after the current slice, wherever
// it is in the tree, and the next one continues. The first step takes the tree away from its pod:
// whatever comes to live there meets none of it.
func TestBigTreeGoesInSlices(t *testing.T) {
	const n, slice = 5000, 256
	for _, limit := range []int{2, 3, 4, 8, 12} {
		t.Run(fmt.Sprintf("cut at question %d", limit), func(t *testing.T) {
			s := newStore(t)
			volume := filled(t, s, n)
			trash := s.Path + ".removed"
			ctx := &cutAfter{Context: t.Context(), limit: limit}
			if err := s.Remove(ctx, "u"); !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v", err)
			}
			left := files(t, trash)
			if gone := n - left; gone > limit*slice || limit > 4 && gone < (limit-4)*slice {
				t.Errorf("%d files went in at most %d slices", gone, limit)
			}
			if ctx.asked > limit+4 {
				t.Errorf("the removal went on for %d slices", ctx.asked-limit)
			}
			if _, err := os.Stat(volume); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the volume is still in its place: %v", err)
			}
			if again := filled(t, s, 3); files(t, again) != 3 {
				t.Errorf("the next life has %d files, it made 3", files(t, again))
			}
			if err := s.EmptyTrash(&cutAfter{Context: t.Context(), limit: 6}); !errors.Is(err, context.Canceled) {
				t.Errorf("a cut: %v", err)
			}
			if err := s.EmptyTrash(t.Context()); err != nil || files(t, trash) != 0 {
				t.Errorf("%d files are left in the end: %v", files(t, trash), err)
			}
			if files(t, volume) != 3 {
				t.Error("the next life has lost files")
			}
		})
	}
}

// TestTrashFollowsNoLink (IN12, ND1): neither a volume that is a link nor links in it lead out,
// and a trash that is a link is not used.
func TestTrashFollowsNoLink(t *testing.T) {
	s := newStore(t)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "precious"), "x")
	volume := filled(t, s, 1)
	for _, link := range []string{filepath.Join(volume, "l"), filepath.Join(filepath.Dir(volume), "link"), s.Path + ".removed"} {
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(t.Context(), "u"); err != nil {
		t.Errorf("in its place: %v", err)
	}
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("%v is left: %v", list, err)
	}
	if files(t, outside) != 1 {
		t.Error("a link was followed")
	}
}

// TestTrashIsEmptiedAsFarAsPossible: one entry that stays delays no other.
func TestTrashIsEmptiedAsFarAsPossible(t *testing.T) {
	s := newStore(t)
	if err := s.EmptyTrash(t.Context()); err != nil {
		t.Errorf("without a trash: %v", err)
	}
	outside := t.TempDir()
	write(t, filepath.Join(outside, "precious"), "x")
	write(t, s.Path+".removed/b/f", "x")
	if err := os.Symlink(outside, s.Path+".removed/a"); err != nil {
		t.Fatal(err)
	}
	if err := s.EmptyTrash(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(s.Path + ".removed"); err != nil || len(left) != 0 || files(t, outside) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestDeepVolume (IN19): a pod has left a volume deeper than a path is long. It is given to a group,
// removed out of its place, and in its place if there is no trash.
func TestDeepVolume(t *testing.T) {
	const levels = 2000
	for _, trash := range []bool{true, false} {
		t.Run(fmt.Sprint("trash ", trash), func(t *testing.T) {
			s := newStore(t)
			if !trash {
				write(t, s.Path+".removed", "a file is in its place")
			}
			volume, err := emptyDir(s, "u", "v", nil)
			if err != nil {
				t.Fatal(err)
			}
			at := open(t, volume)
			for range levels {
				if err := unix.Mkdirat(int(at.Fd()), "deep", 0o700); err != nil {
					t.Fatal(err)
				}
				fd, err := unix.Openat(int(at.Fd()), "deep", unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				at.Close()
				at = os.NewFile(uintptr(fd), "deep")
			}
			defer at.Close()
			if err := poddir.GiveToGroup(t.Context(), volume, int64(os.Getegid()), false, false); err != nil {
				t.Error(err)
			}
			if info, err := at.Stat(); err != nil || info.Mode() != os.ModeDir|os.ModeSetgid|0o770 {
				t.Errorf("the deepest folder: %v, %v", info.Mode(), err)
			}
			if err := s.Remove(t.Context(), "u"); err != nil {
				t.Error(err)
			}
			if list, err := s.List(); err != nil || len(list) != 0 {
				t.Errorf("%v is left: %v", list, err)
			}
			if left, err := os.ReadDir(s.Path + ".removed"); trash && (err != nil || len(left) != 0) {
				t.Errorf("%v is left in the trash: %v", left, err)
			}
		})
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
