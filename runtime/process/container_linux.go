package process

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/tree"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/process/internal/osproc"
)

// container is a container in memory.
type container struct {
	record containerRecord // never changes
	dir    string
	op     slot // serialises creation, start, the beginning of a stop, removal

	// exited is closed when the container has ended. looked is set before that, and closed
	// once its leftovers were looked for.
	exited chan struct{}
	looked <-chan struct{}

	// Guarded by Runtime.mu.
	visible bool // false while it is being created
	state   runtimeapi.ContainerState
	run     *run // while it runs
	started startedRecord
	exit    exitRecord // once it has ended
	unsaved bool       // exit is not on disk
	// The stop under way, if any.
	asked  bool        // the stop signal was sent
	timer  clock.Timer // kills when the grace period is over
	killAt time.Time
	dying  int // commands in it that were killed and have not ended
}

// run is what the agent holds of a running container. It never changes.
type run struct {
	process    *osproc.Process // nil if it had ended before the agent could hold it
	supervisor *osproc.Process // nil if there is none
	child      int             // pid of the child to reap, 0 if it is not this agent's
	output     *output         // if the agent copies the output
}

// release frees everything; drain says that the container has ended.
func (u *run) release(drain bool) {
	if u.output != nil {
		u.output.close(drain)
	}
	for _, p := range []*osproc.Process{u.process, u.supervisor} {
		if p != nil {
			p.Close()
		}
	}
}

func newContainer(record *containerRecord, dir string) *container {
	return &container{
		record: *record, dir: dir, op: newSlot(), exited: make(chan struct{}),
		state: runtimeapi.ContainerState_CONTAINER_CREATED,
	}
}

func (c *container) key() string {
	return fmt.Sprintf("container %s %q %d", c.record.SandboxID, c.record.Name, c.record.Attempt)
}

// CreateContainer checks a config and records the container; nothing runs yet.
// [runtime.ErrInvalid] names all problems of the config at once. The sandbox must be
// ready ([runtime.ErrFailedPrecondition]). The sandbox keeps the config it was run
// with; sandboxConfig is ignored.
func (r *Runtime) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	s := r.sandbox(podSandboxID)
	if s == nil {
		return "", fmt.Errorf("sandbox %q: %w", podSandboxID, runtime.ErrNotFound)
	}
	record, err := r.newRecord(s, config)
	if err != nil {
		return "", err
	}
	if ignored := notApplied(config); len(ignored) > 0 {
		r.log.Info("The process runtime does not apply these limits", "container", record.Name, "sandbox", podSandboxID, "limits", ignored)
	}
	c := newContainer(record, r.path(containersDir, record.ID))
	c.op <- struct{}{} // the container is not visible yet
	defer c.op.release()
	if err := r.reserve(c.key(), record.ID); err != nil {
		return "", fmt.Errorf("container %q, attempt %d: %w", record.Name, record.Attempt, err)
	}
	r.mu.Lock()
	stopped := s.record.NotReady || r.sandboxes[podSandboxID] == nil
	if !stopped {
		r.containers[record.ID] = c
	}
	r.mu.Unlock()
	if stopped {
		err = fmt.Errorf("sandbox %s is not ready: %w", podSandboxID, runtime.ErrFailedPrecondition)
	} else if err = os.Mkdir(c.dir, 0o700); err == nil {
		err = writeRecord(c.dir, containerFile, record)
	}
	if err != nil {
		r.forget(c)
		_ = os.Remove(filepath.Join(c.dir, containerFile)) // which needs no open file
		_ = os.RemoveAll(c.dir)                            // New removes what remains
		return "", fmt.Errorf("create container %q: %w", record.Name, err)
	}
	r.mu.Lock()
	c.visible = true
	r.mu.Unlock()
	r.publish(podSandboxID, record.ID, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return record.ID, nil
}

// forget drops a container from memory, with its image if no other container uses that, and frees its name.
func (r *Runtime) forget(c *container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, c.record.ID)
	delete(r.names, c.key())
	for _, other := range r.containers {
		if other.record.ImageRef == c.record.ImageRef {
			return
		}
	}
	delete(r.folders, c.record.ImageRef)
}

// container returns a container by ID, or nil.
func (r *Runtime) container(id string) *container {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil && c.visible {
		return c
	}
	return nil
}

func containerNotFound(id string) error {
	return fmt.Errorf("container %q: %w", id, runtime.ErrNotFound)
}

// RemoveContainer stops the container at once, as StopContainer does, and removes
// it. Its log files stay. Removing an unknown container succeeds.
func (r *Runtime) RemoveContainer(ctx context.Context, containerID string) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	c := r.container(containerID)
	if c == nil {
		return nil
	}
	return r.removeContainer(ctx, c)
}

