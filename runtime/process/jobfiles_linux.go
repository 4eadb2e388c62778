package process

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// jobFiles connect a command to its caller.
type jobFiles struct {
	// The command's ends.
	stdin, stdout, stderr *os.File
	// input is where the caller's input goes; nil if there is none.
	input *os.File
	// output is what the command writes, and where it goes.
	output   []jobOutput
	terminal bool
}

type jobOutput struct {
	file *os.File // non-blocking
	to   io.Writer
}

// pipeFiles makes pipes for the outputs, and for the input if there is one; without one the
// command reads the null device.
func pipeFiles(record *containerRecord, input bool, stdout, stderr io.Writer) (_ *jobFiles, err error) {
	f := &jobFiles{}
	defer func() {
		if err != nil {
			f.closeTheirs()
			f.closeOurs()
		}
	}()
	if input {
		f.stdin, f.input, err = os.Pipe()
	} else {
		f.stdin, err = os.Open(os.DevNull)
	}
	if err != nil {
		return nil, err
	}
	for _, out := range []struct {
		theirs **os.File
		to     io.Writer
	}{{&f.stdout, stdout}, {&f.stderr, stderr}} {
		from, to, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		*out.theirs, f.output = to, append(f.output, jobOutput{from, out.to})
		if user := record.User; user != nil {
			// So that the command may open /dev/stdout.
			_ = to.Chown(int(user.UID), int(user.GID))
		}
	}
	return f, nil
}

// terminalFiles makes a terminal. The command gets its end whatever is below the command's /dev.
func terminalFiles(record *containerRecord, stdout io.Writer) (*jobFiles, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	slave := -1
	err = control(master, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			return errno
		}
		slave = int(peer)
		return nil
	})
	if err != nil {
		master.Close()
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	end := os.NewFile(uintptr(slave), "terminal")
	if user := record.User; user != nil {
		_ = end.Chown(int(user.UID), int(user.GID))
	}
	return &jobFiles{
		stdin: end, stdout: end, stderr: end, input: master,
		output: []jobOutput{{master, stdout}}, terminal: true,
	}, nil
}

// resize sets the size of a terminal.
func resize(master *os.File, width, height uint16) error {
	return control(master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height})
	})
}

// control calls f with an open descriptor.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// closeTheirs closes the command's ends.
func (f *jobFiles) closeTheirs() {
	for _, file := range []*os.File{f.stdin, f.stdout, f.stderr} {
		if file != nil {
			file.Close()
		}
	}
}

// closeOurs closes the caller's ends.
func (f *jobFiles) closeOurs() {
	if f.input != nil {
		f.input.Close()
	}
	for _, out := range f.output {
		out.file.Close()
	}
}

// withTerm names the kind of terminal, if the container does not.
func withTerm(env []string) []string {
	for _, entry := range env {
		if strings.HasPrefix(entry, "TERM=") {
			return env
		}
	}
	return append(env[:len(env):len(env)], "TERM=xterm")
}
