package runtimetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/internal/watchtest"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// Timing of the suite. None of it is an assertion about speed.
const (
	defaultTimeout = time.Minute
	cleanupTimeout = 30 * time.Second
	defaultLogWait = 2 * time.Second
	pollInterval   = 25 * time.Millisecond
	// longGrace is a grace period no well-behaved program uses up.
	longGrace = 30
)

// env is what one case works with: the subject, a context with the case's
// deadline, and builders for objects that are cleaned up afterwards.
type env struct {
	*watchtest.T
	Subject
	ctx context.Context

	podUID     string
	containers atomic.Uint32
	sandboxes  atomic.Uint32
}

// completed returns the subject of a case with its defaults.
func completed(t *testing.T, s Subject) Subject {
	t.Helper()
	if s.Runtime == nil || s.Images == nil || s.Image == "" || s.Command == nil {
		t.Fatal("runtimetest: Subject needs Runtime, Images, Image and Command")
	}
	if s.AbsentImage == "" {
		s.AbsentImage = "localhost:1/podwright/absent:v1"
	}
	if s.WorkingDir == "" {
		s.WorkingDir = "/tmp"
	}
	if s.LogDir == "" {
		s.LogDir = t.TempDir()
	}
	if s.Clock == nil {
		s.Clock = clock.RealClock{}
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	if s.LogWait == 0 {
		s.LogWait = defaultLogWait
	}
	return s
}

// runCase runs a case under a watchdog: a call that goes on after its context fails the case.
func runCase(t *testing.T, factory Factory, body func(*env)) {
	t.Helper()
	s := completed(t, factory(t))
	limits := watchtest.Limits{Clock: s.Clock, Body: s.Timeout, Cleanup: 2*cleanupTimeout + watchtest.Patience, Subject: "the runtime"}
	watchtest.RunContext(t, limits, func(ctx context.Context, w *watchtest.T) {
		body(&env{T: w, Subject: s, ctx: ctx, podUID: uniqueUID()})
	})
}

// uniqueUID returns a UID that differs from those of other cases, and of earlier runs whose pods the runtime
// may still hold. It is random, because in a bubble every case begins at the same time.
func uniqueUID() string { return "rt-" + strings.ToLower(rand.Text()) }

// must fails the case on an error.
func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// eventually polls check until it returns true. check may fail the case.
func (e *env) eventually(what string, check func() bool) {
	e.Helper()
	ticker := e.Clock.NewTicker(pollInterval)
	defer ticker.Stop()
	for !check() {
		select {
		case <-ticker.C():
		case <-e.ctx.Done():
			e.Fatalf("timed out waiting: %s", what)
		}
	}
}

// wantNotFound checks that err says that the object does not exist.
func (e *env) wantNotFound(what string, err error) {
	e.Helper()
	if !cri.IsNotFound(err) {
		e.Errorf("%s: got error %v, want one of class %q", what, err, runtime.ErrNotFound)
	}
}

// podLabels are the labels of the case's pod, by which it finds its objects
// again.
func (e *env) podLabels() map[string]string {
	return map[string]string{
		runtime.LabelPodName:      "pod",
		runtime.LabelPodNamespace: "runtimetest",
		runtime.LabelPodUID:       e.podUID,
	}
}

// sandbox is a sandbox of the case.
type sandbox struct {
	id     string
	config *runtimeapi.PodSandboxConfig
}

// sandboxConfig returns the config of the case's next sandbox; its attempt is
// the number of configs before it. The log directory exists.
func (e *env) sandboxConfig() *runtimeapi.PodSandboxConfig {
	e.Helper()
	attempt := e.sandboxes.Add(1) - 1
	logDir := filepath.Join(e.LogDir, fmt.Sprintf("runtimetest_pod_%s_%d", e.podUID, attempt))
	e.must(os.MkdirAll(logDir, 0o755))
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "runtimetest", Uid: e.podUID, Attempt: attempt},
		Hostname:     "pod",
		LogDirectory: logDir,
		Labels:       e.podLabels(),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{
					Network: runtimeapi.NamespaceMode_POD,
					Pid:     runtimeapi.NamespaceMode_CONTAINER,
					Ipc:     runtimeapi.NamespaceMode_POD,
				},
			},
		},
	}
	if e.Limits.NoPodIP && !e.Limits.NoHostNetwork {
		config.Hostname = ""
		config.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	}
	if e.AdjustSandbox != nil {
		e.AdjustSandbox(config)
	}
	return config
}