func (r *Runtime) removeContainer(ctx context.Context, c *container) error {
	if err := r.beginStop(ctx, c, 0); err != nil {
		return err
	}
	if err := r.awaitStop(ctx, c); err != nil {
		return err
	}
	if err := r.acquire(ctx, c.op); err != nil {
		return err
	}
	defer c.op.release()
	r.mu.Lock()
	gone, running := r.containers[c.record.ID] != c, c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
	r.mu.Unlock()
	if gone {
		return nil
	}
	if running { // it was created, and has just been started
		return fmt.Errorf("container %s was started while it was removed: %w", c.record.ID, runtime.ErrFailedPrecondition)
	}
	// It may have been started and have ended since.
	if err := r.awaitStop(ctx, c); err != nil {
		return err
	}
	// A folder without this record holds no container, and no agent looks for its leftovers.
	if err := removeRecord(c.dir, containerFile); err != nil {
		return fmt.Errorf("remove container %s: %w", c.record.ID, err)
	}
	r.forget(c)
	if err := tree.RemovePath(ctx, c.dir); err != nil {
		r.log.Error(err, "Folder of a removed container stays until the next start", "container", c.record.ID)
	}
	r.publish(c.record.SandboxID, c.record.ID, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	return nil
}

// ListContainers returns the containers that match filter, oldest first.
func (r *Runtime) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []*runtimeapi.Container{}
	for _, c := range r.containers {
		switch {
		case !c.visible,
			filter.GetId() != "" && filter.GetId() != c.record.ID,
			filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.record.SandboxID,
			filter.GetState() != nil && filter.GetState().GetState() != c.state,
			!matches(filter.GetLabelSelector(), c.record.Labels):
			continue
		}
		out = append(out, &runtimeapi.Container{
			Id: c.record.ID, PodSandboxId: c.record.SandboxID, Metadata: c.metadata(), Image: c.image(),
			ImageRef: c.record.ImageRef, ImageId: c.record.ImageRef, State: c.state, CreatedAt: c.record.CreatedAt.UnixNano(),
			Labels: maps.Clone(c.record.Labels), Annotations: maps.Clone(c.record.Annotations),
		})
	}
	slices.SortFunc(out, func(a, b *runtimeapi.Container) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.Id, b.Id))
	})
	return out, nil
}

func (c *container) metadata() *runtimeapi.ContainerMetadata {
	return &runtimeapi.ContainerMetadata{Name: c.record.Name, Attempt: c.record.Attempt}
}

func (c *container) image() *runtimeapi.ImageSpec {
	return &runtimeapi.ImageSpec{Image: c.record.Image, UserSpecifiedImage: c.record.UserSpecifiedImage}
}

// ContainerStatus returns the container's status. With verbose, info holds under
// "info" a JSON object with its sandboxID, pid (0 if it does not run),
// supervisorPid (0 if it has none) and folder.
func (r *Runtime) ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[containerID]
	if c == nil || !c.visible {
		return nil, containerNotFound(containerID)
	}
	response := &runtimeapi.ContainerStatusResponse{Status: c.status()}
	if verbose {
		info, err := json.Marshal(c.info())
		if err != nil {
			return nil, fmt.Errorf("container %s: %w", containerID, err)
		}
		response.Info = map[string]string{"info": string(info)}
	}
	return response, nil
}

// status builds the status; the caller holds Runtime.mu.
func (c *container) status() *runtimeapi.ContainerStatus {
	s := &runtimeapi.ContainerStatus{
		Id: c.record.ID, Metadata: c.metadata(), State: c.state, CreatedAt: c.record.CreatedAt.UnixNano(),
		Image: c.image(), ImageRef: c.record.ImageRef, ImageId: c.record.ImageRef,
		Labels: maps.Clone(c.record.Labels), Annotations: maps.Clone(c.record.Annotations),
		LogPath: c.record.logPath(), StopSignal: signalOf(c.record.StopSignal),
	}
	if at := c.started.StartedAt; !at.IsZero() {
		s.StartedAt = at.UnixNano()
	}
	if c.state == runtimeapi.ContainerState_CONTAINER_EXITED {
		s.FinishedAt, s.ExitCode = c.exit.FinishedAt.UnixNano(), c.exit.Code
		s.Reason, s.Message = c.exit.Reason, c.exit.Message
	}
	for _, m := range c.record.Mounts {
		mount := &runtimeapi.Mount{ContainerPath: m.ContainerPath, HostPath: m.HostPath, Readonly: m.Readonly}
		if m.FromHost {
			mount.Propagation = runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
		}
		s.Mounts = append(s.Mounts, mount)
	}
	if u := c.record.User; u != nil {
		linux := &runtimeapi.LinuxContainerUser{Uid: int64(u.UID), Gid: int64(u.GID)}
		for _, g := range u.Groups {
			linux.SupplementalGroups = append(linux.SupplementalGroups, int64(g))
		}
		s.User = &runtimeapi.ContainerUser{Linux: linux}
	}
	return s
}

// containerInfo is the verbose part of a status.
type containerInfo struct {
	SandboxID     string `json:"sandboxID"`
	PID           int    `json:"pid"`
	SupervisorPID int    `json:"supervisorPid"`
	Folder        string `json:"folder"`
}

func (c *container) info() containerInfo {
	info := containerInfo{SandboxID: c.record.SandboxID, Folder: filepath.Clean(c.dir)}
	if c.run != nil && c.run.process != nil {
		info.PID = c.run.process.Identity().PID
	}
	if c.run != nil && c.run.supervisor != nil {
		info.SupervisorPID = c.run.supervisor.Identity().PID
	}
	return info
}
