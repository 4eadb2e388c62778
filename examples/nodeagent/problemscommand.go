package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/podwright/podwright"
)

// newProblems is "nodeagent problems".
func newProblems() *cobra.Command {
	var r reach
	var f format
	c := &cobra.Command{
		Use: "problems", Aliases: []string{"problem", "pr"}, Short: "what waits longer than it should, since when, and what to do; code 1 if there is something",
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return problems(c, &r, f) },
	}
	r.register(c.Flags())
	f.register(c, "json", "yaml")
	return c
}

func problems(c *cobra.Command, r *reach, f format) error {
	api, err := r.open(c.Flags())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	answer, err := api.ask(ctx, http.MethodGet, "/problems?o=json")
	if err != nil {
		return err
	}
	all, err := decode[[]podwright.Problem](answer)
	if err != nil {
		return err
	}
	if f != "" {
		err = f.write(c.OutOrStdout(), answer)
	} else {
		for _, p := range all {
			fmt.Fprintln(c.OutOrStdout(), printable(p.String()))
		}
		if len(all) == 0 {
			fmt.Fprintln(c.OutOrStdout(), "no problems")
		}
	}
	if err == nil && len(all) > 0 {
		err = exit{code: codeFailed}
	}
	return err
}
