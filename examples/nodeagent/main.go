// Command nodeagent is a small node agent: it runs the pods described by a folder
// of manifests on an embedded process runtime or on any CRI runtime, shows them
// as a live table, and answers questions over HTTP on a socket of its own.
//
//	nodeagent --manifests DIR [--objects DIR] [--runtime process|unix:///run/containerd/containerd.sock]
//	nodeagent --manifests DIR --run-once
//	nodeagent checkpoint list|show UID [--root DIR]
//	nodeagent cleanup --plan [-o json]
//
// With --run-once it ends when each pod has ended, is ready (if it restarts always) or cannot
// run, and prints what became of them: code 0 if all is well, 1 if a pod failed or cannot run, or a manifest
// cannot be read, 2 for a wrong command line.
//
// The third form shows what is on the disk of the pods, whether the agent runs or
// not; the fourth asks the running agent what it would clean up now, and by which rule
// the rest stays.
//
// SIGTERM or SIGINT ends it and leaves the pods running (or stops them first, with
// --drain); a second signal ends it at once. A drain ends with code 0 once all pods are
// stopped; what is left of pods that an unreadable manifest may describe is kept, with a
// warning in the log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

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
	if len(args) > 0 && args[0] == "checkpoint" {
		return checkpoints(args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "cleanup" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		return cleanupCommand(ctx, args[1:], stdout, stderr)
	}
	options, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "nodeagent:", printableLines(err.Error()))
		return 2
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	agent, err := newAgent(ctx, options, supervisor, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "nodeagent:", printableLines(err.Error()))
		return 1
	}
	err = agent.run(ctx, signals)
	if told := agent.tell(stdout); err == nil {
		err = told
	}
	if err != nil {
		fmt.Fprintln(stderr, "nodeagent:", printableLines(err.Error()))
		return 1
	}
	return 0
}
