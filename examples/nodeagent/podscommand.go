package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
)

// podsCommand is "nodeagent pods".
type podsCommand struct {
	reach
	format
	watch     bool
	namespace string
}

func newPods() *cobra.Command {
	var p podsCommand
	c := &cobra.Command{
		Use: "pods [POD...]", Aliases: []string{"pod", "po"}, Short: "the pods, and manifests that are refused",
		Long: "pods shows the pods that the running agent has to do with, and below them the manifests that it refuses.",
		Example: `  nodeagent pods
  nodeagent pods -w                    print every change too, until Ctrl-C
  nodeagent pods clock -o yaml         all of one pod, without what may be secret`,
		ValidArgsFunction: p.complete,
		RunE:              func(c *cobra.Command, args []string) error { return p.run(c, args) },
	}
	p.reach.register(c.Flags())
	p.format.register(c, "wide", "json", "yaml", "name")
	c.Flags().BoolVarP(&p.watch, "watch", "w", false, "print every change too, until Ctrl-C; with -o json, one object per line")
	c.Flags().StringVarP(&p.namespace, "namespace", "n", "", "only pods of this namespace")
	return c
}

func (p *podsCommand) run(c *cobra.Command, names []string) error {
	if p.watch && (p.format == "yaml" || p.format == "name") {
		return exit{codeUsage, fmt.Errorf("--watch and -o %s do not go together; use -o json", p.format)}
	}
	api, err := p.open(c.Flags())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	if p.watch && len(names) == 0 {
		return p.follow(ctx, api, names, c.OutOrStdout())
	}
	answer, err := api.ask(ctx, http.MethodGet, "/pods")
	if err != nil {
		return err
	}
	list, err := decode[v1.PodList](answer)
	if err != nil {
		return err
	}
	if list.Items, err = p.chosen(list.Items, names); err != nil {
		return err
	}
	if p.watch { // a misspelt name would be watched forever
		return p.follow(ctx, api, names, c.OutOrStdout())
	}
	return p.show(ctx, api, &list, names, c.OutOrStdout(), c.ErrOrStderr())
}

// show prints the pods in the requested format.
func (p *podsCommand) show(ctx context.Context, api *apiClient, list *v1.PodList, names []string, out, problems io.Writer) error {
	switch p.format {
	case "name":
		for i := range list.Items {
			fmt.Fprintln(out, printable(list.Items[i].Namespace+"/"+list.Items[i].Name))
		}
		return nil
	case "json", "yaml":
		var body any = list
		if len(names) == 1 && len(list.Items) == 1 {
			one := list.Items[0]
			one.APIVersion, one.Kind = "v1", "Pod"
			body = one
		}
		text, err := json.MarshalIndent(body, "", "  ")
		if err != nil {
			return err
		}
		return p.write(out, append(text, '\n'))
	}
	g := podGrid(list.Items, time.Now(), p.format == "wide")
	if colours(out) {
		g.paint = statusColour
	}
	if _, err := io.WriteString(out, strings.Join(g.lines(), "\n")+"\n"); err != nil {
		return err
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(problems, "There are no pods.")
	}
	if len(names) > 0 {
		return nil
	}
	return showRefused(ctx, api, problems)
}

// showRefused names the manifests that were refused, and why.
func showRefused(ctx context.Context, api *apiClient, out io.Writer) error {
	answer, err := api.ask(ctx, http.MethodGet, "/problems?o=json")
	if err != nil {
		return err
	}
	all, err := decode[[]podwright.Problem](answer)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(p podwright.Problem) bool { return p.Kind != "source" })
	quotesAnother := func(p podwright.Problem) bool { // a source that waits for a manifest quotes its problem
		return slices.ContainsFunc(all, func(q podwright.Problem) bool {
			return strings.HasSuffix(p.Cause, q.Name+" has been unreadable since the start: "+q.Cause)
		})
	}
	if len(all) > 0 {
		fmt.Fprintln(out, "\nNot as it should be in the manifests:")
	}
	for _, p := range all {
		if quotesAnother(p) {
			continue
		}
		fmt.Fprintln(out, " ", printable(p.Name+": "+cmp.Or(p.Cause, plainly(p.Waits))))
	}
	return nil
}

