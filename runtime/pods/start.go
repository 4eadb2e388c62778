package pods

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/images"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// startFailure is why a container was not started.
type startFailure struct {
	reason, message string
	// err is the cause, if there is one.
	err error
	// retryAt is when a back-off ends; held is true if that, or a volume that is not ready,
	// kept the container from being tried.
	retryAt time.Time
	held    bool
	// lookAt is when a failure without retryAt has become a back-off, zero if it becomes none.
	lookAt time.Time
	name   string
}

func (f *startFailure) Error() string {
	return fmt.Sprintf("container %s: %s: %s", f.name, f.reason, f.message)
}

func (f *startFailure) Unwrap() error { return f.err }

// RetryAt is when the next sync makes sense for this container, zero if that is not known.
func (f *startFailure) RetryAt() time.Time {
	if f.retryAt.IsZero() {
		return f.lookAt
	}
	return f.retryAt
}

// RetryWithin gives a failure without a moment of its own the plain back-off of the worker, so that
// it does not wait for the moment of another container.
func (f *startFailure) RetryWithin() time.Duration {
	if f.RetryAt().IsZero() {
		return math.MaxInt64
	}
	return 0
}

// starting is one container that is being started.
type starting struct {
	*podSync
	member
	ref *v1.ObjectReference
	// environment is nil until it is built.
	environment *criconfig.Environment
	// stays is true if a container that never ran could not be removed.
	stays bool
	// holding is true while sub-paths of volumes are held for the runtime to mount.
	holding bool
}

// startContainer brings one container up in the order of spec/runtime.md 8.
func (s *podSync) startContainer(ctx context.Context, c member) *startFailure {
	st := &starting{podSync: s, member: c, ref: containerRef(s.pod, c)}
	if f := st.checkPace(); f != nil {
		return f
	}
	if f := st.checkBackOff(); f != nil {
		return f
	}
	if f := st.volumeFailure(); f != nil {
		return f
	}
	// From here on the runtime is called.
	s.result.Acted = true
	image, f := st.pull(ctx)
	if f != nil {
		return f
	}
	defer st.releaseSubPaths(ctx)
	config, f := st.configure(ctx, image)
	if f != nil {
		return f
	}
	if err := st.dropCreated(ctx); err != nil {
		return st.failed(ctx, reasonCreateContainerError, err, "")
	}
	if st.stays {
		st.releaseSubPaths(ctx)
		if config, f = st.configure(ctx, image); f != nil { // under another number
			return f
		}
	}
	if err := s.m.noteActuated(s.pod, c); err != nil {
		return st.failed(ctx, reasonCreateContainerError, err, "")
	}
	id, err := s.createContainer(ctx, config)
	if err != nil {
		s.m.puller.LookAgain(c.spec.Image, s.handler)
		return st.failed(ctx, reasonCreateContainerError, st.aboutImageVolumes(config, err), "")
	}
	st.event(v1.EventTypeNormal, "Created", "Container created: %s", c.spec.Name)
	if err := ctx.Err(); err != nil {
		// The pod is to end: the new container is not started.
		return st.failed(ctx, reasonRunContainerError, err, id)
	}
	if err := s.startCreated(ctx, c.spec.Name, id); err != nil {
		return st.failed(ctx, reasonRunContainerError, err, id)
	}
	s.startedID = id
	st.releaseSubPaths(ctx) // a hook may take long
	st.event(v1.EventTypeNormal, "Started", "Container started: %s", c.spec.Name)
	s.m.linkLog(s.pod, c.spec.Name, id, config.LogPath)
	return st.postStart(ctx, id)
}

func (st *starting) event(eventtype, reason, format string, args ...any) {
	st.m.options.Events.Eventf(st.ref, eventtype, reason, format, args...)
}

