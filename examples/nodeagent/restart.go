package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
)

// restarted is the answer to POST /restart.
type restarted struct {
	Pod        string               `json:"restarted"` // NAMESPACE/NAME
	Containers []restartedContainer `json:"containers"`
}

// restartedContainer is one of the pod's containers, and how its replaced run ended.
type restartedContainer struct {
	Name     string `json:"name"`
	ExitCode *int32 `json:"exitCode,omitempty"` // nil: not known
	Reason   string `json:"reason,omitempty"`
}

// restart restarts the running containers of a pod; the answer comes once the new runs have begun.
func (a *agent) restart(w http.ResponseWriter, r *http.Request) {
	pod, err := a.named(r)
	if err != nil {
		a.failure(w, err)
		return
	}
	options := podwright.RestartOptions{Containers: r.URL.Query()["container"], Message: r.FormValue("message")}
	a.obey(w, r, pod, func(ctx context.Context) error { return a.engine.RestartPod(ctx, pod.UID, options) }, func() any {
		after, ok := a.engine.Pod(pod.UID)
		if !ok {
			after = pod
		}
		return restarted{pod.Namespace + "/" + pod.Name, replacedRuns(pod, after, options.Containers)}
	})
}

// replacedRuns returns the containers of a pod that were restarted between two moments, in the
// order of its status; names are the requested ones, empty means all.
func replacedRuns(before, after *v1.Pod, names []string) []restartedContainer {
	runs := func(pod *v1.Pod) []v1.ContainerStatus {
		return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	}
	out := []restartedContainer{} // an empty list, not null
	old := runs(before)
	for _, now := range runs(after) {
		i := slices.IndexFunc(old, func(c v1.ContainerStatus) bool { return c.Name == now.Name })
		if len(names) > 0 && !slices.Contains(names, now.Name) || i >= 0 && old[i].ContainerID == now.ContainerID {
			continue
		}
		one := restartedContainer{Name: now.Name}
		if t := now.LastTerminationState.Terminated; t != nil {
			one.ExitCode, one.Reason = &t.ExitCode, t.Reason
		}
		out = append(out, one)
	}
	return out
}

// String names the containers and how their last runs ended.
func (r restarted) String() string {
	var names []string
	for _, c := range r.Containers {
		if c.ExitCode != nil {
			c.Name += fmt.Sprintf(" (its last run ended with code %d, %s)", *c.ExitCode, cmp.Or(c.Reason, "no reason given"))
		}
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		return r.Pod + " is restarted"
	}
	return "restarted in " + r.Pod + ": " + strings.Join(names, "; ")
}

// newRestart is "nodeagent restart POD".
func newRestart() *cobra.Command {
	var r reach
	var p podArgument
	var containers []string
	var message string
	var wait time.Duration
	c := &cobra.Command{
		Use: "restart POD", Short: "restart the running containers of a pod in place",
		Long: `restart stops the running containers of a pod, with their grace and hooks, and starts them again at once: the pod keeps its address and its
volumes, and init containers do not run again. It returns when the new runs have begun, and says how the runs before ended; until then it says what they wait for. Containers that must
not run twice are refused.`,
		Args: exactly(1, "one pod"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := p.path("/restart", args[0])
			if err != nil {
				return err
			}
			answer, err := r.order(c, path, url.Values{"container": containers, "message": {message}}, "the restart", wait)
			if err != nil {
				return err
			}
			done, err := decode[restarted](answer)
			if err != nil {
				return err
			}
			return say(c, done.String())
		},
	}
	r.register(c.Flags())
	p.register(c, &r)
	c.Flags().StringArrayVarP(&containers, "container", "c", nil, "a container to restart; may be repeated (default: all that run)")
	c.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the new runs; the restart goes on without the command (0: no limit)")
	c.Flags().StringVar(&message, "message", "", "a sentence for its event and status")
	return c
}
