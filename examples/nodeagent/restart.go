package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/podwright/podwright"
)

// restart restarts the running containers of a pod; the answer comes when the new runs have begun.
func (a *agent) restart(w http.ResponseWriter, r *http.Request) {
	pod, err := a.named(r)
	if err != nil {
		a.failure(w, err)
		return
	}
	options := podwright.RestartOptions{Containers: r.URL.Query()["container"], Message: r.FormValue("message")}
	a.stream(w, r, "application/json", func(ctx context.Context, out *streamWriter) error {
		if err := a.engine.RestartPod(ctx, pod.UID, options); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "{\"restarted\": %q}\n", pod.Namespace+"/"+pod.Name)
		return err
	})
}

// newRestart is "nodeagent restart POD".
func newRestart() *cobra.Command {
	var r reach
	var p podArgument
	var containers []string
	var message string
	c := &cobra.Command{
		Use: "restart POD", Short: "restart the running containers of a pod in place",
		Long: `restart stops the running containers of a pod, with their grace and hooks, and starts them again at once: the pod keeps its address and its
volumes, and init containers do not run again. It returns when the new runs have begun. Containers that must not run twice are refused.`,
		Args: exactly(1, "one pod"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := p.path("/restart", args[0])
			if err != nil {
				return err
			}
			return restart(c, &r, path+"?"+url.Values{"container": containers, "message": {message}}.Encode(), args[0])
		},
	}
	r.register(c.Flags())
	p.register(c, &r)
	c.Flags().StringArrayVarP(&containers, "container", "c", nil, "a container to restart; may be repeated (default: all that run)")
	c.Flags().StringVar(&message, "message", "", "a sentence for its event and status")
	return c
}

func restart(c *cobra.Command, r *reach, path, pod string) error {
	api, err := r.open(c.Flags())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	response, err := api.open(ctx, http.MethodPost, path)
	if ctx.Err() != nil {
		return errors.New("the restart goes on without this command")
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), printable(pod+" is restarted"))
	return response.Body.Close()
}
