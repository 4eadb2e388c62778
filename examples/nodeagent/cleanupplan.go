package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podwright/podwright/cleanup"
)

// newCleanup is "nodeagent cleanup --plan": it asks the running agent what housekeeping would do
// now, and which rules keep the rest. It changes nothing.
func newCleanup() *cobra.Command {
	var r reach
	var f format
	var plan bool
	c := &cobra.Command{
		Use: "cleanup --plan", Short: "what would be cleaned up now, and the rule behind what stays",
		Long: "cleanup --plan shows what would be removed, killed or restarted now, and the rule behind what stays. It changes nothing: the agent itself cleans up all the time.",
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if !plan {
				return exit{codeUsage, errors.New("use nodeagent cleanup --plan; the agent itself cleans up all the time")}
			}
			return showPlan(c, &r, f)
		},
	}
	c.Flags().BoolVar(&plan, "plan", false, "show the plan; required")
	r.register(c.Flags())
	f.register(c, "table", "json", "yaml")
	return c
}

// showPlan prints the agent's answer.
func showPlan(c *cobra.Command, r *reach, f format) error {
	api, err := r.open(c.Flags())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	wanted := "json"
	if f == "" || f == "table" {
		wanted = "table"
	}
	ctx, cancel := context.WithTimeout(ctx, api.patience)
	defer cancel()
	response, err := api.open(ctx, http.MethodGet, "/cleanup/plan?o="+wanted)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := api.whole(response)
	if err != nil {
		return err
	}
	err = f.write(c.OutOrStdout(), answer)
	if problem := response.Header.Get(problemHeader); err == nil && problem != "" {
		err = errors.New("the plan is incomplete: " + printable(problem))
	}
	return err
}

// problemHeader says what a plan lacks.
const problemHeader = "X-Podwright-Problem"

// cleanupPlan answers with the plan of housekeeping, as a table or with ?o=json.
func (a *agent) cleanupPlan(w http.ResponseWriter, r *http.Request) {
	plan, err := a.engine.CleanupPlan(r.Context())
	if err != nil {
		w.Header().Set(problemHeader, strings.Join(strings.Fields(err.Error()), " "))
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTimeout)) // a runtime that hangs has taken some of it
	if r.FormValue("o") == "json" {
		if plan.Actions == nil {
			plan.Actions = []cleanup.Action{}
		}
		a.write(w, http.StatusOK, plan)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := plan.WriteTable(w); err != nil {
		a.log.Debug("HTTP client went away", "error", err.Error())
	}
}
