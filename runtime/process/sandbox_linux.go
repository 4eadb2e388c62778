package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/tree"
	"github.com/podwright/podwright/runtime"
)

// sandbox is a sandbox in memory.
type sandbox struct {
	op      slot          // serialises stop and removal
	stopped chan struct{} // closed once it is permanently not ready

	// Guarded by Runtime.mu. Only record.NotReady changes.
	record  sandboxRecord
	unsaved bool // the record on disk is an older one
}

func (s *sandbox) key() string {
	return fmt.Sprintf("sandbox %q %q %q %d", s.record.Namespace, s.record.Name, s.record.UID, s.record.Attempt)
}

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.record.NotReady {
		return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return runtimeapi.PodSandboxState_SANDBOX_READY
}

// RunPodSandbox records a sandbox and makes its log directory. Port mappings, DNS,
// host name, sysctls and namespaces are accepted and have no effect. A second
// sandbox of the same pod and attempt fails with [runtime.ErrAlreadyExists], a
// runtime handler other than "" with [runtime.ErrInvalid].
func (r *Runtime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (string, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	if runtimeHandler != "" {
		return "", fmt.Errorf("runtime handler %q is unknown, this runtime has only the default: %w", runtimeHandler, runtime.ErrInvalid)
	}
	s, err := r.newSandbox(config)
	if err != nil {
		return "", err
	}
	if err := r.reserve(s.key(), s.record.ID); err != nil {
		return "", fmt.Errorf("sandbox of pod %s/%s, attempt %d: %w", s.record.Namespace, s.record.Name, s.record.Attempt, err)
	}
	if err = os.MkdirAll(s.record.LogDir, 0o755); err == nil {
		err = writeRecord(r.path(sandboxesDir), s.record.ID+".json", s.record)
	}
	if err != nil {
		r.notCreated(s)
		return "", fmt.Errorf("create sandbox of pod %s/%s: %w", s.record.Namespace, s.record.Name, err)
	}
	r.mu.Lock()
	r.sandboxes[s.record.ID] = s
	r.mu.Unlock()
	r.publish(s.record.ID, s.record.ID, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	r.publish(s.record.ID, s.record.ID, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return s.record.ID, nil
}

// notCreated sees to it that no later agent finds a sandbox that could not be created: it would be a second one of its
// pod that is ready. If its record is in place all the same, and cannot be removed, the sandbox is one that was stopped.
func (r *Runtime) notCreated(s *sandbox) {
	// Neither call needs an open file. After a loss of power no sandbox is ready, so nothing is synced.
	id, path := s.record.ID, r.path(sandboxesDir, s.record.ID+".json")
	_, err := os.Lstat(path)
	if err == nil {
		err = os.Remove(path)
	}
	gone := err == nil || errors.Is(err, fs.ErrNotExist)
	r.mu.Lock()
	if gone {
		delete(r.names, s.key())
	} else {
		s.record.NotReady, s.unsaved, r.sandboxes[id] = true, true, s
	}
	r.mu.Unlock()
	if gone {
		return
	}
	close(s.stopped)
	r.log.Error(err, "Cannot remove the record of a sandbox that could not be created; the sandbox counts as stopped", "sandbox", id)
	r.publish(id, id, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	r.publish(id, id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	r.saveLater()
}

func (r *Runtime) newSandbox(config *runtimeapi.PodSandboxConfig) (*sandbox, error) {
	m := config.GetMetadata()
	if m == nil {
		return nil, fmt.Errorf("sandbox config has no metadata: %w", runtime.ErrInvalid)
	}
	id, err := r.newID()
	if err != nil {
		return nil, err
	}
	dir := config.GetLogDirectory()
	switch {
	case dir == "":
		dir = r.path(logsDir, id)
	case !filepath.IsAbs(dir) || hasDotDot(dir) || strings.ContainsRune(dir, 0):
		return nil, fmt.Errorf("log directory %q is not an absolute path without \"..\": %w", dir, runtime.ErrInvalid)
	}
	s := &sandbox{op: newSlot(), stopped: make(chan struct{}), record: sandboxRecord{
		ID: id, Name: m.GetName(), UID: m.GetUid(), Namespace: m.GetNamespace(), Attempt: m.GetAttempt(),
		CreatedAt: r.clock.Now(), BootID: r.bootID, LogDir: filepath.Clean(dir),
		Labels: maps.Clone(config.GetLabels()), Annotations: maps.Clone(config.GetAnnotations()),
	}}
	if o := config.GetLinux().GetSecurityContext().GetNamespaceOptions(); o != nil {
		s.record.Namespaces = &namespaceModes{Network: o.GetNetwork(), PID: o.GetPid(), IPC: o.GetIpc(), TargetID: o.GetTargetId()}
	}
	return s, nil
}

// hasDotDot reports whether a path has an element "..".
func hasDotDot(path string) bool {
	return slices.Contains(strings.Split(path, "/"), "..")
}

// reserve takes a name for an object that is about to be made.
func (r *Runtime) reserve(key, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, taken := r.names[key]; taken {
		return fmt.Errorf("%w: its name is reserved for %s", runtime.ErrAlreadyExists, other)
	}
	r.names[key] = id
	return nil
}

// StopPodSandbox marks the sandbox as not ready and kills its containers.
// Stopping a stopped or unknown sandbox succeeds. It needs no room on the disk: a record
// that cannot be written now is written later.
func (r *Runtime) StopPodSandbox(ctx context.Context, podSandboxID string) error {
	return r.withSandbox(ctx, podSandboxID, func(s *sandbox) error { return r.stopSandbox(ctx, s) })
}

// withSandbox calls f with the slot of a sandbox. It succeeds if there is no such sandbox.
func (r *Runtime) withSandbox(ctx context.Context, id string, f func(*sandbox) error) error {
	leave, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	s := r.sandbox(id)
	if s == nil {
		return nil
	}
	if err := r.acquire(ctx, s.op); err != nil {
		return err
	}
	defer s.op.release()
	return f(s)
}

func (r *Runtime) sandbox(id string) *sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sandboxes[id]
}

// stopSandbox does what StopPodSandbox promises; the caller holds the slot.
func (r *Runtime) stopSandbox(ctx context.Context, s *sandbox) error {
	r.mu.Lock()
	was, id := s.record.NotReady, s.record.ID
	s.record.NotReady = true // from here on no container is created or started
	s.unsaved = s.unsaved || !was
	r.mu.Unlock()
	if !was {
		close(s.stopped)
		r.publish(id, id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
	containers := r.containersOf(id)
	var errs []error
	for _, c := range containers {
		errs = append(errs, r.beginStop(ctx, c, 0))
	}
	// A pod that fills the disk has to be stopped before the disk takes a record.
	if err := r.saveSandbox(s); err != nil {
		r.log.Error(err, "Cannot record that a sandbox is stopped; it is tried again", "sandbox", id)
		r.saveLater()
	}
	for _, c := range containers {
		errs = append(errs, r.awaitStop(ctx, c))
	}
	return errors.Join(errs...)
}

// containersOf returns the containers of a sandbox, in no order.
func (r *Runtime) containersOf(sandboxID string) []*container {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*container
	for _, c := range r.containers {
		if c.record.SandboxID == sandboxID {
			out = append(out, c)
		}
	}
	return out
}

// RemovePodSandbox stops the sandbox and removes it with its containers. Log
// files stay, unless the sandbox had no log directory of its own. Removing an
// unknown sandbox succeeds.
func (r *Runtime) RemovePodSandbox(ctx context.Context, podSandboxID string) error {
	return r.withSandbox(ctx, podSandboxID, func(s *sandbox) error { return r.removeSandbox(ctx, s) })
}

// removeSandbox does what RemovePodSandbox promises; the caller holds the slot.
func (r *Runtime) removeSandbox(ctx context.Context, s *sandbox) error {
	podSandboxID := s.record.ID
	if r.sandbox(podSandboxID) == nil { // removed meanwhile
		return nil
	}
	if err := r.stopSandbox(ctx, s); err != nil {
		return err
	}
	for _, c := range r.containersOf(podSandboxID) {
		if err := r.removeContainer(ctx, c); err != nil {
			return err
		}
	}
	if err := removeRecord(r.path(sandboxesDir), podSandboxID+".json"); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", podSandboxID, err)
	}
	r.mu.Lock()
	delete(r.sandboxes, podSandboxID)
	delete(r.names, s.key())
	r.mu.Unlock()
	if err := tree.RemovePath(ctx, r.path(logsDir, podSandboxID)); err != nil {
		r.log.Error(err, "Cannot remove the logs of a removed sandbox", "sandbox", podSandboxID)
	}
	r.publish(podSandboxID, podSandboxID, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	return nil
}

// ListPodSandbox returns the sandboxes that match filter, oldest first.
func (r *Runtime) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []*runtimeapi.PodSandbox{}
	for _, s := range r.sandboxes {
		switch {
		case filter.GetId() != "" && filter.GetId() != s.record.ID,
			filter.GetState() != nil && filter.GetState().GetState() != s.state(),
			!matches(filter.GetLabelSelector(), s.record.Labels):
			continue
		}
		out = append(out, &runtimeapi.PodSandbox{
			Id: s.record.ID, Metadata: s.metadata(), State: s.state(), CreatedAt: s.record.CreatedAt.UnixNano(),
			Labels: maps.Clone(s.record.Labels), Annotations: maps.Clone(s.record.Annotations),
		})
	}
	slices.SortFunc(out, func(a, b *runtimeapi.PodSandbox) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.Id, b.Id))
	})
	return out, nil
}

// matches reports whether labels has everything selector wants.
func matches(selector, labels map[string]string) bool {
	for k, want := range selector {
		if got, ok := labels[k]; !ok || got != want {
			return false
		}
	}
	return true
}

func (s *sandbox) metadata() *runtimeapi.PodSandboxMetadata {
	return &runtimeapi.PodSandboxMetadata{
		Name: s.record.Name, Uid: s.record.UID, Namespace: s.record.Namespace, Attempt: s.record.Attempt,
	}
}

// PodSandboxStatus returns the sandbox's status. It reports no network: a sandbox
// has no address of its own.
func (r *Runtime) PodSandboxStatus(ctx context.Context, podSandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[podSandboxID]
	if s == nil {
		return nil, fmt.Errorf("sandbox %q: %w", podSandboxID, runtime.ErrNotFound)
	}
	response := &runtimeapi.PodSandboxStatusResponse{Status: s.status()}
	if verbose {
		response.Info = map[string]string{"logDirectory": s.record.LogDir}
	}
	return response, nil
}

func (s *sandbox) status() *runtimeapi.PodSandboxStatus {
	status := &runtimeapi.PodSandboxStatus{
		Id: s.record.ID, Metadata: s.metadata(), State: s.state(), CreatedAt: s.record.CreatedAt.UnixNano(),
		Labels: maps.Clone(s.record.Labels), Annotations: maps.Clone(s.record.Annotations),
	}
	if n := s.record.Namespaces; n != nil {
		status.Linux = &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: &runtimeapi.NamespaceOption{Network: n.Network, Pid: n.PID, Ipc: n.IPC, TargetId: n.TargetID},
		}}
	}
	return status
}
