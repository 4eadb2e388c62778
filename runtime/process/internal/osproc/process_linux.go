package osproc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalGroup is PIDFD_SIGNAL_PROCESS_GROUP of Linux 6.9: the signal goes to the
// process group the pidfd's process leads or led.
const signalGroup = 1 << 2

// Process is a handle on one process that leads its own session. It is safe for
// concurrent use.
type Process struct {
	id Identity

	mu sync.RWMutex // read: fd in use; write: closing it
	fd int
}

// Open returns a handle on the process that id names, and [os.ErrProcessDone] if
// it has ended.
func Open(id Identity) (*Process, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	if id.BootID != boot || id.PID <= 0 {
		return nil, fmt.Errorf("process %d: %w", id.PID, os.ErrProcessDone)
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("process %d: %w", id.PID, os.ErrProcessDone)
	}
	if err != nil {
		return nil, fmt.Errorf("pidfd of process %d: %w", id.PID, err)
	}
	// The stat is read after the pidfd was opened: if it is still that of the process
	// meant, the process had its pid all along, so the pidfd is the right one.
	s, err := readStat(id.PID)
	if err == nil && (s.startTime != id.StartTime || s.dead()) {
		err = fmt.Errorf("process %d: %w", id.PID, os.ErrProcessDone)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Process{id: id, fd: fd}, nil
}

// Adopt makes a handle from a child just forked and its pidfd, which the handle
// then owns. The child may be dead but must not be reaped yet.
func Adopt(pid, fd int) (*Process, error) {
	id, err := Identify(pid)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Process{id: id, fd: fd}, nil
}

// Identity returns the name of the process.
func (p *Process) Identity() Identity { return p.id }

// WithFD calls f with the pidfd, which stays open meanwhile. It fails with
// [os.ErrProcessDone] if the handle is closed.
func (p *Process) WithFD(f func(fd int) error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return fmt.Errorf("process %d: %w", p.id.PID, os.ErrProcessDone)
	}
	return f(p.fd)
}

// Close closes the pidfd. A [Watcher] does not report the process any more. Closing twice is allowed.
func (p *Process) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// Alive reports whether the process runs. A zombie does not.
func (p *Process) Alive() bool {
	alive := false
	_ = p.WithFD(func(fd int) error {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Poll(fds, 0)
		}
		alive = err == nil && n == 0
		return err
	})
	return alive
}

// Signal sends a signal to the process; [os.ErrProcessDone] if it has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	return p.WithFD(func(fd int) error {
		return p.wrap(sig, unix.PidfdSendSignal(fd, sig, nil, 0))
	})
}

// SignalGroup sends a signal to the group the process leads, even if the process
// itself has ended; [os.ErrProcessDone] if the group is empty.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	return p.WithFD(func(fd int) error {
		err := unix.PidfdSendSignal(fd, sig, nil, signalGroup)
		if errors.Is(err, unix.EINVAL) { // before Linux 6.9
			return p.signalGroupByNumber(sig)
		}
		return p.wrap(sig, err)
	})
}

// signalGroupByNumber is SignalGroup for kernels that cannot do it by pidfd. The
// number is known to be the group's a moment before the signal.
func (p *Process) signalGroupByNumber(sig syscall.Signal) error {
	if !p.owns() {
		return p.wrap(sig, unix.ESRCH)
	}
	return p.wrap(sig, unix.Kill(-p.id.PID, sig))
}

// KillTree kills the process, its group and everything in the session it leads.
// It does not wait, and succeeds if no process is left.
func (p *Process) KillTree() error {
	err := p.SignalGroup(unix.SIGKILL)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	// Shells with job control give every job a group of its own.
	return errors.Join(err, KillSession(p.id))
}

// KillSession kills every process of the session that the process named by id
// leads or led. It succeeds if no process is left.
func KillSession(id Identity) error {
	boot, err := BootID()
	if err != nil {
		return err
	}
	if id.BootID != boot || id.PID <= 1 || !(&Process{id: id}).owns() {
		return nil
	}
	return killAll(func(s stat) bool { return s.session == id.PID })
}

// KillSessionOf kills every process of the session that the process named by id led, if one of them is ours. It is for
// a process that may have ended long ago: the number may be that of another session by now, whose leader has ended too.
func KillSessionOf(id Identity, ours func(pid int) bool) error {
	boot, err := BootID()
	if err != nil || id.BootID != boot || id.PID <= 1 {
		return err
	}
	processes, err := all()
	for _, s := range processes {
		if s.session == id.PID && !s.dead() && ours(s.pid) {
			return errors.Join(err, killAll(func(s stat) bool { return s.session == id.PID }))
		}
	}
	return err
}

