package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrMoved says that a folder was moved away while the walk was deep below it, so the walk cannot
// find the way back to the rest of the folders in between.
var ErrMoved = errors.New("it was moved while it was read")

// held is how many levels of a walk stay open above the current one, besides the top.
const held = 16

// Entry is a file or folder that a walk has reached.
type Entry struct {
	// Dir is the open folder that contains it, until Visit returns.
	Dir int
	// Name in that folder.
	Name string
	// Stat of the entry itself, even if it is a link.
	Stat *unix.Stat_t
}

// IsDir reports whether it is a folder.
func (e Entry) IsDir() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// IsLink reports whether it is a symbolic link.
func (e Entry) IsLink() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFLNK }

// Walker walks through a tree and changes nothing itself.
type Walker struct {
	// Visit is called for each entry, for a folder before its content. [fs.SkipDir] skips the
	// content of a folder, [fs.SkipAll] ends the walk; any other error ends it and is returned.
	Visit func(Entry) error
	// Leave, if set, is called for each folder that was entered, after its content: folder is the
	// open folder, name its name in the open folder dir. Leave may remove the folder. An error ends
	// the walk and is returned.
	Leave func(dir, folder int, name string) error
	// Failed is called with the name of an entry that cannot be read, or was moved away ([ErrMoved]):
	// if it returns nil, the walk continues without the entry; an error ends the walk. If Failed is
	// nil, every error ends the walk. An entry that was removed meanwhile is not a failure.
	Failed func(name string, err error) error
}

// Walk walks through everything in dir. It checks ctx every 256 entries. It uses the position of
// dir and leaves it open.
func (w Walker) Walk(ctx context.Context, dir *os.File) error {
	s := &walk{Walker: w, pace: pace{ctx: ctx}}
	defer s.close()
	top := int(dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(top, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if _, err := unix.Seek(top, 0, unix.SEEK_SET); err != nil {
		return err
	}
	s.push(top, "", &st)
	for len(s.levels) > 0 {
		if err := s.step(); err != nil {
			if errors.Is(err, fs.SkipAll) {
				return nil
			}
			return err
		}
	}
	return nil
}

type walk struct {
	Walker
	pace
	levels []level
	// buffers are those that no listing uses.
	buffers [][]byte
}

// level is a folder on the way from the top to the current one.
type level struct {
	listing // fd is -1 while it is closed
	name    string
	device  uint64
	inode   uint64
}

// step visits the next entry of the current folder, or leaves the folder.
func (s *walk) step() error {
	at := &s.levels[len(s.levels)-1]
	name, _, err := at.next()
	if err != nil {
		if err := s.failed("", err); err != nil {
			return err
		}
	}
	if name == "" {
		return s.leave()
	}
	if cut := s.pace.next(); cut != nil {
		return cut
	}
	var st unix.Stat_t
	if err := unix.Fstatat(at.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT); err != nil {
		return s.failed(name, err)
	}
	e := Entry{Dir: at.fd, Name: name, Stat: &st}
	err = s.Visit(e)
	switch {
	case errors.Is(err, fs.SkipDir):
		return nil
	case err != nil || !e.IsDir():
		return err
	}
	return s.enter(at.fd, name, &st)
}

// enter opens the folder that was just visited.
func (s *walk) enter(dir int, name string, visited *unix.Stat_t) error {
	fd, err := openFolder(dir, name)
	if err != nil {
		return s.failed(name, err)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (st.Dev != visited.Dev || st.Ino != visited.Ino) {
		err = ErrMoved
	}
	if err != nil {
		unix.Close(fd)
		return s.failed(name, err)
	}
	s.push(fd, name, &st)
	return nil
}

// leave goes back to the folder above the current one.
func (s *walk) leave() error {
	last := len(s.levels) - 1
	if last == 0 {
		s.levels = nil
		return nil
	}
	var err error
	if above := &s.levels[last-1]; above.fd < 0 {
		err = s.reopen(above, s.levels[last].fd)
	}
	var left error
	if err == nil && s.Leave != nil {
		left = s.Leave(s.levels[last-1].fd, s.levels[last].fd, s.levels[last].name)
	}
	s.shut(&s.levels[last])
	s.levels = s.levels[:last]
	if err == nil {
		return left
	}
	for s.levels[len(s.levels)-1].fd < 0 { // the top is open
		s.levels = s.levels[:len(s.levels)-1]
	}
	return s.failed("", err)
}

// reopen opens a level again, through the folder below it.
func (s *walk) reopen(l *level, below int) error {
	fd, err := openFolder(below, "..")
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Dev != l.device || st.Ino != l.inode) {
		err = ErrMoved
	}
	if err == nil {
		_, err = unix.Seek(fd, l.offset, unix.SEEK_SET)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	l.fd, l.buffer = fd, s.buffer()
	return nil
}

// failed asks Failed what to do about an error.
func (s *walk) failed(name string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case s.Failed != nil:
		return s.Failed(name, err)
	case name == "":
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// push adds a level, and closes the level that is too far above.
func (s *walk) push(fd int, name string, st *unix.Stat_t) {
	if far := len(s.levels) - held; far > 0 {
		s.shut(&s.levels[far])
	}
	s.levels = append(s.levels, level{listing: listing{fd: fd, buffer: s.buffer()}, name: name, device: st.Dev, inode: st.Ino})
}

func (s *walk) buffer() []byte {
	n := len(s.buffers)
	if n == 0 {
		return make([]byte, portion)
	}
	out := s.buffers[n-1]
	s.buffers = s.buffers[:n-1]
	return out
}

// shut closes a level and remembers where its reading continues.
func (s *walk) shut(l *level) {
	if l.fd < 0 {
		return
	}
	unix.Close(l.fd)
	s.buffers = append(s.buffers, l.buffer)
	l.fd, l.buffer, l.rest = -1, nil, nil
}

// close closes what is open below the top.
func (s *walk) close() {
	for i := 1; i < len(s.levels); i++ {
		s.shut(&s.levels[i])
	}
}