// chosen returns the namespace's pods with these names; a missing one is an error.
func (p *podsCommand) chosen(pods []v1.Pod, names []string) ([]v1.Pod, error) {
	all := pods
	if p.namespace != "" {
		pods = slices.DeleteFunc(slices.Clone(pods), func(pod v1.Pod) bool { return pod.Namespace != p.namespace })
	}
	if len(names) == 0 {
		return pods, nil
	}
	var out []v1.Pod
	var problems []error
	code := codeUsage
	for _, text := range names {
		namespace, name := splitName(p.namespace, text)
		found := findPods(pods, namespace, name)
		if len(found) == 0 {
			code = codeNotFound
			problems = append(problems, missing(all, namespace, name))
		}
		if err := ambiguous(text, found); err != nil {
			problems = append(problems, err)
		}
		for _, pod := range found { // all lives of the name
			out = append(out, *pod)
		}
	}
	if len(problems) > 0 {
		return nil, exit{code, errors.Join(problems...)}
	}
	return out, nil
}

// follow prints the pods and then each change.
func (p *podsCommand) follow(ctx context.Context, api *apiClient, names []string, out io.Writer) error {
	response, err := api.open(ctx, http.MethodGet, "/pods?watch=true")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	changes := json.NewDecoder(response.Body)
	widths := grid{least: watchWidths}
	for {
		var change podChange
		err := changes.Decode(&change)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C is how this ends
		case err != nil:
			return api.brokenOff(err)
		}
		pod := &change.Object
		if p.namespace != "" && pod.Namespace != p.namespace ||
			len(names) > 0 && !slices.ContainsFunc(names, func(text string) bool {
				namespace, name := splitName(p.namespace, text)
				return isNamed(pod, namespace, name)
			}) {
			continue
		}
		if err := p.print(&widths, change, out); err != nil {
			return err
		}
	}
}

// print adds one line for a change; seen has the previous lines, which set the widths of the columns.
func (p *podsCommand) print(seen *grid, change podChange, out io.Writer) error {
	if p.format == "json" {
		return json.NewEncoder(out).Encode(change)
	}
	g := podGrid([]v1.Pod{change.Object}, time.Now(), p.format == "wide")
	if change.Type == changeDeleted {
		g.rows[1][3] = "Gone"
	}
	if len(seen.rows) == 0 {
		seen.rows = g.rows[:1]
	}
	seen.rows = append(seen.rows[:min(len(seen.rows), maxSeenRows)], g.rows[1])
	if colours(out) {
		seen.paint = statusColour
	}
	lines := seen.lines()
	if len(seen.rows) > 2 {
		lines = lines[len(lines)-1:]
	}
	_, err := io.WriteString(out, strings.Join(lines, "\n")+"\n")
	return err
}

// watchWidths are minimum widths of a watch's columns, because its rows arrive one by one.
var watchWidths = []int{9, 24, 5, 17, 12, 3}

// maxSeenRows bounds how many rows set the widths of a watch's columns.
const maxSeenRows = 200

// complete offers the names of pods to the shell.
func (p *podsCommand) complete(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return podNames(c, &p.reach), cobra.ShellCompDirectiveNoFileComp
}

// podNames returns the names of the running agent's pods, none if it cannot be reached.
func podNames(c *cobra.Command, r *reach) (out []string) {
	api, err := r.open(c.Flags())
	if err != nil {
		return nil
	}
	answer, err := api.ask(c.Context(), http.MethodGet, "/pods")
	if err != nil {
		return nil
	}
	list, err := decode[v1.PodList](answer)
	if err != nil {
		return nil
	}
	for i := range list.Items {
		name := list.Items[i].Name
		if space := list.Items[i].Namespace; space != v1.NamespaceDefault {
			name = space + "/" + name
		}
		out = append(out, name)
	}
	return out
}
