package containerlog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/podwright/podwright/runtime/pods/internal/logrotate"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

const (
	readBlock = 64 << 10
	// sampleSize is how much of the start of a file tells it from all others: its
	// first entry has a time in nanoseconds.
	sampleSize = 1 << 10
)

// segment is one file of a log that is open.
type segment struct {
	file *os.File
	in   io.Reader // of the plain content
	// base is the name it was rotated to, without the suffix of compression; empty for the
	// current file, which may have been rotated since.
	base   string
	zipped bool

	buffer []byte
	held   int  // bytes of the buffer that are the start of a raw line
	inLine bool // the start of the raw line has been handed out
}

func newSegment(file *os.File, base string) *segment {
	return &segment{file: file, in: file, base: base}
}

func (s *segment) close() {
	if s != nil {
		s.file.Close()
	}
}

// unlimited is the limit of a reading that goes on to the end of the file.
const unlimited = math.MaxInt64

// size returns how much of the file has been written so far; unlimited for one that is complete.
func (s *segment) size() (int64, error) {
	if s == nil || s.zipped {
		return unlimited, nil
	}
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// read hands out what there is up to limit, an offset in a file that is not compressed: raw lines
// without their newline, in pieces if they are long. What has no newline yet is kept for the next call.
func (s *segment) read(limit int64, emit func(raw []byte, first, last bool) error) error {
	if s.buffer == nil {
		s.buffer = make([]byte, readBlock)
	}
	at, err := s.restart()
	if err != nil {
		return err
	}
	for {
		room := s.buffer[s.held:]
		room = room[:min(int64(len(room)), max(limit-at, 0))]
		if len(room) == 0 {
			return nil
		}
		n, err := s.in.Read(room)
		at += int64(n)
		data := s.buffer[:s.held+n]
		for {
			i := bytes.IndexByte(data, '\n')
			if i < 0 {
				break
			}
			first := !s.inLine
			s.inLine = false
			if err := emit(data[:i], first, true); err != nil {
				return err
			}
			data = data[i+1:]
		}
		if len(data) == len(s.buffer) {
			first := !s.inLine
			s.inLine = true
			if err := emit(data, first, false); err != nil {
				return err
			}
			data = nil
		}
		s.held = copy(s.buffer, data)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", s.file.Name(), err)
		}
	}
}

// restart starts over with a file that was truncated. It returns where in the file the reading continues.
func (s *segment) restart() (at int64, err error) {
	if s.zipped {
		return 0, nil
	}
	if at, err = s.file.Seek(0, io.SeekCurrent); err != nil || s.base != "" {
		return at, err
	}
	if info, err := s.file.Stat(); err != nil || info.Size() >= at {
		return at, err
	}
	s.held, s.inLine = 0, false
	return s.file.Seek(0, io.SeekStart)
}

// rest hands out a raw line that has no newline and will not get one. ends says that it is a line
// nevertheless, because what follows is in another file.
func (s *segment) rest(emit func(raw []byte, first, last bool) error, ends bool) error {
	if s.held == 0 && !(s.inLine && ends) {
		return nil
	}
	n, first := s.held, !s.inLine
	s.held, s.inLine = 0, s.inLine && !ends
	return emit(s.buffer[:n], first, ends)
}

// rewind goes back to the start of a compressed file. It needs no name: the rotation may have removed it.
func (s *segment) rewind() error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	zip, err := gzip.NewReader(s.file)
	if err != nil {
		return fmt.Errorf("read %s: %w", s.file.Name(), err)
	}
	s.in, s.held, s.inLine = zip, 0, false
	return nil
}

// folder is where the files of one log are.
type folder struct {
	dir *os.Root
	log string
}

// rotated returns the rotated files, without suffix, in the order of writing.
func (f *folder) rotated() ([]string, error) {
	names, err := poddir.Names(f.dir)
	if err != nil {
		return nil, fmt.Errorf("list the log folder: %w", err)
	}
	return logrotate.Rotated(f.log, names), nil
}

// openRotated opens a rotated file, compressed or not.
func (f *folder) openRotated(base string) (*segment, error) {
	file, err := poddir.OpenRegular(f.dir, base)
	if err == nil {
		return newSegment(file, base), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if file, err = poddir.OpenRegular(f.dir, logrotate.Compressed(base)); err != nil {
		return nil, err
	}
	zip, err := gzip.NewReader(file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	s := newSegment(file, base)
	s.in, s.zipped = zip, true
	return s, nil
}

// openCurrent opens the current file.
func (f *folder) openCurrent() (*segment, error) {
	file, err := poddir.OpenRegular(f.dir, f.log)
	if err != nil {
		return nil, err
	}
	return newSegment(file, ""), nil
}

// isCurrent reports whether s, opened as the current file, is still current, and whether
// there is a current file at all.
func (f *folder) isCurrent(s *segment) (same, exists bool, err error) {
	now, err := f.dir.Lstat(f.log)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	mine, err := s.file.Stat()
	return err == nil && os.SameFile(mine, now), true, err
}

// nameOf returns which of the rotated files s is now. Empty: none of them, because it has been
// removed, is the current file or is empty.
func (f *folder) nameOf(s *segment, rotated []string) (string, error) {
	mine, err := s.file.Stat()
	if err != nil {
		return "", err
	}
	for _, base := range rotated {
		if info, err := f.dir.Lstat(base); err == nil && os.SameFile(mine, info) {
			return base, nil
		}
	}
	sample := make([]byte, sampleSize)
	n, err := s.file.ReadAt(sample, 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return "", err
	case n == 0: // it would be taken for any other empty file
		return "", nil
	}
	for _, base := range rotated {
		other, err := f.openRotated(base)
		if err != nil {
			continue // removed meanwhile, or not readable: reading it will tell
		}
		theirs := make([]byte, sampleSize)
		m, _ := io.ReadFull(other.in, theirs)
		other.close()
		if n == m && bytes.Equal(sample[:n], theirs[:m]) {
			return base, nil
		}
	}
	return "", nil
}
