package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podwright/podwright/runtime/process"
)

// The groups of commands in the help.
const (
	groupAgent = "agent"
	groupAsk   = "ask"
)

const rootHelp = `nodeagent runs pods on this machine, without a cluster, and shows what becomes of them.

  nodeagent run --manifests DIR       run the pods of a folder of manifests
  nodeagent pods                      what the running agent has, in another terminal
  nodeagent explain POD               where a pod stands, and what it waits for

Commands find the agent by its folder (--root), by an address (--listen), or by its configuration
(--config, or the variable NODEAGENT_CONFIG). A POD is NAME or NAMESPACE/NAME, of which the node's name at its end may be left out,
or the beginning of its UID.

Exit codes: 0 all is well, 1 something is not, 2 the command line is wrong, 3 the agent cannot be reached
(version without -o then ends with 0), 4 there is no such pod or container, or no page, or no record.`

// newCommand returns the command line. Flags without a command belong to run.
func newCommand(supervisor process.Supervisor) *cobra.Command {
	root := newRun("nodeagent", supervisor)
	root.Short, root.Long = "a small node agent", rootHelp
	root.Args = unknownCommand
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return exit{codeUsage, fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	ofCommand := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		if c != root { // what cobra adds, such as completion
			return ofCommand(c)
		}
		return rootUsage(c)
	})
	root.AddGroup(&cobra.Group{ID: groupAgent, Title: "The agent:"}, &cobra.Group{ID: groupAsk, Title: "Ask the running agent:"})
	runs := newRun("run", supervisor)
	runs.Short, runs.GroupID = "run pods until a signal or a drain ends it", groupAgent
	checkpoint := newCheckpoint()
	checkpoint.GroupID = groupAgent
	for _, c := range []*cobra.Command{runs, checkpoint} {
		c.SetUsageFunc(ofCommand)
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{newPods(), newExplain(), newEvents(), newLogs(), newExec(), newRestart(), newEvict(), newDrain(), newProblems(), newCleanup(), newWeb(), newVersion()} {
		c.GroupID = groupAsk
		c.SetUsageFunc(ofCommand)
		root.AddCommand(c)
	}
	return root
}

// rootUsage omits the flags of run, which are many. It is not a cobra template: a program that
// executes templates links every method of its types, because a template may name any of them.
func rootUsage(c *cobra.Command) error {
	name := c.CommandPath()
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %[1]s COMMAND [flags]\n  %[1]s [flags of run]\n", name)
	list := func(title string, shown func(*cobra.Command) bool) {
		b.WriteString("\n" + title)
		for _, sub := range c.Commands() {
			if shown(sub) {
				fmt.Fprintf(&b, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
		b.WriteByte('\n')
	}
	for _, group := range c.Groups() {
		list(group.Title, func(sub *cobra.Command) bool { return sub.GroupID == group.ID && sub.IsAvailableCommand() })
	}
	list("Others:", func(sub *cobra.Command) bool {
		return sub.GroupID == "" && (sub.IsAvailableCommand() || sub.Name() == "help")
	})
	fmt.Fprintf(&b, "\n%[1]s COMMAND --help says more; %[1]s run --help lists the flags of the agent.\n", name)
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// unknownCommand refuses an unknown command, and suggests those with a similar spelling.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("there is no command %q", args[0])
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return exit{codeUsage, errors.New(text + "; see nodeagent --help")}
}

// exactly refuses any other number of arguments; what describes them.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch len(args) {
		case n:
			return nil
		case 0:
			return exit{codeUsage, fmt.Errorf("want %s; see %s --help", what, c.CommandPath())}
		}
		return exit{codeUsage, fmt.Errorf("want %s, got %q; see %s --help", what, args, c.CommandPath())}
	}
}

// newRun is the agent itself. It has no group, and is not hidden.
func newRun(name string, supervisor process.Supervisor) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: name, Long: runHelp, Args: exactly(0, "no arguments"), DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(c.Flags()); err != nil {
				return exit{codeUsage, err}
			}
			if o.validate != "" {
				return validate(c.Context(), o, c.OutOrStdout())
			}
			return serve(o, supervisor, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.register(c.Flags())
	return c
}

const runHelp = `run runs pods until a signal or a drain ends it; the pods go on without it unless there is --drain.
A second signal ends it at once; those within a second of the first are the same request.

While it runs, its socket has /pods, /explain/NAMESPACE/NAME, /events, /logs/NAMESPACE/NAME/CONTAINER, /problems,
/healthz, /metrics, /version and /cleanup/plan:
  curl --unix-socket ROOT/nodeagent.sock http://localhost/pods
Values that may be secret are not shown. --listen has it over TCP too, with a token.

Each flag is a field of the YAML file of --config; the command line wins.`
