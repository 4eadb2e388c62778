package tree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// portion is how many bytes of a folder are read at once. A folder may have millions of entries, so
// it is never read as a whole.
const portion = 16 << 10

// Offsets of the fields of a struct linux_dirent64.
const (
	offsetAt = 8
	lengthAt = 16
	kindAt   = 18
	nameAt   = 19
)

// listing reads an open folder in portions.
type listing struct {
	fd     int
	buffer []byte
	rest   []byte // of the buffer, not yet returned
	// offset is where the folder continues after the last returned entry.
	offset int64
}

// next returns the next entry and its kind (unix.DT_...), with an empty name at the end.
func (l *listing) next() (name string, kind byte, err error) {
	for {
		if len(l.rest) == 0 {
			n, err := getdents(l.fd, l.buffer)
			if err != nil {
				return "", 0, fmt.Errorf("read folder: %w", err)
			}
			if n == 0 {
				return "", 0, nil
			}
			l.rest = l.buffer[:n]
		}
		entry := l.rest[:binary.NativeEndian.Uint16(l.rest[lengthAt:])]
		l.rest = l.rest[len(entry):]
		l.offset = int64(binary.NativeEndian.Uint64(entry[offsetAt:]))
		text := entry[nameAt:]
		text = text[:bytes.IndexByte(text, 0)]
		if s := string(text); s != "." && s != ".." {
			return s, entry[kindAt], nil
		}
	}
}

// getdents reads entries. A folder that was removed meanwhile has none.
func getdents(fd int, buffer []byte) (int, error) {
	for {
		n, err := unix.Getdents(fd, buffer)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOENT):
			return 0, nil
		default:
			return n, err
		}
	}
}

// openFolder opens a folder for reading and follows no link.
func openFolder(dir int, name string) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
