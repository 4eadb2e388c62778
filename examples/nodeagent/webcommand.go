package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// newWeb is "nodeagent web": it prints the link that opens the running agent's page.
func newWeb() *cobra.Command {
	var r reach
	c := &cobra.Command{
		Use: "web", Short: "the link that opens the page for browsers, which run --web serves",
		Long: "web prints the link that opens the running agent's page in a browser. The link has a token: whoever has it can see the pods, their logs and problems, and change nothing.",
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := r.open(c.Flags())
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(c.Context())
			defer stop()
			answer, err := api.ask(ctx, http.MethodGet, "/web")
			if err != nil {
				return err
			}
			page, err := decode[pageLink](answer)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), printable(page.Link))
			return err
		},
	}
	r.register(c.Flags())
	return c
}
