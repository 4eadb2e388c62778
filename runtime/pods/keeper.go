package pods

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/actions"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// keeperPeriod is how often a sidecar that waits for its turn to stop is checked.
const keeperPeriod = time.Second

// keeper keeps a sidecar up while its pod ends, for as long as an app container
// runs that may need it (spec/runtime.md 16.9). It belongs to one kill; a later
// kill of the same pod ends it.
type keeper struct {
	m   *Manager
	pod *v1.Pod // its sidecar has no hooks any more
	// index of the sidecar among the init containers.
	index int
	// status is the keeper's own copy.
	status *runtime.PodStatus
	apps   []<-chan struct{}
	kill   uint64

	// id is the instance to look at. restarted is true once it differs from
	// the one that the kill began with.
	id        string
	restarted bool
}

// keepSidecars gives each sidecar that will wait for its turn a keeper.
func (m *Manager) keepSidecars(k podKill, status *runtime.PodStatus, targets []*target, kill uint64) {
	if !m.options.KeepSidecars || k.pod == nil || status == nil {
		return
	}
	var apps []<-chan struct{}
	for _, t := range targets {
		if t.kind == meta.App {
			apps = append(apps, t.finished)
		}
	}
	for _, t := range targets {
		if t.kind != meta.Sidecar || t.grace <= 1 || len(apps) == 0 || t.state != runtime.Running {
			continue
		}
		if member, ok := memberNamed(k.pod, t.name); !ok || member.kind != meta.Sidecar {
			continue
		}
		pod := k.pod.DeepCopy()
		c := &pod.Spec.InitContainers[t.index]
		c.Lifecycle = nil
		// It ran a moment ago, so its image is present.
		c.ImagePullPolicy = v1.PullIfNotPresent
		own := *status
		t.keeper = &keeper{m: m, pod: pod, index: t.index, status: &own, apps: apps, kill: kill, id: t.id}
	}
}

// run looks after the sidecar until ctx ends.
func (k *keeper) run(ctx context.Context) {
	timer := k.m.options.Clock.NewTimer(keeperPeriod)
	defer timer.Stop()
	for ; ; timing.Restart(timer, keeperPeriod) {
		select {
		case <-timer.C():
		case <-ctx.Done():
			return
		}
		if !k.needed() {
			return
		}
		if k.ended(ctx) {
			k.restart(ctx)
		}
	}
}

// needed reports whether an app container still runs and no later kill has begun.
func (k *keeper) needed() bool {
	if k.m.latestKill(k.pod.UID) != k.kill {
		return false
	}
	for _, gone := range k.apps {
		select {
		case <-gone:
		default:
			return true
		}
	}
	return false
}

// ended reports whether the sidecar has exited, and remembers how.
func (k *keeper) ended(ctx context.Context) bool {
	response, err := k.m.runtime.ContainerStatus(ctx, k.id, false)
	if err != nil || response.GetStatus() == nil {
		return cri.IsNotFound(err)
	}
	name := k.pod.Spec.InitContainers[k.index].Name
	newest := k.status.Container(name)
	record := cri.NewContainerStatus(response.GetStatus(), newest.ID.Runtime)
	if record.State != runtime.Exited {
		return false
	}
	record.SandboxID = newest.SandboxID
	if newest.ID != record.ID || newest.State != record.State {
		k.status.Containers = append([]*runtime.ContainerStatus{record}, k.status.Containers...)
	}
	return true
}

// restart starts the sidecar again. If it cannot start, the next check tries again.
func (k *keeper) restart(ctx context.Context) {
	if len(k.status.Sandboxes) == 0 || !k.needed() {
		return
	}
	sandbox := k.status.Sandboxes[0]
	s := &podSync{m: k.m, pod: k.pod, status: k.status, began: k.m.options.Clock.Now(), plan: actions.Plan{
		SandboxID: sandbox.ID, Attempt: sandbox.Attempt, StartInit: []int{k.index},
	}}
	s.run(ctx)
	if s.startedID != "" {
		k.id, k.restarted = s.startedID, true
	}
}

// await waits for the sidecar's turn and looks after it meanwhile. It returns how
// long that took.
func (k *keeper) await(ctx context.Context, t *target, turn *turn, limit time.Duration) time.Duration {
	began := k.m.options.Clock.Now()
	keeping, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.run(keeping)
	}()
	turn.wait(ctx, k.m.options.Clock, limit)
	cancel()
	<-done
	t.id, t.restarted = k.id, k.restarted
	return k.m.options.Clock.Since(began)
}

// beginKill numbers a kill of the pod; it is the latest until the next one.
func (m *Manager) beginKill(uid types.UID) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killSerial++
	m.kills[uid] = m.killSerial
	return m.killSerial
}

// latestKill returns the number of the pod's latest kill, 0 if none is under way.
func (m *Manager) latestKill(uid types.UID) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kills[uid]
}

// endKill notes that a kill is over.
func (m *Manager) endKill(uid types.UID, serial uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kills[uid] == serial {
		delete(m.kills, uid)
	}
}
