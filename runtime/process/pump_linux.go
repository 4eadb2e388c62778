package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/process/internal/crilog"
)

// pump copies a pipe to a writer in a goroutine of its own.
type pump struct {
	pipe *os.File // non-blocking
	to   io.Writer
	done chan struct{}
}

func startPump(pipe *os.File, to io.Writer) *pump {
	p := &pump{pipe: pipe, to: to, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		// A writer that fails (disk full) must not block the container: what cannot
		// be written is lost.
		buffer := make([]byte, 32<<10)
		for {
			n, err := pipe.Read(buffer)
			_, _ = to.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	return p
}

// stop ends the pump. With drain it first copies what the pipe holds now, even
// if some process still has it open for writing.
func (p *pump) stop(drain bool) {
	_ = p.pipe.SetReadDeadline(time.Unix(1, 0))
	<-p.done
	if drain {
		p.drain()
	}
	_ = p.pipe.Close()
}

func (p *pump) drain() {
	raw, err := p.pipe.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 32<<10)
	// A process that never stops writing could keep this busy forever: the capacity of
	// a pipe is enough.
	for left := 1 << 20; left > 0; {
		n := 0
		err := raw.Control(func(fd uintptr) {
			n, err = unix.Read(int(fd), buffer)
			for errors.Is(err, unix.EINTR) {
				n, err = unix.Read(int(fd), buffer)
			}
		})
		if err != nil || n <= 0 {
			return
		}
		_, _ = p.to.Write(buffer[:n])
		left -= n
	}
}

// output copies the output of a container from its FIFOs to its log file.
type output struct {
	log     *crilog.Writer // nil: there is no log file, and no pumps
	streams [2]*crilog.Stream
	pumps   [2]*pump
}

// outputFiles are the container's ends of its FIFOs, open for reading and writing.
// The container is a reader of its own output, so when the process that copies the
// log dies, a write raises no SIGPIPE but waits for the next one.
type outputFiles struct {
	stdout, stderr *os.File
}

func (f *outputFiles) close() {
	f.stdout.Close()
	f.stderr.Close()
}

// openOutputFiles makes and opens the FIFOs in a container's folder, or the null
// device if the container has no log.
func openOutputFiles(dir string, record *containerRecord) (*outputFiles, error) {
	if record.LogName == "" {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		return &outputFiles{stdout: null, stderr: null}, nil
	}
	open := func(name string) (*os.File, error) {
		path := filepath.Join(dir, name)
		if err := unix.Mkfifo(path, 0o600); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("make FIFO: %w", err)
		}
		// The descriptor is used as it is: os.OpenFile would make it non-blocking,
		// which the container would inherit.
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, fmt.Errorf("open FIFO: %w", err)
		}
		if record.User != nil {
			// So that the container may open /dev/stdout.
			if err := unix.Fchown(fd, int(record.User.UID), int(record.User.GID)); err != nil {
				unix.Close(fd)
				return nil, fmt.Errorf("owner of FIFO: %w", err)
			}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
	stdout, err := open(stdoutFile)
	if err != nil {
		return nil, err
	}
	stderr, err := open(stderrFile)
	if err != nil {
		stdout.Close()
		return nil, err
	}
	return &outputFiles{stdout: stdout, stderr: stderr}, nil
}

// openOutput starts to copy a container's output. While no process has the FIFOs
// open for writing the pumps end at once.
func openOutput(dir string, record *containerRecord, clock clock.PassiveClock) (*output, error) {
	if record.LogName == "" {
		return &output{}, nil
	}
	log, err := crilog.Open(record.LogDir, record.LogName, clock)
	if err != nil {
		return nil, err
	}
	return copyOutput(dir, log)
}

// copyOutput starts to copy a container's output to a log.
func copyOutput(dir string, log *crilog.Writer) (*output, error) {
	o := &output{log: log}
	for i, name := range [...]string{stdoutFile, stderrFile} {
		pipe, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			o.close(false)
			return nil, fmt.Errorf("open FIFO: %w", err)
		}
		o.streams[i] = log.Stream(name)
		o.pumps[i] = startPump(pipe, o.streams[i])
	}
	return o, nil
}

// close stops copying; with drain the container has ended, and what it left in
// its FIFOs is logged.
func (o *output) close(drain bool) {
	for i, p := range o.pumps {
		if p != nil {
			p.stop(drain)
			_ = o.streams[i].Flush()
		}
	}
	if o.log != nil {
		_ = o.log.Close()
	}
}

// reopen follows a rotation of the log file.
func (o *output) reopen() error {
	if o.log == nil {
		return nil
	}
	return o.log.Reopen()
}
