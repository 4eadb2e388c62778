package pods

import (
	"cmp"
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
)

const (
	// nodeFileLimit is how long a step waits for a call about files of the node (spec/runtime.md 12.8).
	nodeFileLimit = 30 * time.Second
	// releaseLimit bounds the release of sub-paths. It is shorter than the time after which the end of a pod is listed as a problem.
	releaseLimit = 20 * time.Second
	// nodeFileLate is how much longer it waits, also if its context has ended: a call that does not hang is over by then, so it
	// is not left behind.
	nodeFileLate = time.Second
)

// nodeFiles are calls about files that may be mounted from elsewhere. If the server of such a file system is gone, the kernel
// does not return from the call, and no context ends it. It is left behind: containers that do not need it start, the pod is
// stopped, and the agent ends. Until it has returned, there is no other call about the same.
type nodeFiles struct {
	calls *foreign.Calls
	// hang is for tests: it is called before each call, with its name.
	hang func(name string)
}

// askNode makes a call about files of the node; a limit of 0 means none. The name of the call completes "... has not returned".
func askNode[T any](ctx context.Context, n *nodeFiles, call foreign.Call, limit time.Duration, f func(ctx context.Context) (T, error)) (T, error) {
	call.Kind, call.Patience = problem.Pod, cmp.Or(limit, problem.SetupLimit)
	call.Advice = "look at the file system that the volume is on, and at its server: it does not answer"
	limits := foreign.Limits{Wait: limit, Late: nodeFileLate, Bounded: true} // what hangs costs a thread
	return foreign.Ask(ctx, n.calls, call, limits, func(ctx context.Context) (T, error) {
		if n.hang != nil {
			n.hang(call.Name)
		}
		return f(ctx)
	})
}

// nodeCall names a call for a pod, about one of its volumes or containers.
func nodeCall(pod *v1.Pod, about, name string) foreign.Call {
	return foreign.Call{Name: name, UID: pod.UID, Pod: problem.Of(pod.Namespace, pod.Name, pod.UID), Object: about}
}

// subPathCall names a call that mounts or unmounts sub-paths of a pod. There is one at a time, also beyond the end of a life:
// a late call of one life must not touch the mounts of the next.
func subPathCall(uid types.UID) foreign.Call {
	return foreign.Call{Name: "the change of sub-path mounts", UID: uid}
}

// Leave waits some seconds, at the end of a run, for calls about files of the node that are still under way, and logs those that
// do not return: their goroutines are lost.
func (m *Manager) Leave() {
	m.files.calls.Leave(m.options.Logger)
}

// releaseSubPaths releases the sub-paths of a container, or of all containers of the pod if container is empty.
func (m *Manager) releaseSubPaths(ctx context.Context, uid types.UID, container string) error {
	_, err := askNode(ctx, &m.files, subPathCall(uid), releaseLimit, func(context.Context) (struct{}, error) {
		return struct{}{}, m.dirs.ReleaseSubPaths(uid, container)
	})
	if errors.As(err, new(*foreign.UnansweredError)) {
		return maybeMounted(err)
	}
	return err
}
