package podwright

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/pods"
)

// PullExplanation is an image that a container waits for.
type PullExplanation struct {
	Image string `json:"image"`
	// Since is when the pull was asked for, by this pod or by another.
	Since time.Time `json:"since"`
	// Queued is true as long as other pulls come first.
	Queued bool `json:"queued,omitempty"`
	// Waiters is how many containers wait for this pull, this one included.
	Waiters int `json:"waiters"`
}

// explainPulls adds what the pod's containers wait for.
func (e *parts) explainPulls(uid types.UID, containers []ContainerExplanation) {
	for _, p := range e.pods.Pulling(uid) {
		for i := range containers {
			if c := &containers[i]; c.Name == p.Container && c.State == "waiting" {
				c.Pull = &PullExplanation{Image: p.Image, Since: p.Since, Queued: p.Queued, Waiters: p.Waiters}
			}
		}
	}
}

// showPulls says in the status of a pod that is shown, not in the one that is
// reported, what its containers wait for.
func (e *parts) showPulls(pod *v1.Pod) {
	for _, p := range e.pods.Pulling(pod.UID) {
		for _, list := range [][]v1.ContainerStatus{
			pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
		} {
			for i := range list {
				if w := list[i].State.Waiting; list[i].Name == p.Container && w != nil && w.Message == "" {
					w.Message = p.String()
				}
			}
		}
	}
}

// pruneRecordsEvery is how often records of images that are gone are looked for at
// most; nothing happens while nothing is pulled.
const pruneRecordsEvery = time.Minute

// imageRecords keeps the records of pulls small, after collections of containers and
// of images.
type imageRecords struct {
	pods  *pods.Manager
	clock clock.PassiveClock

	mu   sync.Mutex
	last time.Time
}

func (r *imageRecords) prune(ctx context.Context) error {
	r.mu.Lock()
	now := r.clock.Now()
	due := r.last.IsZero() || now.Sub(r.last) >= pruneRecordsEvery
	if due {
		r.last = now
	}
	r.mu.Unlock()
	if !due {
		return nil
	}
	return r.pods.PruneImageRecords(ctx)
}
