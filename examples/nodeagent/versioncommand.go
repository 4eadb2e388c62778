package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
)

// untilSignal returns a context that ends with ctx or when the user interrupts.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
}

// build returns the versions of this program and of the Go that built it.
func build() (version, goVersion string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", "unknown"
	}
	version = info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && version == "(devel)" {
			version = s.Value
		}
	}
	if version == "" {
		version = "(devel)"
	}
	return version, info.GoVersion
}

// newVersion is "nodeagent version".
func newVersion() *cobra.Command {
	var r reach
	var f format
	c := &cobra.Command{
		Use: "version", Short: "the version of this program and of the running agent",
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if f != "" {
				return r.show(c, "/version", f)
			}
			return r.versions(c)
		},
	}
	r.register(c.Flags())
	f.register(c, "json", "yaml")
	return c
}

// askVersion asks the agent.
func (r *reach) askVersion(c *cobra.Command) ([]byte, error) {
	api, err := r.open(c.Flags())
	if err != nil {
		return nil, err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	return api.ask(ctx, http.MethodGet, "/version")
}

// versions prints both versions; an agent that does not run is not a failure.
func (r *reach) versions(c *cobra.Command) error {
	out := c.OutOrStdout()
	version, goVersion := build()
	fmt.Fprintf(out, "nodeagent %s, API %d, %s\n", version, apiVersion, goVersion)
	answer, err := r.askVersion(c)
	if e, ok := errors.AsType[exit](err); ok && e.code == codeUnreachable {
		fmt.Fprintln(out, "agent:", printable(err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	a, err := decode[about](answer)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, printable(fmt.Sprintf("agent %s, API %d, %s, process %d, node %s, runtime %s, folder %s, up for %s",
		a.Version, a.API, a.Go, a.PID, a.Node, a.Runtime, a.Root, duration.HumanDuration(time.Since(a.Started)))))
	return nil
}
