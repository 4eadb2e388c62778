package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/containerlog"
)

// Logs finds the logs of containers and reads them.
type Logs struct {
	// Pod returns a pod with its newest status, or false.
	Pod func(uid types.UID) (*v1.Pod, bool)
	// View returns what the runtime was last seen to have of a pod.
	View func(uid types.UID) (*runtime.PodStatus, error)
	// Dir is the log directory.
	Dir    string
	Reader *containerlog.Reader
}

// Copy writes the log of a container to w. Ended in options is set by the node.
func (l *Logs) Copy(ctx context.Context, uid types.UID, container string, options containerlog.Options, w io.Writer) error {
	if err := options.Check(); err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrInvalid, err)
	}
	pod, ok := l.Pod(uid)
	if !ok {
		return fmt.Errorf("pod %q: %w", uid, runtime.ErrNotFound)
	}
	which, err := runOf(pod, container, options.Previous)
	if err != nil {
		return err
	}
	options.Ended = func() bool {
		view, err := l.View(pod.UID)
		return err == nil && !writes(view, which.id)
	}
	where := containerlog.Of(pod.Namespace, pod.Name, pod.UID, container, which.number)
	if view, err := l.View(pod.UID); err == nil {
		for _, c := range view.Containers {
			if c.ID.String() != which.id || c.LogPath == "" {
				continue
			}
			if where, err = l.below(c.LogPath); err != nil {
				return fmt.Errorf("container %q in pod %q: %w", container, pod.Name, err)
			}
		}
	}
	err = l.Reader.Copy(ctx, where, options, w)
	if errors.Is(err, fs.ErrNotExist) {
		// A log goes with its container, and an ended pod keeps no container when the disk is short.
		return fmt.Errorf("container %q in pod %q has no log: it was removed with the container, or never written: %w", container, pod.Name, runtime.ErrFailedPrecondition)
	}
	return err
}

// below returns the location of a log that the runtime names.
func (l *Logs) below(path string) (containerlog.Log, error) {
	name, err := filepath.Rel(l.Dir, path)
	elements := strings.Split(name, string(filepath.Separator))
	if err != nil || !filepath.IsLocal(name) || len(elements) != 3 {
		return containerlog.Log{}, fmt.Errorf("its log %s is not below the log directory %s: %w", path, l.Dir, runtime.ErrFailedPrecondition)
	}
	return containerlog.Log{Pod: elements[0], Container: elements[1], File: elements[2]}, nil
}

// writes reports whether a container may still write to its log.
func writes(view *runtime.PodStatus, id string) bool {
	for _, c := range view.Containers {
		if c.ID.String() == id {
			return c.State != runtime.Exited
		}
	}
	return false
}

// containerRun is one run of a container.
type containerRun struct {
	id     string
	number int
}

// runOf chooses the run whose log is shown, as kubectl logs does: the running one, otherwise the
// last one that ran; or, with previous, the one before. The errors are the kubelet's.
func runOf(pod *v1.Pod, container string, previous bool) (containerRun, error) {
	if !podinfo.HasContainer(pod, container) {
		return containerRun{}, fmt.Errorf("container %q not found in pod %q: %w", container, pod.Name, runtime.ErrNotFound)
	}
	problem := func(format string, more ...any) (containerRun, error) {
		text := fmt.Sprintf(format, append([]any{container, pod.Name}, more...)...)
		return containerRun{}, fmt.Errorf("%s: %w", text, runtime.ErrFailedPrecondition)
	}
	var status *v1.ContainerStatus
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				status = &list[i]
			}
		}
	}
	if status == nil {
		return problem("container %q in pod %q is not available")
	}
	before := status.LastTerminationState.Terminated
	if before != nil && before.ContainerID == "" {
		before = nil
	}
	number := int(status.RestartCount)
	switch state := status.State; {
	case previous && before == nil:
		return problem("previous terminated container %q in pod %q not found")
	case previous && state.Waiting != nil:
		return containerRun{before.ContainerID, number}, nil
	case previous:
		return containerRun{before.ContainerID, number - 1}, nil
	case state.Running != nil && status.ContainerID != "":
		return containerRun{status.ContainerID, number}, nil
	case state.Terminated != nil && state.Terminated.ContainerID != "":
		return containerRun{state.Terminated.ContainerID, number}, nil
	case before != nil:
		return containerRun{before.ContainerID, number}, nil
	case state.Terminated != nil:
		return problem("container %q in pod %q is terminated, and its log is gone")
	case state.Waiting == nil || state.Waiting.Reason == "":
		return problem("container %q in pod %q is waiting to start: no logs yet")
	case state.Waiting.Reason == "ErrImagePull" || state.Waiting.Reason == "ImagePullBackOff":
		return problem("container %q in pod %q is waiting to start: trying and failing to pull image")
	default:
		return problem("container %q in pod %q is waiting to start: %s", status.State.Waiting.Reason)
	}
}
