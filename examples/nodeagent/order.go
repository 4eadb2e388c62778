package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// order posts what the agent is to do to a pod, which answers when it is done, and says so. Who breaks off reads that what was
// ordered goes on.
func (r *reach) order(c *cobra.Command, path, what, done string) error {
	api, err := r.open(c.Flags())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	response, err := api.open(ctx, http.MethodPost, path)
	if ctx.Err() != nil {
		return errors.New(what + " goes on without this command")
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), printable(done))
	return response.Body.Close()
}
