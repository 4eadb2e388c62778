//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// shown is an output that can be read while it is written.
type shown struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func script(text string) []string { return []string{"/bin/sh", "-c", text} }

// Input, its end alone, both outputs and the exit code arrive (spec/runtime.md 27.2).
func TestExecStream(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		r := newRuntime(t, supervisor)
		id := runContainer(t, r, shell("sleep 1000"))
		input := strings.Repeat("0123456789abcdef", 100_000)
		var stdout, stderr shown
		err := r.ExecStream(t.Context(), id, script("cat; echo done >&2; exit 3"),
			cri.Streams{Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr})
		var exit *runtime.ExitError
		if !errors.As(err, &exit) || exit.Code != 3 {
			t.Errorf("%v, want exit code 3", err)
		}
		if stdout.String() != input || stderr.String() != "done\n" {
			t.Errorf("%d bytes of %d, stderr %q", len(stdout.String()), len(input), stderr.String())
		}
		if err := r.ExecStream(t.Context(), id, script("cat; echo dropped"), cri.Streams{}); err != nil {
			t.Errorf("without ends: %v", err)
		}
		// A command that does not read its input, and an input that never ends, do not hold it.
		never, _ := io.Pipe()
		defer never.Close()
		if err := r.ExecStream(t.Context(), id, script("exit 0"), cri.Streams{Stdin: never}); err != nil {
			t.Errorf("with an input that is not read: %v", err)
		}
	})
}

// A terminal: it is one, controls the session, echoes, has the sizes it is given and one output; a
// character ends its input.
func TestExecStreamTerminal(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	id := runContainer(t, r, shell("sleep 1000"))
	in, typed := io.Pipe()
	defer typed.Close()
	sizes := make(chan cri.TerminalSize)
	var stdout shown
	done := make(chan error, 1)
	go func() {
		done <- r.ExecStream(t.Context(), id, script(`test -t 0 -a -t 1 -a -t 2 && echo terminal $TERM; : </dev/tty && echo controls
while read x; do echo "read $x" >&2; stty size; done; echo end; exit 4`), cri.Streams{Stdin: in, Stdout: &stdout, TTY: true, Resize: sizes})
	}()
	said := func(want string) {
		t.Helper()
		patience.Until(t, "it says "+want, func() bool { return strings.Contains(stdout.String(), want) })
	}
	said("terminal xterm\r\n")
	said("controls\r\n")
	types := func(text string) {
		t.Helper()
		if _, err := io.WriteString(typed, text); err != nil {
			t.Fatal(err)
		}
	}
	types("hello\n")
	said("hello\r\n") // echoed
	said("read hello\r\n")
	// Taking a size and setting it are two steps: the command looks until it has it.
	sizes <- cri.TerminalSize{Width: 120, Height: 50}
	patience.Until(t, "it has its size", func() bool {
		types("size\n")
		return strings.Contains(stdout.String(), "50 120\r\n")
	})
	must(t, typed.Close())
	var exit *runtime.ExitError
	if err := <-done; !errors.As(err, &exit) || exit.Code != 4 {
		t.Errorf("%v, want exit code 4; %q", err, stdout.String())
	}
	said("end\r\n")
}

// The end of the caller and of the container kill the command and all it started; what cannot be
// run says why.
func TestExecStreamEnds(t *testing.T) {
	eachMode(t, func(t *testing.T, supervisor Supervisor) {
		for name, end := range map[string]func(r *Runtime, id string, cancel context.CancelFunc) error{
			"caller": func(_ *Runtime, _ string, cancel context.CancelFunc) error { cancel(); return nil },
			"container": func(r *Runtime, id string, _ context.CancelFunc) error {
				return r.StopContainer(context.Background(), id, 0)
			},
		} {
			for _, tty := range []bool{false, true} {
				r := newRuntime(t, supervisor)
				id := runContainer(t, r, shell("sleep 1000"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var stdout shown
				done := make(chan error, 1)
				go func() {
					done <- r.ExecStream(ctx, id, script("trap '' TERM HUP; sleep 1000 & echo pid $! ok; wait; sleep 1000"), cri.Streams{Stdout: &stdout, TTY: tty})
				}()
				patience.Until(t, "the command is up", func() bool { return strings.Contains(stdout.String(), "ok") })
				child, err := osproc.Identify(atoi(t, strings.Fields(stdout.String())[1]))
				must(t, err)
				must(t, end(r, id, cancel))
				want := map[string]error{"caller": runtime.ErrCanceled, "container": runtime.ErrFailedPrecondition}[name]
				if err := <-done; cri.Class(err) != want {
					t.Errorf("%s, terminal %v: %v, want %v", name, tty, err, want)
				}
				patience.Until(t, "all it started is gone", func() bool { return gone(child) })
			}
		}
	})
}

// A killed command whose client takes no output leaves no zombie until the client goes on, which may take hours.
func TestStuckClientKeepsNoZombie(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	id := runContainer(t, r, shell("sleep 1000"))
	client, pidFile := &stuck{begun: make(chan struct{}), release: make(chan struct{})}, filepath.Join(t.TempDir(), "pid")
	release := sync.OnceFunc(func() { close(client.release) })
	t.Cleanup(release)
	done := make(chan error, 1)
	go func() {
		done <- r.ExecStream(context.Background(), id, script("echo $$ > "+pidFile+"; echo; exec sleep 1000"), cri.Streams{Stdout: client})
	}()
	<-client.begun
	pid := strings.TrimSpace(readFile(t, pidFile))
	must(t, r.StopContainer(t.Context(), id, 0))
	patience.Until(t, "the command is reaped", func() bool {
		_, err := os.Stat("/proc/" + pid)
		return errors.Is(err, os.ErrNotExist)
	})
	release()
	if err := <-done; cri.Class(err) != runtime.ErrFailedPrecondition {
		t.Error(err)
	}
}

func TestExecStreamRefused(t *testing.T) {
	r := newRuntime(t, Supervisor{})
	id := runContainer(t, r, shell("sleep 1000"))
	for name, tc := range map[string]struct {
		id   string
		cmd  []string
		want error
	}{
		"unknown container": {"other", script("true"), runtime.ErrNotFound},
		"no command":        {id, nil, runtime.ErrInvalid},
		"no such command":   {id, []string{"no-such-command"}, nil},
	} {
		if err := r.ExecStream(t.Context(), tc.id, tc.cmd, cri.Streams{}); err == nil || cri.Class(err) != tc.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.AttachStream(t.Context(), id, cri.Streams{}); cri.Class(err) != runtime.ErrUnimplemented || !strings.Contains(err.Error(), "logs or exec") {
		t.Errorf("attach: %v", err)
	}
	must(t, r.StopContainer(t.Context(), id, 0))
	if err := r.ExecStream(t.Context(), id, script("true"), cri.Streams{}); cri.Class(err) != runtime.ErrFailedPrecondition {
		t.Errorf("ended container: %v", err)
	}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}
