package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

// Exit codes and reasons real runtimes use.
const (
	codeKilled     = 137
	codeStartError = 128
	codeLost       = 255
)

// container is a container. It is guarded by the runtime's lock; sandbox,
// config, script and key never change.
type container struct {
	id       string
	key      containerKey
	labelled string // with this pod's UID
	sandbox  *sandbox
	config   *runtimeapi.ContainerConfig
	script   Script
	image    *storedImage

	state runtimeapi.ContainerState
	// The times of the status, which never run backwards; begun is the clock's time at
	// which the script began.
	created  time.Time
	begun    time.Time
	started  time.Time
	finished time.Time
	exit     Exit

	// run tells apart what was scheduled before and after a change of state.
	run int
	// changed is closed and replaced when the state or a pending kill changes.
	changed chan struct{}
	// ends are the scheduled ends. The earliest one happens.
	ends []*scheduledEnd
	log  *logFile

	// item is the container as the latest list showed it. It is shared with callers.
	item *runtimeapi.Container

	// resources are the current limits; they are replaced, never changed.
	resources *runtimeapi.LinuxContainerResources
	// memory is what the container uses.
	memory uint64
}

func (c *container) name() string { return c.config.GetMetadata().GetName() }

func (c *container) running() bool {
	return c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
}

// notify wakes all calls that wait for this container.
func (c *container) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// reservedName is the name that a container reserves while it exists. It includes
// the sandbox's attempt, because a new sandbox may hold the same container attempt.
func reservedName(s *sandbox, m *runtimeapi.ContainerMetadata) string {
	return fmt.Sprintf("%s_%d_%s", m.GetName(), m.GetAttempt(), s.name())
}

// CreateContainer makes a container in the state created. Its image must be in
// the store, its sandbox ready.
func (f *Runtime) CreateContainer(ctx context.Context, podSandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	return f.createContainerOf(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: podSandboxID, Config: clone(config), SandboxConfig: clone(sandboxConfig)})
}

// createContainerOf is CreateContainer with a request that it may keep.
func (f *Runtime) createContainerOf(ctx context.Context, request *runtimeapi.CreateContainerRequest) (string, error) {
	podSandboxID, config, m := request.GetPodSandboxId(), request.GetConfig(), request.GetSandboxConfig().GetMetadata()
	call := Call{
		Method: CreateContainer, SandboxID: podSandboxID, Container: config.GetMetadata().GetName(),
		PodUID: types.UID(m.GetUid()), Pod: m.GetName(), Request: request,
	}
	var script Script
	c, err := do(ctx, f, call, step[*container]{
		before: func(context.Context) error {
			if f.options.Script == nil {
				return nil
			}
			launch, err := f.launch(podSandboxID, config)
			if err != nil {
				return err
			}
			script = f.options.Script(launch)
			if launch.Number <= script.Crashes {
				script.Crash.Code = cmp.Or(script.Crash.Code, 1)
				script.Exit = &script.Crash
			}
			return script.CreateErr
		},
		effect: func() (*container, error) { return f.createContainer(podSandboxID, config, script) },
	})
	if err != nil {
		return "", err
	}
	return c.id, nil
}

// launch describes a creation for the script, and counts it.
func (f *Runtime) launch(podSandboxID string, config *runtimeapi.ContainerConfig) (Launch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sandboxes.byID[podSandboxID]
	if s == nil {
		return Launch{}, fmt.Errorf("sandbox %q: %w", podSandboxID, runtime.ErrNotFound)
	}
	facts := f.factsOf(containerKey{s.uid(), config.GetMetadata().GetName()})
	return Launch{
		PodUID:       s.uid(),
		PodName:      s.config.GetMetadata().GetName(),
		PodNamespace: s.config.GetMetadata().GetNamespace(),
		Container:    config.GetMetadata().GetName(),
		Attempt:      config.GetMetadata().GetAttempt(),
		Image:        config.GetImage().GetImage(),
		Number:       facts.Created + 1,
		Config:       clone(config),
	}, nil
}

