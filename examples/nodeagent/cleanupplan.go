package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/podwright/podwright/cleanup"
)

// planTimeout bounds one question to the agent.
const planTimeout = 30 * time.Second

// cleanupCommand is "nodeagent cleanup --plan": it asks the running agent what
// housekeeping would do now, and by which rule the rest stays. It changes nothing.
func cleanupCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("nodeagent cleanup", flag.ContinueOnError)
	flags.SetOutput(stderr)
	plan := flags.Bool("plan", false, "show what would be removed, killed or restarted now, and the rule behind what stays; required")
	format := flags.String("o", "table", "table or json")
	root := flags.String("root", defaultRoot(), "the running agent's folder, with its socket")
	listen := flags.String("listen", "", "the running agent's --listen (default unix:ROOT/nodeagent.sock)")
	tokenFile := flags.String("listen-token-file", "", "file with the token, for HOST:PORT (default ROOT/nodeagent.token)")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case !*plan || flags.NArg() > 0 || *format != "table" && *format != "json":
		fmt.Fprintln(stderr, "nodeagent cleanup: use nodeagent cleanup --plan [-o table|json] [--root DIR] [--listen ADDRESS]; the agent itself cleans up all the time")
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	api, err := openClient(*root, *listen, *tokenFile)
	if err != nil {
		fmt.Fprintf(stderr, "nodeagent cleanup: %s\n", printableLines(err.Error()))
		return 1
	}
	if err := api.showPlan(ctx, *format, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "nodeagent cleanup: %v; does the agent run with --listen %s?\n", err, api.address)
		return 1
	}
	return 0
}

// showPlan copies the agent's answer.
func (c *apiClient) showPlan(ctx context.Context, format string, stdout, stderr io.Writer) error {
	response, err := c.get(ctx, "/cleanup/plan?o="+format)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the agent answers %s", response.Status)
	}
	if problem := response.Header.Get(problemHeader); problem != "" {
		fmt.Fprintln(stderr, "the plan is incomplete:", printable(problem))
	}
	_, err = io.Copy(stdout, response.Body)
	return err
}

// problemHeader carries what a plan lacks.
const problemHeader = "X-Podwright-Problem"

// cleanupPlan answers with the plan of housekeeping, as a table or with ?o=json.
func (a *agent) cleanupPlan(w http.ResponseWriter, r *http.Request) {
	plan, err := a.engine.CleanupPlan(r.Context())
	if err != nil {
		w.Header().Set(problemHeader, strings.Join(strings.Fields(err.Error()), " "))
	}
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