// sandbox runs a sandbox, after change has been applied to its config.
func (e *env) sandbox(change ...func(*runtimeapi.PodSandboxConfig)) *sandbox {
	e.Helper()
	config := e.sandboxConfig()
	for _, c := range change {
		c(config)
	}
	id, err := e.Runtime.RunPodSandbox(e.ctx, config, e.RuntimeHandler)
	if err != nil {
		e.Fatalf("RunPodSandbox: %v", err)
	}
	e.removeLater(id)
	if id == "" {
		e.Fatal("RunPodSandbox returned an empty ID")
	}
	return &sandbox{id: id, config: config}
}

// removeLater removes the sandbox when the case is over.
func (e *env) removeLater(id string) {
	e.Cleanup(func() {
		ctx, cancel := timing.WithTimeout(context.WithoutCancel(e.ctx), e.Clock, cleanupTimeout)
		defer cancel()
		if err := e.Runtime.StopPodSandbox(ctx, id); err != nil && !cri.IsNotFound(err) {
			e.Errorf("clean up: stop sandbox %s: %v", id, err)
		}
		if err := e.Runtime.RemovePodSandbox(ctx, id); err != nil {
			e.Errorf("clean up: remove sandbox %s: %v", id, err)
		}
	})
}

// containerConfig returns a config that runs p. Its name is new in the pod and
// its log folder exists.
func (e *env) containerConfig(s *sandbox, p Program) *runtimeapi.ContainerConfig {
	e.Helper()
	name := fmt.Sprintf("c%d", e.containers.Add(1))
	e.must(os.MkdirAll(filepath.Join(s.config.LogDirectory, name), 0o755))
	labels := maps.Clone(e.podLabels())
	labels[runtime.LabelContainerName] = name
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    imageSpec(e.Image),
		Command:  e.Command(p),
		LogPath:  filepath.Join(name, "0.log"),
		Labels:   labels,
		// Some runtimes take the namespaces of a container from its own config only.
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	}
}

// imageSpec names an image in the way a pod's image is named to a runtime.
func imageSpec(ref string) *runtimeapi.ImageSpec {
	return &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: ref}
}

// create creates a container that runs p.
func (e *env) create(s *sandbox, p Program, change ...func(*runtimeapi.ContainerConfig)) string {
	e.Helper()
	config := e.containerConfig(s, p)
	for _, c := range change {
		c(config)
	}
	return e.createFrom(s, config)
}

// createFrom creates a container from a config.
func (e *env) createFrom(s *sandbox, config *runtimeapi.ContainerConfig) string {
	e.Helper()
	id, err := e.Runtime.CreateContainer(e.ctx, s.id, config, s.config)
	if err != nil {
		e.Fatalf("CreateContainer: %v", err)
	}
	if id == "" {
		e.Fatal("CreateContainer returned an empty ID")
	}
	return id
}

// start creates and starts a container that runs p.
func (e *env) start(s *sandbox, p Program, change ...func(*runtimeapi.ContainerConfig)) string {
	e.Helper()
	id := e.create(s, p, change...)
	if err := e.Runtime.StartContainer(e.ctx, id); err != nil {
		e.Fatalf("StartContainer: %v", err)
	}
	return id
}

// readyLine is what startReady waits for.
const readyLine = "ready"