// createContainer makes the container. The lock must be held.
func (f *Runtime) createContainer(podSandboxID string, config *runtimeapi.ContainerConfig, script Script) (*container, error) {
	s := f.sandboxes.byID[podSandboxID]
	if s == nil {
		return nil, fmt.Errorf("sandbox %q: %w", podSandboxID, runtime.ErrNotFound)
	}
	if !s.ready {
		return nil, fmt.Errorf("sandbox %q is not ready: %w", podSandboxID, runtime.ErrFailedPrecondition)
	}
	if config.GetMetadata().GetName() == "" {
		return nil, fmt.Errorf("container without a name: %w", runtime.ErrInvalid)
	}
	name := reservedName(s, config.GetMetadata())
	if other := f.reserved[name]; other != "" {
		return nil, fmt.Errorf("name %q is reserved for %q: %w", name, other, runtime.ErrAlreadyExists)
	}
	image := f.findImage(config.GetImage().GetImage())
	if image == nil {
		return nil, fmt.Errorf("image %q: %w", config.GetImage().GetImage(), runtime.ErrNotFound)
	}
	f.nextID++
	c := &container{
		id:      fmt.Sprintf("container-%d", f.nextID),
		key:     containerKey{s.uid(), config.GetMetadata().GetName()},
		sandbox: s, config: config, script: script, image: image, labelled: config.GetLabels()[runtime.LabelPodUID],
		state:   runtimeapi.ContainerState_CONTAINER_CREATED,
		created: f.creationTime(),
		changed: make(chan struct{}), resources: config.GetLinux().GetResources(),
	}
	f.containers.add(c)
	s.containers = append(s.containers, c)
	f.reserved[name] = c.id
	f.factsOf(c.key).Created++
	f.emit(s, c, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return c, nil
}

// StartContainer starts a created container and schedules its script.
func (f *Runtime) StartContainer(ctx context.Context, id string) error {
	call := Call{Method: StartContainer, ContainerID: id, Request: &runtimeapi.StartContainerRequest{ContainerId: id}}
	_, err := do(ctx, f, call, step[struct{}]{
		before: func(context.Context) error {
			path, err := f.startable(id)
			if err != nil || path == "" {
				return err
			}
			return touch(path)
		},
		effect: func() (struct{}, error) {
			c, err := f.createdContainer(id)
			if err != nil {
				return struct{}{}, err
			}
			if path := c.logPath(); path != "" && f.options.WriteLogs {
				c.log = &logFile{path: path}
			}
			return struct{}{}, f.startContainer(c)
		},
	})
	return err
}

// startable returns the log path of a container that can be started, "" if it
// writes none.
func (f *Runtime) startable(id string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.createdContainer(id)
	if err != nil || !f.options.WriteLogs {
		return "", err
	}
	return c.logPath(), nil
}

// createdContainer returns a container that can be started. The lock must be
// held.
func (f *Runtime) createdContainer(id string) (*container, error) {
	c := f.containers.byID[id]
	switch {
	case c == nil:
		return nil, fmt.Errorf("container %q: %w", id, runtime.ErrNotFound)
	case c.state != runtimeapi.ContainerState_CONTAINER_CREATED:
		return nil, fmt.Errorf("container %q is in state %v: %w", id, c.state, runtime.ErrFailedPrecondition)
	case !c.sandbox.ready:
		return nil, fmt.Errorf("sandbox %q is not ready: %w", c.sandbox.id, runtime.ErrFailedPrecondition)
	}
	return c, nil
}

// startContainer starts the script. The lock must be held.
func (f *Runtime) startContainer(c *container) error {
	if c.script.StartErr != nil {
		f.end(c, Exit{Code: codeStartError, Reason: "StartError", Message: c.script.StartErr.Error()})
		return c.script.StartErr
	}
	c.state = runtimeapi.ContainerState_CONTAINER_RUNNING
	c.begun, c.started = f.now, latest(f.now, c.created)
	c.notify()
	facts := f.factsOf(c.key)
	facts.Started++
	facts.Running++
	facts.MaxRunning = max(facts.MaxRunning, facts.Running)
	f.emit(c.sandbox, c, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)

	// Schedule lines before the exit: of two things due at one moment, the line comes first.
	run := c.run
	if c.log != nil {
		for _, line := range c.script.Log {
			f.writeAt(c, run, c.begun.Add(line.After), line)
		}
	}
	if exit := c.script.Exit; exit != nil {
		f.endAt(c, c.begun.Add(exit.After), *exit)
		f.runDue()
	}
	return nil
}

// writeAt writes a line at a moment, if this run of the container has not ended.
func (f *Runtime) writeAt(c *container, run int, moment time.Time, line Line) {
	f.at(moment, func() {
		if c.run != run {
			return
		}
		f.logs.add(c.log, moment, line)
		if line.Every > 0 {
			f.writeAt(c, run, moment.Add(line.Every), line)
		}
	})
}

// endAt ends the container at a moment, unless it ends earlier.
func (f *Runtime) endAt(c *container, moment time.Time, exit Exit) (withdraw func()) {
	end := &scheduledEnd{at: moment}
	c.ends = append(c.ends, end)
	f.at(moment, func() {
		if slices.Contains(c.ends, end) {
			f.end(c, exit)
		}
	})
	c.notify()
	return func() {
		c.ends = slices.DeleteFunc(c.ends, func(other *scheduledEnd) bool { return other == end })
		c.notify()
	}
}

// scheduledEnd is a moment at which a container will end.
type scheduledEnd struct{ at time.Time }

// nextEnd returns the earliest scheduled end, zero if there is none.
func (c *container) nextEnd() time.Time {
	var next time.Time
	for _, end := range c.ends {
		if next.IsZero() || end.at.Before(next) {
			next = end.at
		}
	}
	return next
}

// end makes the container exited now. The lock must be held.
func (f *Runtime) end(c *container, exit Exit) {
	if c.running() {
		f.factsOf(c.key).Running--
	}
	if exit.Reason == "" {
		exit.Reason = "Completed"
		if exit.Code != 0 {
			exit.Reason = "Error"
		}
	}
	c.state, c.exit, c.finished = runtimeapi.ContainerState_CONTAINER_EXITED, exit, latest(f.now, c.started)
	c.run++
	c.ends = nil
	f.logs.close(c.log)
	c.log = nil
	c.notify()
	f.emit(c.sandbox, c, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// kill ends a running container as SIGKILL does. The lock must be held.
func (f *Runtime) kill(c *container) {
	if c.running() || c.state == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
		f.end(c, Exit{Code: codeKilled})
	}
}

// removeContainer kills and forgets a container. The lock must be held.
func (f *Runtime) removeContainer(c *container) {
	f.kill(c)
	f.containers.remove(c)
	c.sandbox.containers = without(c.sandbox.containers, c)
	delete(f.reserved, reservedName(c.sandbox, c.config.GetMetadata()))
	c.notify()
	f.emit(c.sandbox, c, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
}

// RemoveContainer kills and forgets a container.
func (f *Runtime) RemoveContainer(ctx context.Context, id string) error {
	call := Call{Method: RemoveContainer, ContainerID: id, Request: &runtimeapi.RemoveContainerRequest{ContainerId: id}}
	_, err := do(ctx, f, call, step[struct{}]{effect: func() (struct{}, error) {
		if c := f.containers.byID[id]; c != nil {
			f.removeContainer(c)
		}
		return struct{}{}, nil
	}})
	return err
}

// ContainerStatus returns a container's status.
func (f *Runtime) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	call := Call{
		Method: ContainerStatus, ContainerID: id,
		Request: &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose},
	}
	return do(ctx, f, call, step[*runtimeapi.ContainerStatusResponse]{effect: func() (*runtimeapi.ContainerStatusResponse, error) {
		c := f.containers.byID[id]
		if c == nil {
			return nil, fmt.Errorf("container %q: %w", id, runtime.ErrNotFound)
		}
		return &runtimeapi.ContainerStatusResponse{Status: c.status()}, nil
	}})
}

// status builds a status that is not shared.
func (c *container) status() *runtimeapi.ContainerStatus {
	status := &runtimeapi.ContainerStatus{
		Id:          c.id,
		Metadata:    copyContainerMetadata(c.config.GetMetadata()),
		State:       c.state,
		CreatedAt:   c.created.UnixNano(),
		Image:       copyImage(c.config.GetImage()),
		ImageRef:    c.image.id,
		ImageId:     c.image.id,
		Labels:      maps.Clone(c.config.GetLabels()),
		Annotations: maps.Clone(c.config.GetAnnotations()),
		LogPath:     c.logPath(),
		StopSignal:  c.config.GetStopSignal(),
	}
	for _, m := range c.config.GetMounts() {
		status.Mounts = append(status.Mounts, clone(m))
	}
	if c.resources != nil {
		status.Resources = &runtimeapi.ContainerResources{Linux: clone(c.resources)}
	}
	if sc := c.config.GetLinux().GetSecurityContext(); sc.GetRunAsUser() != nil {
		status.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{
			Uid: sc.GetRunAsUser().GetValue(), Gid: sc.GetRunAsGroup().GetValue(), SupplementalGroups: slices.Clone(sc.GetSupplementalGroups()),
		}}
	}
	if !c.started.IsZero() {
		status.StartedAt = c.started.UnixNano()
	}
	if !c.finished.IsZero() {
		status.FinishedAt = c.finished.UnixNano()
		status.ExitCode, status.Reason, status.Message = c.exit.Code, c.exit.Reason, c.exit.Message
	}
	return status
}

