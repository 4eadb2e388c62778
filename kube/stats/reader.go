package stats

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	// pageSize is how much the kernel returns at once of one of its small files.
	pageSize = 4096
	// maxFile bounds what is read from a file.
	maxFile = 1 << 20
)

// reader reads files of the kernel into its buffer. A scrape reads hundreds, none of which can
// block; package os prepares for blocking files, at twice the cost.
type reader struct{ buffer []byte }

// read returns a file, valid until the next call. small says that one read returns all of a file below a page.
func (r *reader) read(path string, small bool) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) })
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	if r.buffer == nil {
		r.buffer = make([]byte, 2*pageSize)
	}
	for have := 0; ; {
		n, err := retry(func() (int, error) { return unix.Read(fd, r.buffer[have:]) })
		if err != nil {
			return nil, err
		}
		have += n
		if n == 0 || small && have < pageSize || have >= maxFile {
			return r.buffer[:have], nil
		}
		if have == len(r.buffer) {
			r.buffer = append(r.buffer, make([]byte, have)...)
		}
	}
}

// retry repeats a call that was interrupted by a signal.
func retry(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
