package poddir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/tree"
)

// File is a file to publish.
type File struct {
	Data []byte
	// Mode has permission bits only.
	Mode fs.FileMode
	// User owns the file. Nil: the agent's user.
	User *int64
}

const (
	dataLink = "..data"
	newLink  = "..data_tmp"
)

// CheckFileName reports why a path cannot name a published file, nil if it can.
func CheckFileName(path string) error {
	switch {
	case path == "" || filepath.IsAbs(path) || strings.ContainsRune(path, 0):
		return fmt.Errorf("path %q must be relative and not empty", path)
	case slices.Contains(strings.Split(path, "/"), ".."):
		return fmt.Errorf("path %q must not contain '..'", path)
	case strings.HasPrefix(path, ".."):
		return fmt.Errorf("path %q must not begin with '..'", path)
	case filepath.Clean(path) != path || path == ".":
		return fmt.Errorf("path %q is not in its short form %q", path, filepath.Clean(path))
	}
	for part := range strings.SplitSeq(path, "/") {
		if err := podinfo.CheckName("path element", part); err != nil {
			return err
		}
	}
	return nil
}

// Publish makes files the whole content of a volume in one step: readers see all
// old or all new files, never a mix. The files live in a folder of their own,
// named fresh, which the link ..data points to; links at the top lead through it.
// With a group, the files belong to it and it may read them. Folders and files at the
// top that are no links stay: something may be mounted there in a container, and would go
// with them. Only if inside, which may be nil, denies that may they give way to a new file.
// Publish reports whether anything changed.
func Publish(ctx context.Context, volume, fresh string, files map[string]File, group *int64, inside func(name string) bool) (changed bool, err error) {
	for path := range files {
		if err := CheckFileName(path); err != nil {
			return false, err
		}
	}
	root, err := os.OpenRoot(volume)
	if err != nil {
		return false, fmt.Errorf("publish: %w", bare(err))
	}
	defer root.Close()
	files = withGroup(files, group)
	current, _ := root.Readlink(dataLink)
	if current != "" && filepath.IsLocal(current) && same(root, current, files) {
		// A crash may have left links or an old folder.
		return false, linkFiles(ctx, root, current, files, inside)
	}
	if err := writeFiles(ctx, root, fresh, files, group); err != nil {
		return false, errors.Join(fmt.Errorf("publish: %w", bare(err)), tree.RemoveIn(ctx, root, fresh))
	}
	if err := root.Remove(newLink); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := root.Symlink(fresh, newLink); err != nil {
		return false, err
	}
	if err := root.Rename(newLink, dataLink); err != nil {
		return false, err
	}
	return true, linkFiles(ctx, root, fresh, files, inside)
}

// Relink completes the links of a volume whose last publication was cut off after its content was in place; inside is as for
// [Publish].
func Relink(ctx context.Context, volume string, inside func(name string) bool) error {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return fmt.Errorf("publish: %w", bare(err))
	}
	defer root.Close()
	current, err := root.Readlink(dataLink)
	if err != nil {
		return fmt.Errorf("publish: %w", bare(err))
	}
	entries, err := fs.ReadDir(root.FS(), current)
	if err != nil {
		return fmt.Errorf("publish: %w", bare(err))
	}
	files := map[string]File{}
	for _, e := range entries {
		files[e.Name()] = File{}
	}
	return linkFiles(ctx, root, current, files, inside)
}

// Published reports whether a volume has content.
func Published(volume string) bool {
	info, err := os.Lstat(filepath.Join(volume, dataLink))
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// withGroup lets the group read.
func withGroup(files map[string]File, group *int64) map[string]File {
	if group == nil {
		return files
	}
	out := make(map[string]File, len(files))
	for path, f := range files {
		f.Mode |= 0o440
		out[path] = f
	}
	return out
}

// writeFiles writes a new folder; it first removes what a crash left there.
func writeFiles(ctx context.Context, root *os.Root, dir string, files map[string]File, group *int64) error {
	if err := tree.RemoveIn(ctx, root, dir); err != nil {
		return err
	}
	own := func(path string, user *int64, mode fs.FileMode) error {
		if user != nil || group != nil {
			if err := root.Lchown(path, idOr(user), idOr(group)); err != nil {
				return err
			}
		}
		return root.Chmod(path, mode) // the umask has cut it
	}
	folder := func(path string) error {
		if err := root.Mkdir(path, 0o700); err != nil {
			if errors.Is(err, fs.ErrExist) {
				return nil
			}
			return err
		}
		return own(path, nil, 0o755)
	}
	if err := folder(dir); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := dir
		parts := strings.Split(name, "/")
		for _, part := range parts[:len(parts)-1] {
			path = filepath.Join(path, part)
			if err := folder(path); err != nil {
				return err
			}
		}
		path = filepath.Join(path, parts[len(parts)-1])
		// Exclusive: two names may mean one file.
		f, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(files[name].Data)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		if err := own(path, files[name].User, files[name].Mode.Perm()); err != nil {
			return err
		}
	}
	return nil
}

// idOr returns an ID as chown takes it; -1 leaves the owner alone.
func idOr(id *int64) int {
	if id == nil {
		return -1
	}
	return int(*id)
}

// same reports whether dir holds exactly these files.
func same(root *os.Root, dir string, files map[string]File) bool {
	folders := map[string]bool{}
	for name := range files {
		for at := filepath.Dir(name); at != "."; at = filepath.Dir(at) {
			folders[at] = true
		}
	}
	found := 0
	err := fs.WalkDir(root.FS(), dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if d.IsDir() {
			if !folders[strings.TrimPrefix(path, dir+"/")] {
				return errors.New("differs")
			}
			return nil
		}
		want, ok := files[strings.TrimPrefix(path, dir+"/")]
		if !ok || !holds(root, path, want) {
			return errors.New("differs")
		}
		found++
		return nil
	})
	return err == nil && found == len(files)
}

func holds(root *os.Root, path string, want File) bool {
	f, err := root.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode() != want.Mode.Perm() || info.Size() != int64(len(want.Data)) || !ownedBy(info, want.User) {
		return false
	}
	data, err := io.ReadAll(f)
	return err == nil && bytes.Equal(data, want.Data)
}

// ownedBy reports whether a file belongs to user; for nil, the agent's user, it does not look.
func ownedBy(info fs.FileInfo, user *int64) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if user == nil || !ok {
		return user == nil
	}
	return int64(stat.Uid) == *user
}

// linkFiles makes the links at the top lead to the current files and removes what was
// published before.
func linkFiles(ctx context.Context, root *os.Root, current string, files map[string]File, inside func(name string) bool) error {
	want := map[string]string{}
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		want[first] = dataLink + "/" + first
	}
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	problems := []error{err}
	for _, name := range names {
		switch {
		case name == dataLink || name == current:
		case strings.HasPrefix(name, ".."):
			problems = append(problems, tree.RemoveIn(ctx, root, name))
		case want[name] == "" && isLink(root, name):
			problems = append(problems, root.Remove(name))
		}
	}
	for name, target := range want {
		switch got, err := root.Readlink(name); {
		case err == nil && got == target:
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist) && inside != nil && inside(name):
			continue // a mount point from before there was a file of this name
		}
		problems = append(problems, tree.RemoveIn(ctx, root, name), root.Symlink(target, name))
	}
	return errors.Join(problems...)
}

func isLink(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}
