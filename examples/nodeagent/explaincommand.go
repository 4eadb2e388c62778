package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
)

// podArgument is the flag -n and the argument POD.
type podArgument struct{ namespace string }

func (p *podArgument) register(c *cobra.Command, r *reach) {
	c.Flags().StringVarP(&p.namespace, "namespace", "n", v1.NamespaceDefault, "namespace of the pod, unless POD names it")
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return podNames(c, r), cobra.ShellCompDirectiveNoFileComp
	}
}

// path is the path of a pod below prefix, with more appended.
func (p *podArgument) path(prefix, pod string, more ...string) (string, error) {
	namespace, name := splitName(p.namespace, pod)
	all := append([]string{namespace, name}, more...)
	for i, part := range all {
		if part == "" || part == "." || part == ".." {
			return "", exit{codeUsage, fmt.Errorf("%q is no pod: want NAME or NAMESPACE/NAME", pod)}
		}
		all[i] = url.PathEscape(part)
	}
	return prefix + "/" + strings.Join(all, "/"), nil
}

// newExplain is "nodeagent explain POD".
func newExplain() *cobra.Command {
	var r reach
	var f format
	var p podArgument
	c := &cobra.Command{
		Use: "explain POD", Aliases: []string{"why", "describe"}, Short: "where a pod stands, and what it waits for",
		Args: exactly(1, "one pod"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := p.path("/explain", args[0])
			if err != nil {
				return err
			}
			if f == "" {
				path += "?o=text"
			}
			return r.show(c, path, f)
		},
	}
	r.register(c.Flags())
	f.register(c, "json", "yaml")
	p.register(c, &r)
	return c
}

// show prints the answer for a path.
func (r *reach) show(c *cobra.Command, path string, f format) error {
	api, err := r.open(c.Flags())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	answer, err := api.ask(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	return f.write(c.OutOrStdout(), answer)
}
