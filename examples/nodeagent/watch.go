package main

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status/checkpoint"
)

// watchPeriod is how often a watch looks at the pods. It polls because Engine.Watch reports only
// statuses, and the table shows more: a pod that begins to stop, or that has no status yet.
const watchPeriod = 500 * time.Millisecond

// What may happen to a pod, in the words of Kubernetes' watches.
const (
	changeAdded    = "ADDED"
	changeModified = "MODIFIED"
	changeDeleted  = "DELETED"
)

// podChange is one line of a watch.
type podChange struct {
	Type   string `json:"type"`
	Object v1.Pod `json:"object"`
}

// podWatch is what the client of a watch has been told.
type podWatch struct{ told map[types.UID]v1.Pod }

// changes returns the differences between what was told and the current pods, which then count as
// told. States between two looks are skipped.
func (w *podWatch) changes(pods []v1.Pod) (out []podChange) {
	now := make(map[types.UID]v1.Pod, len(pods))
	for _, pod := range pods {
		now[pod.UID] = pod
		before, known := w.told[pod.UID]
		switch {
		case !known:
			out = append(out, podChange{changeAdded, pod})
		case !reflect.DeepEqual(before, pod):
			out = append(out, podChange{changeModified, pod})
		}
	}
	for uid, pod := range w.told {
		if _, there := now[uid]; !there {
			out = append(out, podChange{changeDeleted, pod})
		}
	}
	w.told = now
	return out
}

// watchPods sends every pod and then each change, as JSON lines, until the client disconnects or
// the agent ends.
func (a *agent) watchPods(w http.ResponseWriter, r *http.Request) {
	a.stream(w, r, "application/json", func(ctx context.Context, out *streamWriter) error {
		tick := time.NewTicker(watchPeriod)
		defer tick.Stop()
		watch, lines := podWatch{}, json.NewEncoder(out)
		for {
			pods := a.engine.Pods()
			for i := range pods {
				pods[i] = *checkpoint.RedactedPod(&pods[i])
			}
			for _, change := range watch.changes(pods) {
				if err := lines.Encode(change); err != nil {
					return err
				}
			}
			if err := out.flush(); err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}