// logPath is the absolute path of the log file, "" if there is none.
func (c *container) logPath() string {
	dir, path := c.sandbox.config.GetLogDirectory(), c.config.GetLogPath()
	if dir == "" || path == "" {
		return ""
	}
	return filepath.Join(dir, path)
}

// ListContainers returns the containers that match filter, oldest first. With a nil filter, an unchanged
// container is the same object as in the previous list: do not modify it.
func (f *Runtime) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	filter = clone(filter)
	call := Call{Method: ListContainers, Request: &runtimeapi.ListContainersRequest{Filter: filter}}
	return do(ctx, f, call, step[[]*runtimeapi.Container]{
		effect: func() ([]*runtimeapi.Container, error) {
			listed := f.listed(filter)
			list := make([]*runtimeapi.Container, 0, len(listed))
			for _, c := range listed {
				switch {
				case filter == nil:
					list = append(list, c.sharedItem())
				case filter.GetId() != "" && filter.GetId() != c.id,
					filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.sandbox.id,
					filter.GetState() != nil && filter.GetState().GetState() != c.state,
					!selects(filter.GetLabelSelector(), c.config.GetLabels()):
				default:
					list = append(list, clone(c.sharedItem()))
				}
			}
			return list, nil
		},
		filter: keepByID[*runtimeapi.Container],
	})
}

