package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
)

// evict stops a pod for good; the answer comes once none of its containers runs.
func (a *agent) evict(w http.ResponseWriter, r *http.Request) {
	pod, err := a.named(r)
	if err != nil {
		a.failure(w, err)
		return
	}
	options := podwright.EvictOptions{Reason: r.FormValue("reason"), Message: r.FormValue("message")}
	if options.Grace, err = time.ParseDuration(cmp.Or(r.FormValue("grace"), "0s")); err != nil || options.Grace < 0 {
		a.fail(w, http.StatusBadRequest, fmt.Errorf("grace: %q is no duration such as 10s", r.FormValue("grace")))
		return
	}
	a.obey(w, r, pod, func(ctx context.Context) error { return a.engine.EvictPod(ctx, pod.UID, options) }, func() any {
		if phase := pod.Status.Phase; phase == v1.PodSucceeded || phase == v1.PodFailed {
			return evicted{pod.Namespace + "/" + pod.Name, phase}
		}
		return evicted{Pod: pod.Namespace + "/" + pod.Name}
	})
}

// evicted is the answer to POST /evict.
type evicted struct {
	Pod string `json:"evicted"` // NAMESPACE/NAME
	// Ended is the phase of a pod that had ended before: it stays.
	Ended v1.PodPhase `json:"ended,omitempty"`
}

// newEvict is "nodeagent evict POD".
func newEvict() *cobra.Command {
	var r reach
	var p podArgument
	var grace time.Duration
	var reason, message string
	c := &cobra.Command{
		Use: "evict POD", Short: "stop a pod for good, as an eviction does",
		Long: `evict stops a pod as an eviction for lack of memory does: it is Failed, also after a restart of the agent, and whoever shows its status learns it. It returns
when no container of the pod runs. The pod of a manifest in a folder is static: it comes back after a while, so remove the manifest to be rid of it.`,
		Args: exactly(1, "one pod"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := p.path("/evict", args[0])
			if err != nil {
				return err
			}
			query := url.Values{"grace": {grace.String()}, "reason": {reason}, "message": {message}}
			answer, err := r.order(c, path, query, "the eviction", 0)
			if err != nil {
				return err
			}
			done, err := decode[evicted](answer)
			if err != nil {
				return err
			}
			if done.Ended != "" {
				return say(c, fmt.Sprintf("%s had ended before, %s, and stays so", done.Pod, done.Ended))
			}
			return say(c, done.Pod+" is evicted")
		},
	}
	r.register(c.Flags())
	p.register(c, &r)
	c.Flags().DurationVar(&grace, "grace", 0, "most time its containers get to stop, rounded up to seconds; 0 means its own")
	c.Flags().StringVar(&reason, "reason", "", "a CamelCase word for its status (default Evicted)")
	c.Flags().StringVar(&message, "message", "", "a sentence for its status")
	return c
}