// KillChildren kills every child of the process with this pid and reports
// whether there was a living one.
func KillChildren(pid int) (killed bool, err error) {
	err = killAll(func(s stat) bool {
		if s.parent != pid || s.dead() {
			return false
		}
		killed = true
		return true
	})
	return killed, err
}

// killPasses is how often [KillByEnv] and [KillByArgs] look for processes that were forked during the last look.
// It gives up then: processes that fork faster than they are found outlive the call.
const killPasses = 10

// KillByEnv kills every process whose initial environment holds one of the values of the
// variable. since has the values, each with the earliest start time of its processes: older
// processes are not looked at, as reading the environment of one that hangs in the kernel may
// hang too.
//
// It misses processes whose environment may not be read or was overwritten, and those that start
// another program at that moment: the environment is empty then. A process that cannot be killed
// is named in the error; what was killed is not waited for.
func KillByEnv(variable string, since map[string]uint64) error {
	if len(since) == 0 {
		return nil
	}
	oldest := slices.Min(slices.Collect(maps.Values(since)))
	return killEach(func(s stat) (bool, error) {
		if s.startTime < oldest {
			return false, nil
		}
		env, err := readEnv(s.pid)
		value, _ := lookup(env, variable)
		_, ok := since[value]
		return ok, err
	})
}

// KillByArgs kills the session leaders whose arguments match, and what is in their sessions. It misses those whose
// arguments may not be read. What was killed is not waited for.
func KillByArgs(match func(args []string) bool) error {
	leads := map[int]bool{} // by session, as its leader may die first
	return killEach(func(s stat) (bool, error) {
		if matches, known := leads[s.session]; known {
			return matches, nil
		}
		args, err := readArgs(s.session)
		if err != nil {
			return false, err
		}
		leads[s.session] = match(args)
		return leads[s.session], nil
	})
}

// killEach kills the processes that match, and looks again until it finds no more.
func killEach(match func(stat) (bool, error)) error {
	type key struct {
		pid       int
		startTime uint64
	}
	killed := map[key]bool{}
	return repeat(func() (more bool, err error) {
		processes, err := all()
		errs := []error{err}
		for _, s := range processes {
			id := key{s.pid, s.startTime}
			if s.dead() || killed[id] {
				continue
			}
			ok, err := match(s)
			if ok {
				err = s.kill()
				if err == nil {
					killed[id], more = true, true
				}
			}
			errs = append(errs, err)
		}
		return more, errors.Join(errs...)
	})
}

// repeat calls look until it finds no more, at most killPasses times. It returns the last error:
// what failed in an earlier look was tried again.
func repeat(look func() (more bool, err error)) (err error) {
	for range killPasses {
		var more bool
		if more, err = look(); !more {
			break
		}
	}
	return err
}

// killAll kills all processes that match.
func killAll(match func(stat) bool) error {
	processes, err := all()
	errs := []error{err}
	for _, s := range processes {
		if !s.dead() && match(s) {
			errs = append(errs, s.kill())
		}
	}
	return errors.Join(errs...)
}

// kill kills the process, and succeeds if it has ended. It is pinned by a pidfd and checked again
// before the signal, so that a reused pid is not hit. The caller is spared: it may itself have
// been started in what it kills.
func (s stat) kill() error {
	if s.pid == os.Getpid() {
		return nil
	}
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err == nil {
		defer unix.Close(fd)
		var now stat
		if now, err = readStat(s.pid); err == nil && now.startTime == s.startTime {
			err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
	}
	if err == nil || errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return fmt.Errorf("kill process %d: %w", s.pid, err)
}

// owns reports whether the number p.id.PID still belongs to the process or to
// the group and session it left behind. The kernel does not give a number away
// while a group or session has it, so only another process with that pid can
// mean another group.
func (p *Process) owns() bool {
	s, err := readStat(p.id.PID)
	if errors.Is(err, os.ErrProcessDone) {
		return true
	}
	return err == nil && s.startTime == p.id.StartTime
}

func (p *Process) wrap(sig syscall.Signal, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("process %d: %w", p.id.PID, os.ErrProcessDone)
	default:
		return fmt.Errorf("send %v to process %d: %w", sig, p.id.PID, err)
	}
}