// startReady starts a container and waits until p has set its signal behaviour.
func (e *env) startReady(s *sandbox, p Program, change ...func(*runtimeapi.ContainerConfig)) string {
	e.Helper()
	p.Stdout = append([]string{readyLine}, p.Stdout...)
	id := e.start(s, p, change...)
	path := e.logMade(id)
	e.eventually(fmt.Sprintf("the program's first line, %q, in its log %s", readyLine, path), func() bool {
		e.status(id) // a simulated runtime moves only when asked
		content, err := os.ReadFile(path)
		return err == nil && bytes.Contains(content, []byte(readyLine))
	})
	return id
}

// logMade waits until a started container has a log file, and returns its path. A runtime that
// writes logs makes the file with the start, so that one without logs fails soon.
func (e *env) logMade(id string) string {
	e.Helper()
	path := e.status(id).GetLogPath()
	if path == "" {
		e.Fatal("the status of a started container names no log (log_path), which the case reads the program's output from")
	}
	give := e.Clock.NewTimer(e.LogWait)
	defer give.Stop()
	late := false
	e.eventually("log file "+path, func() bool {
		if _, err := os.Stat(path); err == nil {
			return true
		}
		if late {
			e.Fatalf("%v after its start the container has no log file at %s, which the case reads the program's output from: "+
				"does the runtime write logs? (Subject.LogWait is how long the kit waits)", e.LogWait, path)
		}
		select {
		case <-give.C():
			late = true // one more look
		default:
		}
		return false
	})
	return path
}

// finish runs p to its end and returns the container's status.
func (e *env) finish(s *sandbox, p Program, change ...func(*runtimeapi.ContainerConfig)) *runtimeapi.ContainerStatus {
	e.Helper()
	id := e.start(s, p, change...)
	return e.waitExited(id)
}

// status returns the container's status.
func (e *env) status(id string) *runtimeapi.ContainerStatus {
	e.Helper()
	response, err := e.Runtime.ContainerStatus(e.ctx, id, false)
	if err != nil {
		e.Fatalf("ContainerStatus: %v", err)
	}
	if response.GetStatus() == nil {
		e.Fatal("ContainerStatus returned no status and no error")
	}
	return response.GetStatus()
}

// waitExited waits until the container has exited and returns its status.
func (e *env) waitExited(id string) *runtimeapi.ContainerStatus {
	e.Helper()
	var status *runtimeapi.ContainerStatus
	e.eventually("container exits", func() bool {
		status = e.status(id)
		return status.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	return status
}

// sandboxStatus returns the sandbox's status.
func (e *env) sandboxStatus(id string) *runtimeapi.PodSandboxStatus {
	e.Helper()
	response, err := e.Runtime.PodSandboxStatus(e.ctx, id, false)
	if err != nil {
		e.Fatalf("PodSandboxStatus: %v", err)
	}
	if response.GetStatus() == nil {
		e.Fatal("PodSandboxStatus returned no status and no error")
	}
	return response.GetStatus()
}

// listSandboxes returns the IDs of the sandboxes that match filter.
func (e *env) listSandboxes(filter *runtimeapi.PodSandboxFilter) []string {
	e.Helper()
	list, err := e.Runtime.ListPodSandbox(e.ctx, filter)
	if err != nil {
		e.Fatalf("ListPodSandbox: %v", err)
	}
	ids := make([]string, 0, len(list))
	for _, s := range list {
		ids = append(ids, s.GetId())
	}
	return ids
}

// listContainers returns the IDs of the containers that match filter.
func (e *env) listContainers(filter *runtimeapi.ContainerFilter) []string {
	e.Helper()
	list, err := e.Runtime.ListContainers(e.ctx, filter)
	if err != nil {
		e.Fatalf("ListContainers: %v", err)
	}
	ids := make([]string, 0, len(list))
	for _, c := range list {
		ids = append(ids, c.GetId())
	}
	return ids
}

// exec runs p in the container.
func (e *env) exec(id string, p Program, timeout time.Duration) (stdout, stderr string, err error) {
	e.Helper()
	out, errOut, err := e.Runtime.ExecSync(e.ctx, id, e.Command(p), timeout)
	return string(out), string(errOut), err
}
