package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podworkers"
)

// drains are the requests to stop all pods and end.
type drains struct {
	asked chan struct{} // closed by the first request
	over  chan struct{} // closed when the outcome is known
	once  [2]sync.Once
	err   error // of the drain, once over is closed
}

func newDrains() *drains { return &drains{asked: make(chan struct{}), over: make(chan struct{})} }

func (d *drains) ask() { d.once[0].Do(func() { close(d.asked) }) }

func (d *drains) end(err error) { d.once[1].Do(func() { d.err = err; close(d.over) }) }

const (
	// maxTold bounds how many pods a line about waiting names.
	maxTold = 10
	// maxToldError bounds the bytes of a pod's error in it.
	maxToldError = 300
)

// waitingFor says what the agent's end waits for: pods, if they are being stopped, and whatever
// holds up the engine's parts.
func (a *agent) waitingFor(drain bool) (all []string) {
	if drain {
		pods := a.engine.Pods()
		for i := range pods {
			e, _ := a.engine.Explain(pods[i].UID)
			if what := stopWaitsFor(pods[i].Status.Phase, e.Worker); what != "" {
				all = append(all, fmt.Sprintf("pod %s/%s: %s", pods[i].Namespace, pods[i].Name, what))
			}
		}
	}
	if more := len(all) - maxTold; more > 0 {
		all = append(all[:maxTold], fmt.Sprintf("%d more pods", more))
	}
	for _, p := range a.engine.Problems() {
		if p.Kind == "stop" {
			all = append(all, p.Name+": "+p.Waits)
		}
	}
	if len(all) == 0 {
		all = append(all, "the engine's parts to end")
	}
	return all
}

// stopWaitsFor says what the stop of a pod waits for, "" if all of the pod has stopped.
func stopWaitsFor(phase v1.PodPhase, worker *podworkers.Explanation) string {
	switch {
	case phase == v1.PodSucceeded, phase == v1.PodFailed, worker != nil && worker.State.Finished():
		return ""
	case worker == nil, !worker.TerminationRequested: // it waits for something about its running, not its stop
		return "to be stopped"
	}
	waits := plainly(worker.WaitingFor)
	if worker.LastError != "" {
		waits += ", after " + cut(worker.LastError, maxToldError)
	}
	return waits
}

// drainStep is one line of the answer to POST /drain.
type drainStep struct {
	Waiting []string `json:"waiting,omitempty"`
	Done    bool     `json:"done,omitempty"`
	// Kept is what remains of stopped pods, because a source or the host may want it.
	Kept  string `json:"kept,omitempty"`
	Error string `json:"error,omitempty"`
}

// drain stops all pods and then the agent, even if the client leaves, and reports progress.
func (a *agent) drain(w http.ResponseWriter, r *http.Request) {
	if a.once != nil && !a.options.drain {
		a.failure(w, refusal{http.StatusConflict, "this agent was started with --run-once and without --drain, so that its end stops no pod: end it with a signal, and drain the next one"})
		return
	}
	a.streamIn(a.draining, w, r, "application/json", func(ctx context.Context, out *streamWriter) error {
		a.drains.ask()
		tick := time.NewTicker(watchPeriod)
		defer tick.Stop()
		lines := json.NewEncoder(out)
		for told := (drainStep{}); ; {
			if step := (drainStep{Waiting: a.waitingFor(true)}); !slices.Equal(step.Waiting, told.Waiting) {
				told = step
				if err := errors.Join(lines.Encode(step), out.flush()); err != nil {
					return err
				}
			}
			select {
			case <-tick.C:
			case <-a.drains.over:
				return lines.Encode(drainEnd(a.drains.err))
			case <-ctx.Done():
				return lines.Encode(a.drains.cutOff())
			}
		}
	})
}

// cutOff is the last line for a client whose answer ends: right after the drain the agent ends, too, and with it every answer.
func (d *drains) cutOff() drainStep {
	select {
	case <-d.over:
		return drainEnd(d.err)
	default:
		return drainStep{Error: "the agent has ended before all pods were stopped"}
	}
}

func drainEnd(err error) drainStep {
	switch {
	case err == nil:
		return drainStep{Done: true}
	case errors.Is(err, podwright.ErrKept):
		return drainStep{Done: true, Kept: err.Error()}
	}
	return drainStep{Error: err.Error()}
}

// newDrain is "nodeagent drain".
func newDrain() *cobra.Command {
	var r reach
	var yes bool
	c := &cobra.Command{
		Use: "drain --yes", Short: "stop all pods, each with its own grace, then the agent",
		Long: "drain stops all pods, each with its own grace period, and then the agent; it returns when that is done. Pods start again when the agent is started the next time. Without this command, once it is begun, the drain goes on.",
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if !yes {
				return exit{codeUsage, errors.New("this stops every pod of the node, and the agent; say --yes if it is meant")}
			}
			return drain(c, &r)
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "it is meant; required")
	r.register(c.Flags())
	return c
}

func drain(c *cobra.Command, r *reach) error {
	api, err := r.open(c.Flags())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	response, err := api.open(ctx, http.MethodPost, "/drain")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	out := c.OutOrStdout()
	for lines := json.NewDecoder(response.Body); ; {
		var step drainStep
		if err := lines.Decode(&step); ctx.Err() != nil {
			return errors.New("the drain goes on without this command")
		} else if err != nil {
			return api.brokenOff(err)
		}
		switch {
		case step.Error != "":
			return errors.New(step.Error)
		case step.Done:
			fmt.Fprintln(out, "All pods are stopped, and the agent ends.")
			if step.Kept != "" {
				fmt.Fprintln(out, printable(step.Kept))
			}
			return nil
		}
		fmt.Fprintln(out, printable("waiting for "+strings.Join(step.Waiting, "; ")))
	}
}
