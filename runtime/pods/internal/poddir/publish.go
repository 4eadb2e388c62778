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

	"golang.org/x/sys/unix"

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
// Publish reports whether anything changed. A loss of power, too, leaves the old files or
// the new ones, and the new ones once Publish has succeeded.
func Publish(ctx context.Context, volume, fresh string, files map[string]File, group *int64, inside func(name string) bool) (changed bool, err error) {
	return publish(ctx, volume, fresh, files, publication{group: group, inside: inside, sync: syncFile})
}

func publish(ctx context.Context, volume, fresh string, files map[string]File, p publication) (changed bool, err error) {
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
	p.root, files = root, withGroup(files, p.group)
	current, _ := root.Readlink(dataLink)
	if current != "" && filepath.IsLocal(current) && same(root, current, files) {
		// A crash may have left links or an old folder.
		return false, p.link(ctx, current, files, false)
	}
	if err := p.write(ctx, fresh, files); err != nil {
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
	return true, p.link(ctx, fresh, files, true)
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
	return publication{root: root, inside: inside, sync: syncFile}.link(ctx, current, files, false)
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

// publication replaces the content of one volume.
type publication struct {
	root  *os.Root
	group *int64
	// inside reports whether something may be mounted in an entry at the top; nil: nowhere.
	inside func(name string) bool
	// sync makes an open file or folder durable, unless ctx ends first; in memory it has nothing to do.
	sync func(ctx context.Context, f *os.File) error
}

// write writes a new folder and makes it durable; it first removes what a crash left there.
func (p publication) write(ctx context.Context, dir string, files map[string]File) error {
	if err := tree.RemoveIn(ctx, p.root, dir); err != nil {
		return err
	}
	if err := p.folder(dir); err != nil {
		return err
	}
	folders := []string{dir}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if ctx.Err() != nil { // a slow disk takes long
			return context.Cause(ctx)
		}
		path := dir
		parts := strings.Split(name, "/")
		for _, part := range parts[:len(parts)-1] {
			path = filepath.Join(path, part)
			switch err := p.folder(path); {
			case err == nil:
				folders = append(folders, path)
			case !errors.Is(err, fs.ErrExist):
				return err
			}
		}
		if err := p.file(ctx, filepath.Join(path, parts[len(parts)-1]), files[name]); err != nil {
			return err
		}
	}
	for _, path := range slices.Backward(folders) {
		if err := p.syncFolder(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// folder makes a folder.
func (p publication) folder(path string) error {
	if err := p.root.Mkdir(path, 0o700); err != nil {
		return err
	}
	return p.own(path, nil, 0o755)
}

// file writes a file with its owner and mode.
func (p publication) file(ctx context.Context, path string, content File) error {
	// Exclusive: two names may mean one file.
	f, err := p.root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content.Data)
	if err == nil {
		err = p.own(path, content.User, content.Mode.Perm())
	}
	if err == nil {
		err = p.sync(ctx, f)
	}
	return errors.Join(err, f.Close())
}

// own gives a file or folder its owner and mode.
func (p publication) own(path string, user *int64, mode fs.FileMode) error {
	if user != nil || p.group != nil {
		if err := p.root.Lchown(path, idOr(user), idOr(p.group)); err != nil {
			return err
		}
	}
	return p.root.Chmod(path, mode) // the umask has cut it
}

// syncFolder makes the names in a folder durable.
func (p publication) syncFolder(ctx context.Context, path string) error {
	f, err := p.root.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(p.sync(ctx, f), f.Close())
}

// syncFile makes an open file or folder durable. A disk that hangs must not hold up the stop of a pod: when ctx ends, the sync
// is left behind, with a descriptor of its own.
func syncFile(ctx context.Context, f *os.File) error {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: err}
	}
	own, done := os.NewFile(uintptr(fd), f.Name()), make(chan error, 1)
	go func() { done <- errors.Join(own.Sync(), own.Close()) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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

// link makes the links at the top lead to the current files and removes what was
// published before, once the swap is durable: otherwise a loss of power could leave neither. swapped says that this was
// done just now.
func (p publication) link(ctx context.Context, current string, files map[string]File, swapped bool) error {
	want := map[string]string{}
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		want[first] = dataLink + "/" + first
	}
	dir, err := p.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	earlier := func(name string) bool {
		return strings.HasPrefix(name, "..") && name != dataLink && name != current
	}
	missing := slices.DeleteFunc(slices.Collect(maps.Keys(want)), func(name string) bool {
		got, err := p.root.Readlink(name)
		if err == nil {
			return got == want[name]
		}
		// What is no link may be a mount point from before there was a file of this name.
		return !errors.Is(err, fs.ErrNotExist) && p.inside != nil && p.inside(name)
	})
	var unsynced error
	if swapped || len(missing) > 0 || slices.ContainsFunc(names, earlier) { // a crash may have come after the swap
		unsynced = p.sync(ctx, dir)
	}
	problems := []error{err, unsynced}
	for _, name := range names {
		switch {
		case name == dataLink || name == current:
		case earlier(name):
			if unsynced == nil {
				problems = append(problems, tree.RemoveIn(ctx, p.root, name))
			}
		case want[name] == "" && isLink(p.root, name):
			problems = append(problems, p.root.Remove(name))
		}
	}
	for _, name := range missing {
		if unsynced != nil {
			break // what is missing is what tells the next call to sync
		}
		problems = append(problems, tree.RemoveIn(ctx, p.root, name), p.root.Symlink(want[name], name))
	}
	return errors.Join(problems...)
}

func isLink(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}