// sharedItem returns the container as lists show it. The object is reused until the state changes, because
// nothing else in it does, and a list of a thousand pods is made every second. The lock must be held.
func (c *container) sharedItem() *runtimeapi.Container {
	if c.item == nil || c.item.State != c.state {
		c.item = &runtimeapi.Container{
			Id: c.id, PodSandboxId: c.sandbox.id, State: c.state, CreatedAt: c.created.UnixNano(),
			Metadata: c.config.GetMetadata(), Image: c.config.GetImage(), ImageRef: c.image.id, ImageId: c.image.id,
			Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		}
	}
	return c.item
}

// listed returns the containers that a list with this filter has to look at. The lock must be held.
func (f *Runtime) listed(filter *runtimeapi.ContainerFilter) []*container {
	if s := f.sandboxes.byID[filter.GetPodSandboxId()]; s != nil {
		return s.containers
	}
	if uid, one := filter.GetLabelSelector()[runtime.LabelPodUID]; one {
		return f.containers.ofPod[uid]
	}
	return f.containers.all
}

// ReopenContainerLog closes the log file and opens its path again. For a running
// container without a log it returns [runtime.ErrNoLog].
func (f *Runtime) ReopenContainerLog(ctx context.Context, id string) error {
	call := Call{Method: ReopenContainerLog, ContainerID: id, Request: &runtimeapi.ReopenContainerLogRequest{ContainerId: id}}
	_, err := do(ctx, f, call, step[*reopening]{
		effect: func() (*reopening, error) {
			c := f.containers.byID[id]
			switch {
			case c == nil:
				return nil, fmt.Errorf("container %q: %w", id, runtime.ErrNotFound)
			case !c.running():
				return nil, fmt.Errorf("container %q is in state %v: %w", id, c.state, runtime.ErrFailedPrecondition)
			case c.log == nil:
				return nil, fmt.Errorf("container %q: %w", id, runtime.ErrNoLog)
			}
			return f.logs.reopen(c.log), nil
		},
		after: func(_ context.Context, r *reopening) (*reopening, error) {
			return r, errors.Join(f.logs.flush(f), r.err)
		},
	})
	return err
}

// latest returns the later of two moments.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
