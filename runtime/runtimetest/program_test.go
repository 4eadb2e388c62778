package runtimetest_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podwright/podwright/runtime/runtimetest"
)

// shells are the ways to call a POSIX shell on this machine.
func shells(t *testing.T) map[string]func(runtimetest.Program) []string {
	t.Helper()
	found := map[string]func(runtimetest.Program) []string{}
	if path, err := exec.LookPath("sh"); err == nil {
		found["sh"] = runtimetest.Shell(path)
	}
	if path, err := exec.LookPath("busybox"); err == nil {
		found["busybox"] = runtimetest.Shell(path, "sh")
	}
	if len(found) == 0 {
		t.Skip("no POSIX shell here")
	}
	return found
}

// command prepares argv as a process group of its own, as containers are, so
// that what the shell started dies with it.
func command(t *testing.T, argv []string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// A program does in a shell what its fields say.
func TestShellOutputAndExit(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	for _, c := range []struct {
		name           string
		program        runtimetest.Program
		stdout, stderr string
		code           int
	}{
		{name: "zero"},
		{name: "exit", program: runtimetest.Program{Exit: 255}, code: 255},
		{name: "run and exit", program: runtimetest.Program{Run: 50 * time.Millisecond, Exit: 3}, code: 3},
		{
			name:    "streams",
			program: runtimetest.Program{Stdout: []string{"a", "", " b "}, Stderr: []string{"c"}},
			stdout:  "a\n\n b \n", stderr: "c\n",
		},
		{
			name:    "quoting",
			program: runtimetest.Program{Stdout: []string{`it's "$HOME" \n %s`, "-n"}},
			stdout:  "it's \"$HOME\" \\n %s\n-n\n",
		},
		{
			name:    "env and dir and rest",
			program: runtimetest.Program{Env: []string{"A", "UNSET"}, WorkingDir: true, Unterminated: "rest"},
			stdout:  "b  $c\n\n/\nrest",
		},
		{name: "long", program: runtimetest.Program{Stdout: []string{long}}, stdout: long + "\n"},
		{
			name:    "repeat",
			program: runtimetest.Program{Repeat: "tick", Run: 250 * time.Millisecond, Exit: 1},
			stdout:  "tick\ntick\n", code: 1,
		},
	} {
		for name, shell := range shells(t) {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				cmd := command(t, shell(c.program))
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				cmd.Env, cmd.Dir = []string{"A=b  $c", "PATH=" + os.Getenv("PATH")}, "/"
				err := cmd.Run()
				var exit *exec.ExitError
				if err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				if got := cmd.ProcessState.ExitCode(); got != c.code {
					t.Errorf("exit code %d, want %d", got, c.code)
				}
				if stdout.String() != c.stdout || stderr.String() != c.stderr {
					t.Errorf("stdout %.200q stderr %.200q, want %.200q %.200q", stdout.String(), stderr.String(), c.stdout, c.stderr)
				}
			})
		}
	}
}

// SIGTERM ends a program with its code, or not at all.
func TestShellSIGTERM(t *testing.T) {
	for _, c := range []struct {
		name    string
		program runtimetest.Program
		signal  syscall.Signal
		code    int // -1: killed
	}{
		{"handled", runtimetest.Program{Run: runtimetest.Forever, OnTERM: 23}, syscall.SIGTERM, 23},
		{"handled with code 0", runtimetest.Program{Run: time.Hour, Exit: 1}, syscall.SIGTERM, 0},
		{"handled while repeating", runtimetest.Program{Run: runtimetest.Forever, Repeat: "tick", OnTERM: 4}, syscall.SIGTERM, 4},
		{"ignored", runtimetest.Program{Run: 300 * time.Millisecond, IgnoreTERM: true, Exit: 9}, syscall.SIGTERM, 9},
		{"killed", runtimetest.Program{Run: runtimetest.Forever, IgnoreTERM: true}, syscall.SIGKILL, -1},
	} {
		for name, shell := range shells(t) {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				c.program.Stdout = []string{"ready"}
				cmd := command(t, shell(c.program))
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				out := bufio.NewReader(stdout)
				if _, err := out.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				target := cmd.Process.Pid
				if c.signal == syscall.SIGKILL {
					target = -target // as runtimes do: nothing of it survives
				}
				if err := syscall.Kill(target, c.signal); err != nil {
					t.Fatal(err)
				}
				// Ends when the shell and its sleep are gone: neither may
				// hold the pipe of a log.
				if _, err := io.Copy(io.Discard, out); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				if got := cmd.ProcessState.ExitCode(); got != c.code {
					t.Errorf("exit code %d, want %d", got, c.code)
				}
			})
		}
	}
}
