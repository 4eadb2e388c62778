package node

import (
	"context"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/rule"
)

func newPod(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: "name-" + string(uid)}}
}

func newStatic(uid types.UID) *v1.Pod {
	pod := newPod(uid)
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	return pod
}

// desiredPods are what sources want.
type desiredPods map[types.UID]*v1.Pod

func desire(list ...*v1.Pod) desiredPods {
	out := desiredPods{}
	for _, p := range list {
		out[p.UID] = p
	}
	return out
}

func (d desiredPods) Pods() []*v1.Pod {
	var out []*v1.Pod
	for _, uid := range slices.Sorted(maps.Keys(d)) {
		out = append(out, d[uid])
	}
	return out
}

func (d desiredPods) Get(uid types.UID) (*v1.Pod, bool) {
	pod, ok := d[uid]
	return pod, ok
}

// podStatuses are the statuses of pods.
type podStatuses map[types.UID]v1.PodStatus

func (s podStatuses) Get(uid types.UID) (v1.PodStatus, bool) {
	status, ok := s[uid]
	return status, ok
}

func inPhase(phase v1.PodPhase) v1.PodStatus { return v1.PodStatus{Phase: phase} }

// lives are workers that know some pods.
type lives struct {
	known, terminating, terminated, finished, contentGoes map[types.UID]bool
}

func uids(list ...types.UID) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, uid := range list {
		out[uid] = true
	}
	return out
}

func (l *lives) IsPodKnown(uid types.UID) bool                 { return l.known[uid] }
func (l *lives) IsPodTerminationRequested(uid types.UID) bool  { return l.terminating[uid] }
func (l *lives) IsPodKnownTerminated(uid types.UID) bool       { return l.terminated[uid] }
func (l *lives) ShouldPodBeFinished(uid types.UID) bool        { return l.finished[uid] }
func (l *lives) CouldHaveRunningContainers(uid types.UID) bool { return !l.terminated[uid] }
func (l *lives) ShouldPodContentBeRemoved(uid types.UID) bool  { return l.contentGoes[uid] }
func (l *lives) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	return l.terminated[uid] || !l.known[uid]
}

func (l *lives) Hold(ctx context.Context, uid types.UID, _ string) (context.Context, func(), bool) {
	return ctx, func() {}, !l.known[uid] || l.terminated[uid]
}

// residents are pods that sources want, of which workers know all.
func residents(list ...*v1.Pod) (*Residents, *lives) {
	l := &lives{known: map[types.UID]bool{}, finished: map[types.UID]bool{}}
	statuses := podStatuses{}
	for _, p := range list {
		l.known[p.UID] = true
		statuses[p.UID] = inPhase(v1.PodRunning)
	}
	return &Residents{
		Desired: desire(list...), Statuses: statuses, Lives: l,
		Stopping: func() map[types.UID]*v1.Pod { return map[types.UID]*v1.Pod{} },
		Ending:   func() []*v1.Pod { return nil },
		Heard:    func() bool { return true }, MaybeWanted: func(types.UID) rule.Denial { return rule.Denial{} },
	}, l
}

func uidsOf(list []*v1.Pod) []types.UID {
	var out []types.UID
	for _, p := range list {
		out = append(out, p.UID)
	}
	slices.Sort(out)
	return out
}

// calls notes what was called.
type calls struct {
	mu   sync.Mutex
	list []string
}

func (c *calls) add(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, call)
}

func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}
