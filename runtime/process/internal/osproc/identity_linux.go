package osproc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Identity names a process uniquely, across restarts of the agent and of the machine.
type Identity struct {
	// PID is the process ID.
	PID int `json:"pid"`
	// StartTime is when the process started, in clock ticks since boot, as in
	// field 22 of /proc/<pid>/stat.
	StartTime uint64 `json:"startTime"`
	// BootID is the kernel's random ID of the boot the process belongs to.
	BootID string `json:"bootID"`
}

// IsZero reports whether i names no process.
func (i Identity) IsZero() bool { return i.PID == 0 }

// BootID returns the kernel's ID of the current boot.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot ID: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Identify returns the identity of the process that has pid now. The caller must
// know that pid cannot be reused meanwhile: the process is the caller or an
// unreaped child of it.
func Identify(pid int) (Identity, error) {
	boot, err := BootID()
	if err != nil {
		return Identity{}, err
	}
	s, err := readStat(pid)
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, StartTime: s.startTime, BootID: boot}, nil
}

// IsChild reports whether the process that i names exists, dead or alive, as a
// child of the calling process. If so, it stays so until the caller reaps it.
func (i Identity) IsChild() bool {
	boot, err := BootID()
	if err != nil || boot != i.BootID {
		return false
	}
	s, err := readStat(i.PID)
	return err == nil && s.startTime == i.StartTime && s.parent == os.Getpid()
}

// stat is the part of /proc/<pid>/stat that matters here.
type stat struct {
	pid, parent, group, session, threads int
	state                                byte
	startTime                            uint64
}

// dead reports whether the process has ended and only waits to be reaped. The state is that of the main thread: a
// program may end it and go on in others.
func (s stat) dead() bool { return s.state == 'X' || s.state == 'Z' && s.threads <= 1 }

// readStat reads the stat of a process; [os.ErrProcessDone] if there is none.
func readStat(pid int) (stat, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return stat{}, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	case err != nil:
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	s, err := parseStat(data)
	if err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}

// parseStat parses a stat line. The command name, in parentheses, may itself
// hold spaces and parentheses: fields are counted from the last one.
func parseStat(data []byte) (stat, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("stat line %q has no command", data)
	}
	// After the command come state (field 3), ppid, pgrp, session, …, num_threads (20), …, starttime (22).
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("stat line %q has %d fields after the command, want 20", data, len(fields))
	}
	s := stat{state: fields[0][0]}
	var err error
	number := func(text string) int {
		n, e := strconv.Atoi(text)
		err = errors.Join(err, e)
		return n
	}
	s.pid = number(strings.TrimSpace(string(data[:open])))
	s.parent, s.group, s.session, s.threads = number(fields[1]), number(fields[2]), number(fields[3]), number(fields[17])
	start, e := strconv.ParseUint(fields[19], 10, 64)
	s.startTime = start
	if err = errors.Join(err, e); err != nil {
		return stat{}, fmt.Errorf("stat line: %w", err)
	}
	return s, nil
}

// all returns the stat of every process it can read. Processes that end meanwhile, and those that
// the caller may not look at (hidepid), are left out; any other failure is in the error.
func all() ([]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []stat
	var errs []error
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		switch s, err := readStat(pid); {
		case err == nil:
			out = append(out, s)
		case !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, fs.ErrPermission):
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

// FindByEnv returns the session leaders whose initial environment holds one of the
// values of the variable and not the variable without, by value; if several have the
// same value, the oldest. Processes whose environment may not be read are left out.
func FindByEnv(variable, without string, values map[string]bool) (map[string]Identity, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	processes, err := all()
	if err != nil {
		return nil, err
	}
	found := map[string]Identity{}
	for _, s := range processes {
		if s.dead() || s.session != s.pid {
			continue
		}
		env, err := readEnv(s.pid)
		if err != nil {
			return nil, err
		}
		value, ok := lookup(env, variable)
		if _, excluded := lookup(env, without); !ok || excluded || !values[value] {
			continue
		}
		if known, ok := found[value]; !ok || s.startTime < known.StartTime {
			found[value] = Identity{PID: s.pid, StartTime: s.startTime, BootID: boot}
		}
	}
	return found, nil
}

// readEnv returns the environment that a process began with. It is empty if the process has
// ended, is just starting another program, or may not be looked at.
func readEnv(pid int) ([]byte, error) {
	env, err := readProc(pid, "environ")
	if err != nil {
		return nil, fmt.Errorf("environment of process %d: %w", pid, err)
	}
	return env, nil
}

// readArgs returns the arguments of a process. There are none if it has ended or may not be looked at.
func readArgs(pid int) ([]string, error) {
	args, err := readProc(pid, "cmdline")
	if err != nil {
		return nil, fmt.Errorf("arguments of process %d: %w", pid, err)
	}
	return strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00"), nil
}

// readProc reads a file of a process. It is empty if the process has ended, or may not be looked at.
func readProc(pid int, name string) ([]byte, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	return data, err
}

// lookup returns the last value of the variable in an environment.
func lookup(env []byte, variable string) (value string, ok bool) {
	prefix := []byte(variable + "=")
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if v, has := bytes.CutPrefix(entry, prefix); has {
			value, ok = string(v), true
		}
	}
	return value, ok
}
