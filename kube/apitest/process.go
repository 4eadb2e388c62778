package apitest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/patience"
)

// stopLimit is how long a server may take to end before it is killed.
func stopLimit() time.Duration { return patience.Of(10 * time.Second) }

// Process is one of the servers of a [Cluster]. Its methods are safe for concurrent use.
type Process struct {
	program string
	args    []string
	log     string

	mu      sync.Mutex
	command *exec.Cmd
	ended   chan struct{}
}

// Start starts the process; a running one is left alone. It does not wait until the server answers:
// [Cluster.WaitReady] does.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return nil
	}
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(p.program, p.args...)
	command.Stdout, command.Stderr = log, log
	// A server lives for seconds or minutes: with less garbage collection its start takes a fifth less CPU time.
	command.Env = append(os.Environ(), "GOGC=400")
	// Its own process group: signals that a terminal sends to the test do not reach it.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	ended, started := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		// The kernel kills the process when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Name(), err)
	}
	p.command, p.ended = command, ended
	return nil
}

// Name is the name of the program.
func (p *Process) Name() string { return filepath.Base(p.program) }

// Running reports whether the process runs, frozen or not.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

func (p *Process) running() bool {
	if p.command == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Stop ends the process gracefully, and by force if that takes more than 10 s. It returns when the
// process has ended; stopping one that does not run is no error.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

// Kill ends the process at once, as kill -9 does, and returns when it has ended.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

// Freeze suspends the process; its connections stay open and silent.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw resumes a frozen process.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return fmt.Errorf("%s does not run", p.Name())
	}
	return p.command.Process.Signal(s)
}

func (p *Process) end(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil
	}
	for _, s := range []syscall.Signal{s, syscall.SIGCONT} { // a frozen process could not end
		if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("signal %s: %w", p.Name(), err)
		}
	}
	timer := clock.RealClock{}.NewTimer(stopLimit())
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C():
		_ = p.command.Process.Kill()
		<-p.ended
	}
	return nil
}

// Tail returns the end of the log, for errors.
func (p *Process) Tail() string {
	const limit = 3000
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-limit):])
}
