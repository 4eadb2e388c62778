// Command nodeagent is a small node agent: it runs the pods described by a folder of manifests on
// an embedded process runtime or on any CRI runtime, shows them as a live table, and answers
// requests on its own socket. The same program is the client.
//
//	nodeagent run --manifests DIR [--objects DIR] [--runtime process|unix:///run/containerd/containerd.sock]
//	nodeagent run --manifests DIR --run-once
//	nodeagent pods|explain|events|logs|exec|restart|evict|drain|problems|cleanup|version
//	nodeagent checkpoint list|show UID
//
// Flags without a command belong to run. nodeagent --help lists the commands, and nodeagent COMMAND
// --help says what each does.
//
// Exit codes: 0 success, 1 failure (a command failed; there are problems; a pod of --run-once
// failed), 2 the command line is wrong, 3 the agent cannot be reached, 4 there is no such pod,
// container, page or record; exec ends with the code of its command.
//
// SIGTERM or SIGINT ends the agent and leaves the pods running (or stops them first, with
// --drain); a second signal, a second or more after the first, ends it at once. A drain ends with code 0 once all pods are
// stopped; what is left of pods that an unreadable manifest may describe is kept, with a
// warning in the log.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/podwright/podwright/examples/internal/endsignal"
	"github.com/podwright/podwright/runtime/process"
)

func main() {
	supervisor, done := process.Shim()
	if done {
		return
	}
	os.Exit(run(os.Args[1:], supervisor, os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code.
func run(args []string, supervisor process.Supervisor, stdout, stderr io.Writer) int {
	command := newCommand(supervisor)
	command.SetArgs(args)
	out := &output{to: stdout}
	command.SetOut(out)
	command.SetErr(stderr)
	err := command.ExecuteContext(context.Background())
	// A command that could not print has failed for that reason, whatever it makes of it.
	if failed := out.err(); failed != nil && (err == nil || err.Error() == "" || strings.Contains(err.Error(), errors.Unwrap(failed).Error())) {
		err = failed
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintln(stderr, "nodeagent:", printableLines(err.Error()))
	}
	return exitCode(err)
}

// The exit codes other than 0.
const (
	codeFailed      = 1
	codeUsage       = 2
	codeUnreachable = 3
	codeNotFound    = 4
)

// exit is an error with its own exit code; one without text is reported by the code alone.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[exit](err); ok {
		return e.code
	}
	return codeFailed
}

// serve runs the agent until a signal, a drain or a failure ends it.
func serve(o options, supervisor process.Supervisor, stdout, stderr io.Writer) error {
	o.runtimeWork = max(4, 2*frugal()) // the engine's default for this many processors
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals, stop := endsignal.Notify()
	defer stop()

	agent, err := newAgent(ctx, o, supervisor, stdout, stderr)
	if err != nil {
		return err
	}
	err = agent.run(ctx, signals)
	if errors.Is(err, errSecondSignal) {
		return err // the report may not be complete
	}
	told := agent.unlessSignal(signals, func() error { return agent.tell(stdout) })
	if err == nil || errors.Is(told, errSecondSignal) {
		err = told
	}
	return err
}
