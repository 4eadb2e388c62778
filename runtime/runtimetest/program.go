package runtimetest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Program says what a container, or a command that ExecSync runs in it, does. [Subject.Command] turns it into
// an argv. The zero value exits immediately with code 0.
//
// A program does, in this order: set its SIGTERM behaviour, print Stdout,
// Stderr, the variables of Env and the working directory, then run for Run, then
// exit with Exit.
type Program struct {
	// Stdout and Stderr are lines to print, each followed by a newline. They
	// are single lines without NUL.
	Stdout []string
	Stderr []string
	// Unterminated is printed to stdout after all lines, without a newline.
	Unterminated string
	// Env names environment variables whose values are printed to stdout, one
	// line each; an unset variable is an empty line.
	Env []string
	// WorkingDir prints the working directory to stdout as a line.
	WorkingDir bool
	// Repeat is a line printed to stdout again and again while the program
	// runs, about ten times a second. Empty: nothing.
	Repeat string

	// Run is how long to run before the exit. 0 exits at once, [Forever] runs
	// until a signal ends it.
	Run time.Duration
	// Exit is the exit code after Run, 0 to 255.
	Exit int

	// IgnoreTERM makes the program ignore SIGTERM. Otherwise SIGTERM ends it
	// with code OnTERM. Neither matters for a program with Run 0.
	IgnoreTERM bool
	// OnTERM is the exit code on SIGTERM, 0 to 255.
	OnTERM int
}

// Forever as Program.Run means to run until a signal ends the program.
const Forever time.Duration = -1

// Shell returns a Subject.Command that runs programs with a POSIX shell:
// argv is how to call it ("/bin/sh", or "/bin/busybox", "sh"). The shell needs
// printf, pwd, sleep with fractions, trap, kill and wait.
func Shell(argv ...string) func(Program) []string {
	return func(p Program) []string {
		return append(append([]string(nil), argv...), "-c", p.script())
	}
}

// script renders the program for a POSIX shell. A process that is PID 1 of its
// namespace ignores SIGTERM unless it handles it, so the handler is always set;
// and a shell runs handlers only between commands, so the sleep is a background
// job the shell waits for. The job does not hold the output: runtimes wait for
// its end, and containerd keeps waiting after it has killed a command that ran over
// its timeout, but not the command's children. The handler kills the job by
// $! and with SIGKILL: the signal may come before the job is anything but a
// forked shell that still has the handler.
func (p Program) script() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if p.IgnoreTERM {
		line(`trap '' TERM`)
	} else {
		line(`trap 'kill -9 $! 2>/dev/null; exit %d' TERM`, p.OnTERM)
	}
	for _, s := range p.Stdout {
		line(`printf '%%s\n' %s`, quote(s))
	}
	for _, s := range p.Stderr {
		line(`printf '%%s\n' %s >&2`, quote(s))
	}
	for _, name := range p.Env {
		line(`printf '%%s\n' "${%s}"`, name)
	}
	if p.WorkingDir {
		line(`pwd`)
	}
	if p.Unterminated != "" {
		line(`printf '%%s' %s`, quote(p.Unterminated))
	}
	p.renderRun(line)
	line(`exit %d`, p.Exit)
	return b.String()
}

// renderRun renders the time between printing and exit.
func (p Program) renderRun(line func(format string, args ...any)) {
	seconds := strconv.FormatFloat(p.Run.Seconds(), 'f', 3, 64)
	switch {
	case p.Run == 0:
	case p.Repeat != "":
		pause := func() {
			line(`printf '%%s\n' %s`, quote(p.Repeat))
			line(`sleep 0.1 >&- 2>&- & wait $!`)
		}
		if p.Run < 0 {
			line(`while :; do`)
		} else {
			line(`left=%d`, max(1, p.Run/(100*time.Millisecond)))
			line(`while [ $left -gt 0 ]; do left=$((left-1))`)
		}
		pause()
		line(`done`)
	case p.Run < 0:
		// In a loop: not every sleep accepts infinity.
		line(`while :; do sleep 3600 >&- 2>&- & wait $!; done`)
	default:
		line(`sleep %s >&- 2>&- & wait $!`, seconds)
	}
}

// quote makes s one word of a POSIX shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
