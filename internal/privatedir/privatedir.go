package privatedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrUnsafe is wrapped in the error of [Check] about a folder that others can change.
var ErrUnsafe = errors.New("whoever can write there can take over the agent and its pods")

// Close gives a folder the mode 0700. One that has it is left as it is: on a read-only disk even a change to the same
// mode fails.
func Close(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() == 0o700 {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// maxLinks bounds the symbolic links that a path may lead through, as in the kernel.
const maxLinks = 40

// Check returns an error if a user other than root and that of this process can change dir, or
// replace it through a folder or link above it; dir itself must belong to the user of this process.
// Only the existing part of the path is checked. dir is absolute.
func Check(dir string) error { return walk(dir, os.Geteuid(), place.check) }

// CheckFile returns an error if a user other than root and that of this process can change or
// replace a file, such as a program that the agent runs. Unlike a folder of [Check], the file may
// also belong to root. Only the existing part of the path is checked. file is absolute.
func CheckFile(file string) error { return walk(file, os.Geteuid(), checkFile) }

func checkFile(p place, user int, last bool) error {
	if last && p.owner == 0 {
		user = 0
	}
	return p.check(user, last)
}

// walk checks every place on a path, and finally what the path leads to.
func walk(path string, user int, check func(p place, user int, last bool) error) error {
	todo := parts(path)
	var above []place // from the root down
	for name, links := "/", 0; ; {
		here, err := look(above, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = check(here, user, false)
		}
		if err != nil {
			return err
		}
		if here.link == "" {
			above = append(above, here)
		} else {
			if links++; links > maxLinks {
				return fmt.Errorf("%s: %w", here.path, syscall.ELOOP)
			}
			if filepath.IsAbs(here.link) {
				above = above[:1]
			}
			todo = append(parts(here.link), todo...)
		}
		for len(todo) > 0 && todo[0] == ".." {
			above, todo = above[:max(1, len(above)-1)], todo[1:]
		}
		if len(todo) == 0 {
			return check(above[len(above)-1], user, true)
		}
		name, todo = todo[0], todo[1:]
	}
}

// parts returns the names in a path. Unlike [filepath.Clean] it keeps "..", because the name before
// it may be a link.
func parts(path string) (names []string) {
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// place is a folder on the way to another, or a link.
type place struct {
	path  string
	owner int
	mode  fs.FileMode
	link  string // where a link leads, "" for a folder
	// sealed: a folder above lets only its owner through, so the permissions of all others mean
	// nothing here.
	sealed bool
}

// look reads the place called name below the last of above.
func look(above []place, name string) (place, error) {
	here := place{path: name}
	if len(above) > 0 {
		parent := above[len(above)-1]
		here = place{path: filepath.Join(parent.path, name), sealed: parent.sealed || parent.mode.Perm()&0o011 == 0}
	}
	info, err := os.Lstat(here.path)
	if err != nil {
		return place{}, err
	}
	here.mode = info.Mode()
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		here.owner = int(s.Uid)
	}
	if here.mode&fs.ModeSymlink != 0 {
		here.link, err = os.Readlink(here.path)
	}
	return here, err
}

// check returns why this place is not safe for the user; last says that it is the folder in
// question rather than one on the way to it.
func (p place) check(user int, last bool) error {
	if p.owner != user && (last || p.owner != 0) {
		return fmt.Errorf("%s belongs to user %d, and the agent runs as user %d: %w; run the agent as its owner, chown it, or choose another place",
			p.path, p.owner, user, ErrUnsafe)
	}
	if p.link != "" || p.sealed || p.mode.Perm()&0o022 == 0 || !last && p.mode&fs.ModeSticky != 0 {
		return nil
	}
	mend := "run chmod go-w " + p.path + ", or choose another place"
	if p.mode&fs.ModeSticky != 0 {
		mend = "it is for the files of all users, so choose a folder in it" // such as /tmp
	}
	return fmt.Errorf("%s is open to other users (mode %04o): %w; %s", p.path, octal(p.mode), ErrUnsafe, mend)
}

// octal returns the mode as chmod takes it.
func octal(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	if m&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}
