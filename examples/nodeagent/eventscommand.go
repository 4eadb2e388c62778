package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
)

// eventsCommand is "nodeagent events".
type eventsCommand struct {
	reach
	format
	podArgument
	watch bool
}

func newEvents() *cobra.Command {
	var e eventsCommand
	c := &cobra.Command{
		Use: "events [POD]", Aliases: []string{"event", "ev"}, Short: "what has happened lately to the pods, or to one",
		Long: fmt.Sprintf("events shows the last %d events since the agent started.", keptEvents),
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exactly(1, "one pod, or none")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error { return e.run(c, args) },
	}
	e.reach.register(c.Flags())
	e.format.register(c, "json", "yaml")
	e.podArgument.register(c, &e.reach)
	c.Flags().BoolVarP(&e.watch, "watch", "w", false, "go on with each new one, until Ctrl-C; with -o json, one object per line")
	return c
}

func (e *eventsCommand) run(c *cobra.Command, args []string) error {
	if e.watch && e.format == "yaml" {
		return exit{codeUsage, fmt.Errorf("--watch and -o yaml do not go together; use -o json")}
	}
	if len(args) == 0 && c.Flags().Changed("namespace") {
		return exit{codeUsage, errors.New("--namespace needs a POD: without one, events shows those of all pods")}
	}
	query := url.Values{}
	if len(args) > 0 {
		if !strings.Contains(args[0], "/") {
			args[0] = e.namespace + "/" + args[0]
		}
		query.Set("pod", args[0])
	}
	if !e.watch && e.format != "" {
		return e.show(c, "/events?"+query.Encode(), e.format)
	}
	query.Set("watch", "true")
	if !e.watch {
		query.Del("watch")
	}
	api, err := e.open(c.Flags())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	if e.watch {
		return e.follow(ctx, api, "/events?"+query.Encode(), c.OutOrStdout())
	}
	answer, err := api.ask(ctx, http.MethodGet, "/events?"+query.Encode())
	if err != nil {
		return err
	}
	all, err := decode[[]event](answer)
	if err != nil {
		return err
	}
	g := eventGrid(c.OutOrStdout())
	for _, one := range all {
		g.add(one.row()...)
	}
	_, err = io.WriteString(c.OutOrStdout(), strings.Join(g.lines(), "\n")+"\n")
	return err
}

// follow prints the remembered events, and then each new one.
func (e *eventsCommand) follow(ctx context.Context, api *apiClient, path string, out io.Writer) error {
	response, err := api.open(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	seen, lines := eventGrid(out), json.NewDecoder(response.Body)
	for printed := 0; ; {
		var one event
		err := lines.Decode(&one)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C is how this ends
		case err != nil:
			return api.brokenOff(err)
		}
		if e.format == "json" {
			if err := json.NewEncoder(out).Encode(one); err != nil {
				return err
			}
			continue
		}
		seen.rows = seen.rows[:min(len(seen.rows), maxSeenRows)]
		seen.add(one.row()...)
		text := seen.lines()
		if printed > 0 {
			text = text[len(text)-1:]
		}
		printed++
		if _, err := io.WriteString(out, strings.Join(text, "\n")+"\n"); err != nil {
			return err
		}
	}
}

func eventGrid(out io.Writer) *grid {
	g := &grid{least: []int{8, 7, 10, 24}}
	if colours(out) {
		g.paint = statusColour
	}
	g.add("TIME", "TYPE", "REASON", "OBJECT", "MESSAGE")
	return g
}

func (e event) row() []string {
	if e.Missed > 0 {
		return []string{e.Time.Local().Format(time.TimeOnly), v1.EventTypeWarning, "Missed", "-", fmt.Sprintf("%d events were forgotten before they could be shown", e.Missed)}
	}
	object := e.Name
	if e.Kind == "node" {
		object = "node " + object
	}
	if container := laneOf(e.Part); container != "" {
		object += " " + container
	}
	return []string{e.Time.Local().Format(time.TimeOnly), e.Type, e.Reason, object, e.Message}
}