// failed makes a failure and raises its event (spec/runtime.md 22.2). After ctx has
// ended there is no event.
func (st *starting) failed(ctx context.Context, reason string, err error, id string) *startFailure {
	message := hideID(err.Error(), id, st.spec.Name)
	if redacted := st.environment.Redact(message); redacted != message {
		// The cause quotes a secret and is dropped; its class stays.
		message, err = redacted, cri.Class(err)
	}
	if ctx.Err() == nil {
		st.event(v1.EventTypeWarning, "Failed", "Error: %s", message)
	}
	return &startFailure{name: st.spec.Name, reason: reason, message: message, err: err}
}

// configure builds the container's configuration. Errors in the definition show here.
func (st *starting) configure(ctx context.Context, image images.Image) (*runtimeapi.ContainerConfig, *startFailure) {
	m := st.m
	config, err := st.containerConfig(ctx, image)
	if err != nil {
		return nil, st.failed(ctx, reasonCreateContainerConfigError, err, "")
	}
	if err := m.makeLogFolder(logDirName(st.pod), st.spec.Name, filepath.Base(config.LogPath)); err != nil {
		return nil, st.failed(ctx, reasonCreateContainerConfigError, err, "")
	}
	return config, nil
}

func (st *starting) containerConfig(ctx context.Context, image images.Image) (*runtimeapi.ContainerConfig, error) {
	m := st.m
	target, err := st.targetID()
	if err != nil {
		return nil, err
	}
	if err := st.buildEnvironment(ctx); err != nil {
		return nil, err
	}
	mounts, err := st.mounts(ctx, st.environment, image.Ref)
	if err != nil {
		return nil, err
	}
	devices, err := st.devices()
	if err != nil {
		return nil, err
	}
	granted, err := st.grant(ctx)
	if err != nil {
		return nil, err
	}
	mounts = append(mounts, granted.mounts()...)
	if err := st.makeMountPoints(ctx, mounts); err != nil {
		return nil, err
	}
	config, err := criconfig.Container(criconfig.ContainerInput{
		Described: meta.Described{
			Pod: st.pod, Container: st.spec, Kind: st.kind, Index: st.index, RestartCount: st.restartCount(),
		},
		Node: m.node, Environment: st.environment, ImageRef: image.Ref,
		ImageUser: criconfig.ImageUser{UID: image.UID, Name: image.Username},
		Mounts:    mounts, TargetID: target, UserNamespace: st.users,
	})
	if err != nil {
		return nil, err
	}
	config.Devices = devices
	granted.addTo(config)
	security := config.Linux.SecurityContext
	security.SupplementalGroups = withVolumeGroups(st.pod, security.SupplementalGroups, st.volumes.groups())
	return config, nil
}

// targetID finds the container an ephemeral container looks into.
func (st *starting) targetID() (string, error) {
	if st.target == "" {
		return "", nil
	}
	record := st.status.Container(st.target)
	if record == nil {
		return "", fmt.Errorf("target container %q does not exist", st.target)
	}
	return record.ID.ID, nil
}

// restartCount returns one more than the highest of the earlier runs, by the runtime's records, the log
// files and the memory of earlier runs: the runtime may have lost some of them
// (spec/runtime.md 2.8). The latest run need not have the highest (1.3). A container that was created and never started has not run: the next
// one takes its place and its number, unless dropCreated could not remove it.
func (st *starting) restartCount() int {
	next := st.m.nextLog(logDirName(st.pod), st.spec.Name)
	if remembered := st.m.options.NextRun; remembered != nil {
		next = max(next, remembered(st.pod.UID, st.spec.Name))
	}
	if st.status == nil {
		return next
	}
	for _, record := range st.status.Containers {
		switch {
		case record.Name != st.spec.Name:
		case record.State == runtime.Created && !st.stays:
			next = max(next, record.RestartCount)
		default:
			next = max(next, record.RestartCount+1)
		}
	}
	return next
}

// errStartedMeanwhile is about a container that is further along than the status shows.
var errStartedMeanwhile = errors.New("a container left by an interrupted start was started after all")

