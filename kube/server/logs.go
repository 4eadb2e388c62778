package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// containerLogs answers kubectl logs (KH3).
func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	pod, err := podOf(s.options.Engine, r)
	if err != nil {
		fail(w, err)
		return
	}
	container := r.PathValue("container")
	if !podinfo.HasContainer(pod, container) {
		fail(w, &failure{http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", container, podinfo.FullName(pod.Namespace, pod.Name))})
		return
	}
	options, err := logOptions(r.URL.Query(), s.options.Clock.Now())
	if err != nil {
		fail(w, err)
		return
	}
	if options.Follow {
		lasting(w)
	}
	w.Header().Set("Content-Type", "text/plain")
	out := &flushing{w: w, flush: http.NewResponseController(w).Flush}
	err = s.options.Engine.ContainerLog(r.Context(), pod.UID, container, options, out)
	switch {
	case err == nil:
	case !out.begun:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		s.options.Logger.V(1).Info("A log was not shown whole", "pod", pod.UID, "container", container, "error", err.Error())
		// Without the last chunk the client can tell that the answer is incomplete.
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	}
}

// logOptions parses the options of a query; sinceSeconds counts back from now. A query that cannot
// be parsed is 400, invalid options are 422, as with the kubelet.
func logOptions(query url.Values, now time.Time) (containerlog.Options, error) {
	var unreadable, problems []error
	number := func(name string) *int64 {
		if query.Get(name) == "" {
			return nil
		}
		n, err := strconv.ParseInt(query.Get(name), 10, 64)
		if err != nil {
			unreadable = append(unreadable, fmt.Errorf("%s: %q is not a number", name, query.Get(name)))
		}
		return &n
	}
	out := containerlog.Options{
		Follow: flag(query, "follow"), Previous: flag(query, "previous"), Timestamps: flag(query, "timestamps"),
		Tail: number("tailLines"), LimitBytes: number("limitBytes"),
	}
	seconds, since := number("sinceSeconds"), query.Get("sinceTime")
	switch {
	case seconds != nil && since != "":
		problems = append(problems, errors.New("at most one of sinceTime or sinceSeconds may be specified"))
	case seconds != nil && *seconds < 1:
		problems = append(problems, fmt.Errorf("sinceSeconds: %d must be greater than 0", *seconds))
	case seconds != nil:
		out.Since = now.Add(-time.Duration(min(*seconds, maxSeconds)) * time.Second)
	case since != "":
		var err error
		if out.Since, err = time.Parse(time.RFC3339, since); err != nil {
			unreadable = append(unreadable, fmt.Errorf("sinceTime: %q is not a time as in RFC 3339", since))
		}
	}
	switch stream := query.Get("stream"); stream {
	case "", v1.LogStreamAll:
	case v1.LogStreamStdout:
		out.Stream = containerlog.Stdout
	case v1.LogStreamStderr:
		out.Stream = containerlog.Stderr
	default:
		problems = append(problems, fmt.Errorf("stream: %q is none of %s, %s and %s", stream, v1.LogStreamAll, v1.LogStreamStdout, v1.LogStreamStderr))
	}
	if err := errors.Join(unreadable...); err != nil {
		return out, &failure{http.StatusBadRequest, "Unable to decode query: " + err.Error()}
	}
	if err := errors.Join(append(problems, out.Check())...); err != nil {
		return out, &failure{http.StatusUnprocessableEntity, "Invalid request: " + err.Error()}
	}
	return out, nil
}

// flag parses a switch as the API server does: its name alone switches it on.
func flag(query url.Values, name string) bool {
	value := query.Get(name)
	return query.Has(name) && value != "0" && !strings.EqualFold(value, "false")
}

// maxSeconds is 100 years.
const maxSeconds = 100 * 366 * 24 * 3600

// flushing sends each piece at once.
type flushing struct {
	w     http.ResponseWriter
	flush func() error
	begun bool
}

func (f *flushing) Write(p []byte) (int, error) {
	f.begun = true
	n, err := f.w.Write(p)
	if err == nil {
		err = f.flush()
	}
	return n, err
}
