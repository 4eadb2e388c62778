package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// How the agent runs its own binary as a supervisor: this argv[0], the container's
// folder as the only argument, this variable, and two descriptors.
const (
	shimName    = "podwright-supervisor"
	shimEnv     = "PODWRIGHT_SUPERVISOR"
	shimReadyFD = 3 // pipe: one handshake
	shimLockFD  = 4 // the container's lock, held as long as the supervisor lives

	selfExecutable = "/proc/self/exe"
)

// handshake is what a supervisor tells the agent that started it; one field is set.
type handshake struct {
	Started *startedRecord `json:"started,omitempty"`
	Error   string         `json:"error,omitempty"`
}

// Shim must be called first thing in main. If this process was started to
// supervise a container, Shim does that, returns done = true when the container
// has ended, and main must return at once. Otherwise it does nothing and returns
// the value for [Options.Supervisor].
func Shim() (supervisor Supervisor, done bool) {
	if len(os.Args) == 2 && os.Args[0] == shimName && os.Getenv(shimEnv) != "" {
		s := &shim{dir: os.Args[1], clock: clock.RealClock{}}
		s.run()
		return Supervisor{}, true
	}
	return Supervisor{executable: selfExecutable}, false
}

// shim supervises one container. It is a process of its own.
type shim struct {
	dir    string
	clock  clock.Clock
	record containerRecord
	output *output
}

func (s *shim) run() {
	unix.CloseOnExec(shimReadyFD)
	unix.CloseOnExec(shimLockFD)
	ready := os.NewFile(shimReadyFD, "ready")
	signals := make(chan os.Signal, 8)
	// Caught, not ignored: a caught signal is back to its default in the child.
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)

	process, err := s.start()
	if err != nil {
		err = errors.Join(err, writeExit(s.dir, startFailed(err, s.clock.Now())))
		_ = json.NewEncoder(ready).Encode(handshake{Error: err.Error()})
		return
	}
	// Without the socket the agent cannot have this log reopened, and reports that
	// when it tries. The container continues.
	if control, err := s.serveControl(); err == nil {
		defer control.Close()
	}
	var started startedRecord
	_, _ = readRecord(s.dir, startedFile, &started)
	_ = json.NewEncoder(ready).Encode(handshake{Started: &started}) // the agent may be gone
	ready.Close()

	go func() {
		for sig := range signals {
			if sig == unix.SIGTERM { // of a shutdown or an operator
				_ = process.SignalGroup(unix.Signal(s.record.StopSignal))
			}
		}
	}()
	debug.FreeOSMemory()

	status := waitFor(process.Identity().PID)
	exit := exitOf(status, s.clock.Now())
	s.killRest(process)
	s.output.close(true)
	_ = writeExit(s.dir, exit) // without it the agent reports an unknown exit
}

// start starts the container and records which process it is.
func (s *shim) start() (*osproc.Process, error) {
	if ok, err := readRecord(s.dir, containerFile, &s.record); err != nil || !ok {
		return nil, errors.Join(err, errors.New("the container has no record"))
	}
	self, err := osproc.Identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	// Orphans of the container become children of this process, not of init, so that
	// it reaches the whole tree.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become subreaper: %w", err)
	}
	process, output, err := startContainer(s.dir, &s.record, self, s.clock)
	s.output = output
	return process, err
}

// waitFor reaps children until the one with this pid has ended.
func waitFor(pid int) unix.WaitStatus {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		if got == pid || errors.Is(err, unix.ECHILD) {
			return status
		}
	}
}

// killRest kills what the container's process left behind and reaps it.
func (s *shim) killRest(process *osproc.Process) {
	_ = process.KillTree()
	s.reapRest(func() error {
		_, err := osproc.KillChildren(os.Getpid())
		return err
	}, func() (int, error) { return unix.Wait4(-1, nil, unix.WNOHANG, nil) })
}

// How long a supervisor waits for a killed child to die: one that hangs in the kernel may do so for days, and the
// container has ended. The longest pause between two looks.
const (
	restWait = 5 * time.Second
	restPoll = 100 * time.Millisecond
)

// reapRest kills and reaps children until there are none, one cannot be killed, or none has died for restWait.
func (s *shim) reapRest(kill func() error, reap func() (pid int, err error)) {
	give, pause := s.clock.Now().Add(restWait), time.Millisecond
	for {
		// When a child dies its children become children of this process: they are killed too.
		if err := kill(); err != nil {
			return
		}
		switch pid, err := reap(); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // none is left
			return
		case pid > 0:
			give, pause = s.clock.Now().Add(restWait), time.Millisecond
			continue
		case !s.clock.Now().Before(give): // its signal is pending
			return
		}
		<-s.clock.After(pause)
		pause = min(2*pause, restPoll)
	}
}

// Requests on the control socket are one line, and so are the answers: "ok" or
// the text of an error.
const (
	controlReopen = "reopen"
	controlOK     = "ok"
)

// serveControl answers on a unix socket in the container's folder, which only the
// agent's user can reach.
func (s *shim) serveControl() (net.Listener, error) {
	var listener net.Listener
	err := inDir(s.dir, func(short string) (err error) {
		listener, err = net.Listen("unix", filepath.Join(short, controlFile))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	go s.answerAll(listener)
	return listener, nil
}

// acceptAgain is how long a supervisor waits after it could not accept a connection.
const acceptAgain = time.Second

// answerAll answers one request after the other until the listener is closed. A node that is out of memory or of open
// files for a while must not cost this container the rotation of its log until it ends.
func (s *shim) answerAll(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			s.answer(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			<-s.clock.After(acceptAgain)
		}
	}
}

func (s *shim) answer(conn net.Conn) {
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	answer := controlOK
	switch request := strings.TrimSpace(line); request {
	case controlReopen:
		if err := s.output.reopen(); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
	default:
		answer = fmt.Sprintf("unknown request %q", request)
	}
	fmt.Fprintln(conn, answer)
}

// inDir calls f with a short name of the folder, valid during the call: the path of
// a unix socket may have only 107 bytes.
func inDir(dir string, f func(short string) error) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	return f(fmt.Sprintf("/proc/self/fd/%d", fd))
}
