package main

import (
	"context"
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
			query := url.Values{"container": containers, "message": {message}}
			return r.order(c, path+"?"+query.Encode(), "the restart", args[0]+" is restarted")
		},
	}
	r.register(c.Flags())
	p.register(c, &r)
	c.Flags().StringArrayVarP(&containers, "container", "c", nil, "a container to restart; may be repeated (default: all that run)")
	c.Flags().StringVar(&message, "message", "", "a sentence for its event and status")
	return c
}