// dropCreated removes containers of this name that were created and never started,
// because no engine will start them any more. An earlier engine may have asked for a
// start that is still under way; the status then shows the container as created. If it
// has started by now, it is a run, and stays for the next sync.
func (st *starting) dropCreated(ctx context.Context) error {
	if st.status == nil {
		return nil
	}
	for _, record := range st.status.Containers {
		if record.Name != st.spec.Name || record.State != runtime.Created {
			continue
		}
		if err := st.dropOne(ctx, record.ID.ID); err != nil {
			return fmt.Errorf("remove container %s: %w", record.Name, err)
		}
	}
	return nil
}

// dropOne reads the container right before it removes it. containerd may be unable to
// remove a container whose start it aborted (it knows of a task that the container does
// not). That container stays behind and keeps its number.
func (st *starting) dropOne(ctx context.Context, id string) error {
	response, err := st.m.runtime.ContainerStatus(ctx, id, false)
	switch {
	case cri.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	now := cri.NewContainerStatus(response.GetStatus(), "")
	if now.State != runtime.Created && !now.StartAborted() {
		return errStartedMeanwhile
	}
	err = st.m.runtime.RemoveContainer(ctx, id)
	switch {
	case cri.IsNotFound(err):
		return nil
	case err != nil && now.StartAborted() && ctx.Err() == nil:
		st.m.options.Logger.Info("A container whose start was aborted cannot be removed; another one takes its place",
			"podUID", st.pod.UID, "container", st.spec.Name, "id", id, "error", err.Error())
		st.stays = true
		return nil
	}
	return err
}

// postStart runs the hook; a container whose hook fails is killed
// (spec/runtime.md 15.1).
func (st *starting) postStart(ctx context.Context, id string) *startFailure {
	if st.spec.Lifecycle == nil || st.spec.Lifecycle.PostStart == nil {
		return nil
	}
	handler := st.spec.Lifecycle.PostStart
	limit := max(st.m.options.PostStartTimeout, 0)
	if handler.Sleep != nil {
		limit = 0 // a sleep ends by itself
	}
	address := firstIP(st.podIPs)
	if st.pod.Spec.HostNetwork {
		address = firstIP(st.m.options.HostIPs()) // the pull may have taken long
	}
	fresh := st.keepFresh(ctx)
	end := st.m.doing.begin(st.pod.UID, &activity{what: "running the postStart hook of container " + st.spec.Name, limit: limit})
	wait, err := st.m.runHookWithin(ctx, limit, hook{
		podUID: st.pod.UID, handler: handler, containerID: id, ports: st.spec.Ports, podIP: address,
		event: func(eventtype, reason, format string, args ...any) {
			st.m.podEvent(st.pod, eventtype, reason, format, args...)
		},
	})
	end()
	fresh()
	defer wait()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil { // the hook was cut off: it has not failed, and the container stays
		return &startFailure{name: st.spec.Name, reason: reasonPostStartHookError, message: "PostStartHook was cut off", err: err}
	}
	// The hook's output may hold secrets and is left out.
	st.event(v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed%s", refusal(err))
	st.m.options.Logger.Info("PostStart hook failed", "podUID", st.pod.UID, "container", st.spec.Name, "error", err.Error())
	st.rememberStopped(ctx, id)
	t := newTarget(st.pod, st.member, id, runtime.Running)
	t.grace = terminationGrace(graceSources{pod: st.pod})
	t.message = "FailedPostStartHook"
	if killErr := st.m.stop(ctx, t, nil); killErr != nil {
		err = errors.Join(err, killErr)
	}
	message := hideID("PostStartHook failed: "+err.Error(), id, st.spec.Name)
	return &startFailure{name: st.spec.Name, reason: reasonPostStartHookError, message: message, err: err}
}

func firstIP(ips []string) string {
	if len(ips) == 0 {
		return ""
	}
	return ips[0]
}
