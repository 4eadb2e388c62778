package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/podwright/podwright/runonce"
)

// onceOptions are the part of the command line about running the pods once.
type onceOptions struct {
	once              bool
	limit, startLimit time.Duration
	restarts          int
	ready             time.Duration
	output            string
}

func (o *onceOptions) register(flags *pflag.FlagSet) {
	flags.BoolVar(&o.once, "run-once", false, "run the pods until each has ended, is ready (if it restarts always) or cannot run, then print what became of them and end: with code 0 if all is well, 1 if a pod failed or cannot run; pods that are ready go on, unless there is --drain")
	flags.DurationVar(&o.limit, "run-once-limit", 0, "with --run-once: end after this time, with code 1 (default: no limit)")
	flags.DurationVar(&o.startLimit, "run-once-start-limit", 10*time.Minute, "with --run-once: a pod cannot run if it waits this long, for an image, say, or for its readiness; the time in which a container of a job runs does not count; 0 means no limit")
	flags.IntVar(&o.restarts, "run-once-restarts", 6, "with --run-once: a pod cannot run if a container ends after so many restarts and would be restarted again; negative: no limit")
	flags.DurationVar(&o.ready, "run-once-min-ready", 5*time.Second, "with --run-once: how long the containers of a pod that restarts always must have been ready")
	flags.StringVar(&o.output, "run-once-output", "table", "with --run-once: table or json")
}

// complete checks the options.
func (o *onceOptions) complete() error {
	var problems []error
	for _, limit := range []struct {
		name  string
		value time.Duration
	}{{"limit", o.limit}, {"start-limit", o.startLimit}, {"min-ready", o.ready}} {
		if limit.value < 0 {
			problems = append(problems, fmt.Errorf("--run-once-%s %v is negative", limit.name, limit.value))
		}
	}
	if o.restarts == 0 {
		problems = append(problems, errors.New("--run-once-restarts 0: want at least 1, or -1 for no limit"))
	}
	if o.output != "table" && o.output != "json" {
		problems = append(problems, fmt.Errorf("--run-once-output %q: want table or json", o.output))
	}
	if !o.once && *o != (onceOptions{startLimit: 10 * time.Minute, restarts: 6, ready: 5 * time.Second, output: "table"}) {
		problems = append(problems, errors.New("the flags --run-once-... mean nothing without --run-once"))
	}
	return errors.Join(problems...)
}

// runner returns the runner that runs the pods once, nil if they run for good.
func (o *onceOptions) runner(drain bool) (*runonce.Runner, error) {
	if !o.once {
		return nil, nil
	}
	negative := func(d time.Duration) time.Duration { // the flags' 0 means none
		if d == 0 {
			return -1
		}
		return d
	}
	return runonce.New(runonce.Options{
		Limit: o.limit, StartLimit: negative(o.startLimit), MaxRestarts: o.restarts, MinReady: negative(o.ready), Drain: drain,
	})
}

// runEngine runs the engine until ctx ends or, with --run-once, until the pods are over.
func (a *agent) runEngine(ctx context.Context) error {
	if a.once == nil {
		return a.engine.Run(ctx)
	}
	report, err := a.once.Run(ctx, tellingDrain{a.engine, a.drains})
	a.report = &report
	return err
}

// tellingDrain is an engine that tells those who asked for a drain what became of it.
type tellingDrain struct {
	runonce.Engine
	drains *drains
}

func (t tellingDrain) Drain(ctx context.Context) error {
	err := t.Engine.Drain(ctx)
	t.drains.end(err)
	return err
}

// errPods says that something is wrong with the pods; the report has the details.
var errPods = errors.New("not every pod is as it should be")

// tell prints the report of a run, if there was one, and returns errPods unless all pods are well.
func (a *agent) tell(out io.Writer) error {
	if a.report == nil {
		return nil
	}
	text := strings.Join(onceTable(*a.report), "\n") + "\n"
	if a.options.once.output == "json" {
		encoded, err := json.MarshalIndent(a.report, "", "  ")
		if err != nil {
			return err
		}
		text = string(encoded) + "\n"
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if a.report.Err() != nil {
		return errPods
	}
	return nil
}

// onceTable renders a report.
func onceTable(r runonce.Report) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NAMESPACE\tNAME\tOUTCOME\tEXIT\tRESTARTS\tREASON")
	for i := range r.Pods {
		p := &r.Pods[i]
		codes, restarts := onceCodes(p)
		reason := p.Reason
		if p.Message != "" {
			reason = strings.TrimPrefix(reason+": "+p.Message, ": ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", printable(p.Namespace), printable(p.Name), p.Outcome, codes, restarts, printable(reason))
	}
	_ = w.Flush() // a strings.Builder never fails
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	if len(r.Pods) == 0 {
		lines = append(lines, "(no pods)")
	}
	for _, p := range r.Problems {
		lines = append(lines, "problem: "+printable(p.String()))
	}
	return lines
}

// onceCodes returns the exit codes of a pod's containers, "-" for those without one, and the sum of
// their restarts.
func onceCodes(p *runonce.Pod) (codes string, restarts int32) {
	var all []string
	for _, c := range p.Containers {
		code := "-"
		if c.ExitCode != nil {
			code = strconv.Itoa(int(*c.ExitCode))
		}
		all = append(all, code)
		restarts += c.Restarts
	}
	if len(all) == 0 {
		return "-", restarts
	}
	return strings.Join(all, ","), restarts
}
