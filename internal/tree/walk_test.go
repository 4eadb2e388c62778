package tree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/tree"
	"github.com/podwright/podwright/internal/tree/treetest"
)

// TestDeepTreeIsWalked (IN19): each entry is visited once, with few descriptors, in a time that grows
// with the number of levels and not with its square.
func TestDeepTreeIsWalked(t *testing.T) {
	dir := t.TempDir()
	treetest.Chain(t, dir, *levels, 1)
	before := descriptors(t)
	ctx := &watched{Context: t.Context(), t: t}
	folders, files := 0, 0
	walker := tree.Walker{Visit: func(e tree.Entry) error {
		if e.IsDir() {
			folders++
		} else {
			files++
		}
		return nil
	}}
	if err := walker.Walk(ctx, open(t, dir)); err != nil {
		t.Fatal(err)
	}
	if folders != *levels || files != *levels {
		t.Errorf("%d folders and %d files, want %d of each", folders, files, *levels)
	}
	if ctx.most > before+24 {
		t.Errorf("%d files were open, %d before", ctx.most, before)
	}
	if left := descriptors(t); left > before+1 {
		t.Errorf("%d files are open, %d before", left, before)
	}
	if err := tree.RemovePath(t.Context(), filepath.Join(dir, "deep")); err != nil { // the test's own removal would not end
		t.Error(err)
	}
}

// TestWalkGoesOnAfterDeepFolders: what comes after a deep folder is visited once.
func TestWalkGoesOnAfterDeepFolders(t *testing.T) {
	dir := t.TempDir()
	want := 0
	at := dir
	for i := range 60 {
		for j := range 30 {
			write(t, filepath.Join(at, fmt.Sprintf("%d-%d", i, j)), "x")
		}
		at = filepath.Join(at, fmt.Sprint(i%7))
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		want += 31
	}
	got, twice := 0, map[uint64]int{}
	walker := tree.Walker{Visit: func(e tree.Entry) error {
		got++
		twice[e.Stat.Ino]++
		return nil
	}}
	folder := open(t, dir)
	for range 2 {
		if err := walker.Walk(t.Context(), folder); err != nil {
			t.Fatal(err)
		}
	}
	if got != 2*want || len(twice) != want {
		t.Errorf("%d visits of %d entries, want 2 of each of %d", got, len(twice), want)
	}
}

// TestWalkDoesNotLeaveItsTree (ND1): the walk follows no link, and if a folder was moved away with
// the walk in it, the walk does not climb into what is above the folder now.
func TestWalkDoesNotLeaveItsTree(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "sub", "foreign"), "x")
	treetest.Chain(t, dir, 40, 1)
	write(t, filepath.Join(dir, "zz"), "x")
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	level, lost := 0, 0
	walker := tree.Walker{
		Visit: func(e tree.Entry) error {
			if e.Name == "foreign" {
				t.Error("it has left the tree")
			}
			if !e.IsDir() {
				return nil
			}
			if level++; level == 40 {
				return os.Rename(filepath.Join(dir, "deep/deep/deep"), filepath.Join(outside, "sub", "deep"))
			}
			return nil
		},
		Failed: func(_ string, err error) error {
			if !errors.Is(err, tree.ErrMoved) {
				return err
			}
			lost++
			return nil
		},
	}
	if err := walker.Walk(t.Context(), open(t, dir)); err != nil || lost != 1 {
		t.Errorf("%d were lost: %v", lost, err)
	}
	walker.Failed, level = nil, 0
	if err := os.Rename(filepath.Join(outside, "sub", "deep"), filepath.Join(dir, "deep/deep/deep")); err != nil {
		t.Fatal(err)
	}
	if err := walker.Walk(t.Context(), open(t, dir)); !errors.Is(err, tree.ErrMoved) {
		t.Errorf("error %v", err)
	}
}

// TestWalkIsTold: what Visit and Failed return takes effect.
func TestWalkIsTold(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "d", "f"), "x")
	broken := errors.New("broken")
	for _, c := range []struct {
		name   string
		answer error
		visits int
		want   error
	}{
		{"all", nil, 2, nil},
		{"not the folder's content", fs.SkipDir, 1, nil},
		{"no more", fs.SkipAll, 1, nil},
		{"an error", broken, 1, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			visits := 0
			walker := tree.Walker{Visit: func(tree.Entry) error { visits++; return c.answer }}
			if err := walker.Walk(t.Context(), open(t, dir)); !errors.Is(err, c.want) || visits != c.visits {
				t.Errorf("%d visits, %v", visits, err)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (tree.Walker{}).Walk(ended, open(t, dir)); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
	vanishes := tree.Walker{Visit: func(e tree.Entry) error { return unix.Unlinkat(e.Dir, e.Name, unix.AT_REMOVEDIR) }}
	if err := os.Remove(filepath.Join(dir, "d", "f")); err != nil {
		t.Fatal(err)
	}
	if err := vanishes.Walk(t.Context(), open(t, dir)); err != nil {
		t.Errorf("a folder that vanishes: %v", err)
	}
}

// TestFoldersAreLeftAfterTheirContent: a walk tells of each folder that it was in, the deepest first,
// and the folder may be removed then, however deep the tree is.
func TestFoldersAreLeftAfterTheirContent(t *testing.T) {
	dir := t.TempDir()
	const deep = 200 // most of it is closed when the walk comes back
	treetest.Chain(t, dir, deep, 0)
	for _, beside := range []string{"deep/deep/beside/a", "last/b"} {
		if err := os.MkdirAll(filepath.Join(dir, beside), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	left := 0
	walker := tree.Walker{
		Visit: func(e tree.Entry) error {
			if e.Name == "last" {
				return fs.SkipDir
			}
			return nil
		},
		Leave: func(dir, folder int, name string) error {
			var st, named unix.Stat_t
			if err := errors.Join(unix.Fstat(folder, &st), unix.Fstatat(dir, name, &named, 0)); err != nil || st.Ino != named.Ino {
				t.Errorf("%s: %v, another folder: %t", name, err, st.Ino != named.Ino)
			}
			left++
			return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		},
	}
	if err := walker.Walk(t.Context(), open(t, dir)); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 || left != deep+2 {
		t.Errorf("left %d folders, there are %v, %v", left, names, err)
	}
	told := errors.New("told")
	walker = tree.Walker{Visit: func(tree.Entry) error { return nil }, Leave: func(int, int, string) error { return told }}
	if err := walker.Walk(t.Context(), open(t, dir)); !errors.Is(err, told) {
		t.Errorf("the error of Leave: %v", err)
	}
}
