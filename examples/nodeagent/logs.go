package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// containerLog answers with the log of a container; with follow, until the container ends.
func (a *agent) containerLog(w http.ResponseWriter, r *http.Request) {
	pod, err := a.named(r)
	var container string
	var options containerlog.Options
	if err == nil {
		container, err = containerOf(pod, r.PathValue("container"))
	}
	if err == nil {
		options, err = logQuery(r.URL.Query(), time.Now())
	}
	if err != nil {
		a.failure(w, err)
		return
	}
	a.stream(w, r, "text/plain; charset=utf-8", func(ctx context.Context, out *streamWriter) error {
		return a.engine.ContainerLog(ctx, pod.UID, container, options, eachFlushed{out})
	})
}

// eachFlushed sends each piece at once.
type eachFlushed struct{ *streamWriter }

func (e eachFlushed) Write(p []byte) (int, error) {
	n, err := e.streamWriter.Write(p)
	if err == nil {
		err = e.flush()
	}
	return n, err
}

// defaultContainer is the annotation that kubectl uses.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// containerOf returns the name of the requested container: name, or if it is empty the pod's only
// container, or the one that its annotation names.
func containerOf(pod *v1.Pod, name string) (string, error) {
	var all []string
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, list[i].Name)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		all = append(all, pod.Spec.EphemeralContainers[i].Name)
	}
	switch {
	case slices.Contains(all, name):
		return name, nil
	case name != "":
		return "", refusal{http.StatusNotFound, fmt.Sprintf("pod %s/%s has no container %q; it has %s", pod.Namespace, pod.Name, name, strings.Join(all, ", "))}
	case slices.Contains(all, pod.Annotations[defaultContainer]):
		return pod.Annotations[defaultContainer], nil
	case len(pod.Spec.Containers) == 1:
		return pod.Spec.Containers[0].Name, nil
	}
	return "", refusal{http.StatusBadRequest, fmt.Sprintf("pod %s/%s has several containers; say which one: %s", pod.Namespace, pod.Name, strings.Join(all, ", "))}
}

// logQuery parses the query of a log: follow, previous, timestamps, tail (lines), limit (bytes),
// and since, a duration before now or a time.
func logQuery(query url.Values, now time.Time) (containerlog.Options, error) {
	o := containerlog.Options{}
	for name, to := range map[string]*bool{"follow": &o.Follow, "previous": &o.Previous, "timestamps": &o.Timestamps} {
		if text := query.Get(name); text != "" {
			var err error
			if *to, err = strconv.ParseBool(text); err != nil {
				return o, refusal{http.StatusBadRequest, fmt.Sprintf("%s: %q is neither true nor false", name, text)}
			}
		}
	}
	for name, to := range map[string]**int64{"tail": &o.Tail, "limit": &o.LimitBytes} {
		if text := query.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return o, refusal{http.StatusBadRequest, fmt.Sprintf("%s: %q is no number", name, text)}
			}
			*to = &n
		}
	}
	if text := query.Get("since"); text != "" {
		if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
			if ago > 0 { // 0 is no limit, as in kubectl
				o.Since = now.Add(-ago)
			}
		} else if o.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return o, refusal{http.StatusBadRequest, fmt.Sprintf("since: %q is neither a duration such as 5m nor a time as in RFC 3339", text)}
		}
	}
	if err := o.Check(); err != nil {
		return o, refusal{http.StatusBadRequest, err.Error()}
	}
	return o, nil
}
