package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/podwright/podwright/examples/nodeagent/internal/execstream"
	"github.com/podwright/podwright/runtime/cri"
)

// execCommand is "nodeagent exec".
type execCommand struct {
	reach
	podArgument
	container  string
	stdin, tty bool
}

func newExec() *cobra.Command {
	var e execCommand
	c := &cobra.Command{
		Use: "exec POD [-c CONTAINER] [-i] [-t] [flags] -- COMMAND [ARGUMENT...]", DisableFlagsInUseLine: true, Short: "run a command in a running container",
		Long: `exec runs a command in a running container, and ends with its exit code. If this command ends first, the process runtime kills the one in the
container; with a CRI runtime that one may go on until it or its container ends.`,
		Example: `  nodeagent exec clock -- date
  nodeagent exec clock -it -- sh`,
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return exit{codeUsage, errors.New("want one pod, then --, then a command; see nodeagent exec --help")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return e.run(c, args[0], args[1:]) },
	}
	e.reach.register(c.Flags())
	e.podArgument.register(c, &e.reach)
	c.Flags().StringVarP(&e.container, "container", "c", "", "which one; needed if there are several, unless the annotation "+defaultContainer+" names one")
	c.Flags().BoolVarP(&e.stdin, "stdin", "i", false, "pass on what is typed, or comes through a pipe")
	c.Flags().BoolVarP(&e.tty, "tty", "t", false, "give the command a terminal")
	return c
}

func (e *execCommand) run(c *cobra.Command, pod string, command []string) error {
	more := []string{}
	if e.container != "" {
		more = append(more, e.container)
	}
	path, err := e.path("/exec", pod, more...)
	if err != nil {
		return err
	}
	// A terminal hangs up at the end of its input, which a pipe reaches at once: on containerd the command is killed before it has written anything.
	if e.tty && e.stdin && !isTerminal(c.InOrStdin()) {
		e.tty = false
		_, _ = fmt.Fprintln(c.ErrOrStderr(), "nodeagent: the input is no terminal, so the command gets none") // as kubectl does
	}
	api, err := e.open(c.Flags())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	conn, err := api.dialExec(ctx, path, url.Values{"command": command}, e.stdin, e.tty)
	if err != nil {
		return err
	}
	s := cri.Streams{Stdout: c.OutOrStdout(), Stderr: c.ErrOrStderr(), TTY: e.tty}
	if e.stdin {
		s.Stdin = c.InOrStdin()
	}
	if e.tty {
		restore, sizes, err := takeTerminal(ctx, s)
		if err != nil {
			return errors.Join(err, conn.Close())
		}
		defer restore()
		s.Resize = sizes
	}
	alive, cancel := context.WithCancelCause(ctx)
	defer api.whileAlive(alive, cancel)()
	err = execstream.Run(alive, conn, s)
	if end, ok := errors.AsType[execstream.Exit](err); ok {
		return exit{code: end.Code}
	}
	switch {
	case ctx.Err() != nil:
		return exit{codeFailed, errors.New("interrupted")}
	case errors.Is(err, errHangs):
		return api.unreachable(err)
	case errors.Is(err, execstream.ErrCutOff):
		return exit{codeUnreachable, fmt.Errorf("the agent at %s has ended, or has given up a client that read nothing: %w", api.address, err)}
	}
	return err
}

// takeTerminal passes every key on as it is, even if the output goes to a file, and reports the
// terminal's sizes. Without a terminal it does nothing.
func takeTerminal(ctx context.Context, s cri.Streams) (restore func(), sizes <-chan cri.TerminalSize, err error) {
	put, sized := func() {}, -1
	if in, ok := s.Stdin.(*os.File); ok && isTerminal(in) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return nil, nil, fmt.Errorf("the terminal: %w", err)
		}
		put = func() { _ = term.Restore(int(in.Fd()), before) } // there is nowhere to report it
		sized = int(in.Fd())
	}
	if out, ok := fileOf(s.Stdout); ok && term.IsTerminal(int(out.Fd())) {
		sized = int(out.Fd())
	}
	if sized < 0 {
		return put, nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	to, ended := make(chan cri.TerminalSize), make(chan struct{})
	go func() {
		defer close(ended)
		defer signal.Stop(changed)
		tellSizes(ctx, sized, changed, to)
	}()
	return func() { cancel(); <-ended; put() }, to, nil
}

func isTerminal(from io.Reader) bool {
	f, ok := from.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// tellSizes sends the size of a terminal now, and after each change.
func tellSizes(ctx context.Context, fd int, changed <-chan os.Signal, to chan<- cri.TerminalSize) {
	for {
		if width, height, err := term.GetSize(fd); err == nil {
			select {
			case to <- cri.TerminalSize{Width: uint16(min(width, 1<<16-1)), Height: uint16(min(height, 1<<16-1))}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
