package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// logsCommand is "nodeagent logs".
type logsCommand struct {
	reach
	podArgument
	container, since             string
	follow, previous, timestamps bool
	tail, limit                  int64
}

func newLogs() *cobra.Command {
	var l logsCommand
	c := &cobra.Command{
		Use: "logs POD [-c CONTAINER]", Aliases: []string{"log"}, Short: "the log of a container",
		Long: "logs prints what a container has written, over all files of its log. What it holds is shown as it is.",
		Example: `  nodeagent logs clock --tail 20 -f     the last 20 lines, and each new one
  nodeagent logs crashloop -p           what it wrote before it ended the last time`,
		Args: exactly(1, "one pod"),
		RunE: func(c *cobra.Command, args []string) error { return l.run(c, args[0]) },
	}
	l.reach.register(c.Flags())
	l.podArgument.register(c, &l.reach)
	f := c.Flags()
	f.StringVarP(&l.container, "container", "c", "", "which one; needed if there are several, unless the annotation "+defaultContainer+" names one")
	f.BoolVarP(&l.follow, "follow", "f", false, "go on until the container ends, or Ctrl-C")
	f.BoolVarP(&l.previous, "previous", "p", false, "that of the run before the last restart")
	f.BoolVar(&l.timestamps, "timestamps", false, "begin each line with its time")
	f.Int64Var(&l.tail, "tail", -1, "only so many lines at the end; -1 means all")
	f.Int64Var(&l.limit, "limit-bytes", 0, "only so many bytes; 0 means all")
	f.StringVar(&l.since, "since", "", "only what is newer: a duration such as 5m, or a time as in RFC 3339")
	return c
}

func (l *logsCommand) run(c *cobra.Command, pod string) error {
	if l.tail < -1 || l.limit < 0 {
		return exit{codeUsage, fmt.Errorf("--tail %d, --limit-bytes %d: want a number of lines or -1, and a number of bytes or 0", l.tail, l.limit)}
	}
	more := []string{}
	if l.container != "" {
		more = append(more, l.container)
	}
	path, err := l.path("/logs", pod, more...)
	if err != nil {
		return err
	}
	api, err := l.open(c.Flags())
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(c.Context())
	defer stop()
	response, err := api.open(ctx, http.MethodGet, path+"?"+l.query().Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	out := &output{to: c.OutOrStdout()}
	_, err = io.Copy(out, response.Body)
	switch {
	case ctx.Err() != nil:
		return nil // Ctrl-C is how this ends
	case out.err() != nil:
		return out.err()
	case errors.Is(err, errHangs):
		return api.unreachable(err)
	case err != nil:
		return exit{codeUnreachable, fmt.Errorf("this is not the whole log: the agent at %s has ended, or has cut it off because nothing was read for %v (%w)", api.address, sendTimeout, err)}
	}
	if why := response.Trailer.Get(errorTrailer); why != "" {
		return errors.New("this is not the whole log: " + why)
	}
	return nil
}

func (l *logsCommand) query() url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"follow": l.follow, "previous": l.previous, "timestamps": l.timestamps} {
		if on {
			q.Set(name, "true")
		}
	}
	if l.tail >= 0 {
		q.Set("tail", strconv.FormatInt(l.tail, 10))
	}
	if l.limit > 0 {
		q.Set("limit", strconv.FormatInt(l.limit, 10))
	}
	if l.since != "" {
		q.Set("since", l.since)
	}
	return q
}
