package runtimetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// unknownID is an ID that no runtime gives out.
const unknownID = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

func containerCases() []namedCase {
	return []namedCase{
		{"created, running, exited, gone", containerLifeCycle},
		{"exit codes arrive", containerExitCodes},
		{"an unknown container is not found", containerUnknown},
		{"an unknown sandbox takes no container", containerUnknownSandbox},
		{"a stopped sandbox takes no container", containerStoppedSandbox},
		{"an absent image makes no container", containerAbsentImage},
		{"labels and annotations are kept verbatim", containerMetadataKept},
		{"restart counts are kept", containerAttempts},
		{"times are ordered", containerTimes},
		{"list and status agree", containerListed},
		{"list filters select", containerFilters},
		{"a name and attempt exist once", containerDuplicate},
		{"it starts once", containerStartsOnce},
		{"it outlives the context that started it", containerOutlivesContext},
		{"containers of a sandbox are independent", containerIndependent},
		{"an exit leaves the sandbox ready", containerExitLeavesSandbox},
		{"arguments stay the caller's", containerArguments},
		{"answers are the caller's", containerAnswers},
		{"command, args, env and working dir reach the process", containerProcess},
		{"mounts are reported", containerMounts},
		{"removal of a running container", containerRemoveRunning},
		{"removal is idempotent", containerRemoveIdempotent},
		{"a created container can be removed", containerRemoveCreated},
		{"sandbox stop stops its containers", sandboxStopStopsContainers},
		{"sandbox removal removes its containers", sandboxRemoveRemovesContainers},
	}
}

// containerLifeCycle: the status and the list of everything show each state as it comes.
func containerLifeCycle(e *env) {
	s := e.sandbox()
	id := e.create(s, Program{Run: Forever})
	want := func(state runtimeapi.ContainerState) {
		e.Helper()
		if got := e.status(id).GetState(); got != state {
			e.Fatalf("state %v, want %v", got, state)
		}
		list, err := e.Runtime.ListContainers(e.ctx, nil)
		e.must(err)
		for _, c := range list {
			if c.GetId() == id && c.GetState() != state {
				e.Fatalf("the unfiltered list says %v, want %v", c.GetState(), state)
			}
		}
	}
	want(runtimeapi.ContainerState_CONTAINER_CREATED)
	e.must(e.Runtime.StartContainer(e.ctx, id))
	want(runtimeapi.ContainerState_CONTAINER_RUNNING)
	e.must(e.Runtime.StopContainer(e.ctx, id, longGrace))
	want(runtimeapi.ContainerState_CONTAINER_EXITED)
	e.must(e.Runtime.RemoveContainer(e.ctx, id))
	_, err := e.Runtime.ContainerStatus(e.ctx, id, false)
	e.wantNotFound("status of a removed container", err)
	e.wantIDs("after removal", e.listContainers(&runtimeapi.ContainerFilter{PodSandboxId: s.id}), nil)
}

// containerExitCodes: codes are exact, and of several containers each has its
// own.
func containerExitCodes(e *env) {
	s := e.sandbox()
	ids := map[int]string{}
	for _, code := range []int{0, 1, 42, 255} {
		ids[code] = e.start(s, Program{Exit: code})
	}
	for code, id := range ids {
		if got := e.waitExited(id).GetExitCode(); got != int32(code) {
			e.Errorf("exit code %d, want %d", got, code)
		}
	}
	if got := e.finish(s, Program{Run: 300 * time.Millisecond, Exit: 7}).GetExitCode(); got != 7 {
		e.Errorf("exit code %d after a short run, want 7", got)
	}
}

// containerUnknown: stopping what does not exist may succeed or be not found
// (spec/runtime.md 16.2); removing it succeeds.
func containerUnknown(e *env) {
	_, err := e.Runtime.ContainerStatus(e.ctx, unknownID, false)
	e.wantNotFound("ContainerStatus", err)
	e.wantNotFound("StartContainer", e.Runtime.StartContainer(e.ctx, unknownID))
	_, _, err = e.exec(unknownID, Program{}, 10*time.Second)
	e.wantNotFound("ExecSync", err)
	if err := e.Runtime.StopContainer(e.ctx, unknownID, 1); err != nil && !cri.IsNotFound(err) {
		e.Errorf("StopContainer: %v", err)
	}
	if err := e.Runtime.RemoveContainer(e.ctx, unknownID); err != nil {
		e.Errorf("RemoveContainer: %v", err)
	}
	e.wantIDs("list of an unknown ID", e.listContainers(&runtimeapi.ContainerFilter{Id: unknownID}), nil)
	e.wantIDs("list of an unknown sandbox", e.listContainers(&runtimeapi.ContainerFilter{PodSandboxId: unknownID}), nil)
}

func containerUnknownSandbox(e *env) {
	s := e.sandbox()
	_, err := e.Runtime.CreateContainer(e.ctx, unknownID, e.containerConfig(s, Program{}), s.config)
	e.wantNotFound("CreateContainer", err)
}

// containerStoppedSandbox: the start fails at the latest.
func containerStoppedSandbox(e *env) {
	s := e.sandbox()
	e.must(e.Runtime.StopPodSandbox(e.ctx, s.id))
	id, err := e.Runtime.CreateContainer(e.ctx, s.id, e.containerConfig(s, Program{Run: Forever}), s.config)
	if err == nil && e.Runtime.StartContainer(e.ctx, id) == nil {
		e.Error("a container was started in a stopped sandbox")
	}
}

func containerAbsentImage(e *env) {
	s := e.sandbox()
	config := e.containerConfig(s, Program{})
	config.Image = imageSpec(e.AbsentImage)
	if _, err := e.Runtime.CreateContainer(e.ctx, s.id, config, s.config); err == nil {
		e.Error("a container was created of an absent image")
	}
	e.wantIDs("after the failed creation", e.listContainers(&runtimeapi.ContainerFilter{PodSandboxId: s.id}), nil)
}

func containerMetadataKept(e *env) {
	s := e.sandbox()
	config := e.containerConfig(s, Program{})
	config.Labels["example.com/team"] = "a-b_c.d"
	config.Labels["empty"] = ""
	config.Annotations = awkwardAnnotations()
	id := e.createFrom(s, config)
	status := e.status(id)
	e.wantLabels("labels in status", status.GetLabels(), config.GetLabels())
	e.wantMap("annotations in status", status.GetAnnotations(), config.GetAnnotations())
	list, err := e.Runtime.ListContainers(e.ctx, &runtimeapi.ContainerFilter{Id: id})
	e.must(err)
	if len(list) != 1 {
		e.Fatalf("listed %d containers by ID, want 1", len(list))
	}
	e.wantLabels("labels in list", list[0].GetLabels(), config.GetLabels())
	e.wantMap("annotations in list", list[0].GetAnnotations(), config.GetAnnotations())
}

// containerAttempts: the attempts of one container live side by side, each with
// its number and its annotations (spec/runtime.md 2.2, 2.4); the later one is
// the newer one (1.3).
func containerAttempts(e *env) {
	s := e.sandbox()
	var ids []string
	for attempt := range 3 {
		config := e.containerConfig(s, Program{Exit: 1})
		config.Metadata = &runtimeapi.ContainerMetadata{Name: "app", Attempt: uint32(attempt)}
		config.Annotations = map[string]string{
			runtime.AnnotationRestartCount: fmt.Sprint(attempt),
			runtime.AnnotationHash:         fmt.Sprintf("%x", 0xabc0+attempt),
		}
		id := e.createFrom(s, config)
		e.must(e.Runtime.StartContainer(e.ctx, id))
		e.waitExited(id)
		ids = append(ids, id)
	}
	var before int64
	for attempt, id := range ids {
		status := e.status(id)
		domain := cri.NewContainerStatus(status, "any")
		if status.GetMetadata().GetName() != "app" || status.GetMetadata().GetAttempt() != uint32(attempt) {
			e.Errorf("metadata %v, want app, attempt %d", status.GetMetadata(), attempt)
		}
		if domain.RestartCount != attempt || domain.Hash != uint64(0xabc0+attempt) {
			e.Errorf("attempt %d reads as restart count %d, hash %x", attempt, domain.RestartCount, domain.Hash)
		}
		if status.GetCreatedAt() <= before {
			e.Errorf("attempt %d was created at %d, not after the one before (%d)", attempt, status.GetCreatedAt(), before)
		}
		before = status.GetCreatedAt()
	}
}

// containerTimes: no time is set before its state is reached; after the end all are
// in order (spec/runtime.md 1.8).
func containerTimes(e *env) {
	s := e.sandbox()
	id := e.create(s, Program{Run: 100 * time.Millisecond})
	if st := e.status(id); st.GetCreatedAt() <= 0 || st.GetStartedAt() > 0 || st.GetFinishedAt() > 0 {
		e.Errorf("created: times %d %d %d", st.GetCreatedAt(), st.GetStartedAt(), st.GetFinishedAt())
	}
	e.must(e.Runtime.StartContainer(e.ctx, id))
	if st := e.status(id); st.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING &&
		(st.GetStartedAt() < st.GetCreatedAt() || st.GetFinishedAt() > 0) {
		e.Errorf("running: times %d %d %d", st.GetCreatedAt(), st.GetStartedAt(), st.GetFinishedAt())
	}
	st := e.waitExited(id)
	if st.GetStartedAt() < st.GetCreatedAt() || st.GetFinishedAt() < st.GetStartedAt() {
		e.Errorf("exited: times %d %d %d are not in order", st.GetCreatedAt(), st.GetStartedAt(), st.GetFinishedAt())
	}
	if sandbox := e.sandboxStatus(s.id).GetCreatedAt(); st.GetCreatedAt() < sandbox {
		e.Errorf("container created at %d, its sandbox later, at %d", st.GetCreatedAt(), sandbox)
	}
}

func containerListed(e *env) {
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever})
	status := e.status(id)
	list, err := e.Runtime.ListContainers(e.ctx, &runtimeapi.ContainerFilter{Id: id})
	e.must(err)
	if len(list) != 1 {
		e.Fatalf("listed %d containers by ID, want 1", len(list))
	}
	c := list[0]
	if c.GetPodSandboxId() != s.id {
		e.Errorf("sandbox ID %q, want %q", c.GetPodSandboxId(), s.id)
	}
	// A list may report another moment of the creation than the status, such as its start.
	if c.GetCreatedAt() <= 0 || c.GetCreatedAt() > status.GetStartedAt() {
		e.Errorf("the list says created at %d, the status started at %d", c.GetCreatedAt(), status.GetStartedAt())
	}
	if c.GetState() != status.GetState() ||
		c.GetMetadata().GetName() != status.GetMetadata().GetName() ||
		c.GetMetadata().GetAttempt() != status.GetMetadata().GetAttempt() {
		e.Errorf("list says %v, status %v", c, status)
	}
	if c.GetImage().GetImage() == "" || status.GetImage().GetImage() == "" || status.GetImageRef() == "" {
		e.Errorf("image: list %v, status %v ref %q; want all set", c.GetImage(), status.GetImage(), status.GetImageRef())
	}
}

func containerFilters(e *env) {
	s, other := e.sandbox(), e.sandbox()
	red := func(c *runtimeapi.ContainerConfig) { c.Labels["colour"] = "red" }
	created := e.create(s, Program{}, red)
	running := e.start(s, Program{Run: Forever})
	exited := e.finish(s, Program{}, red).GetId()
	elsewhere := e.start(other, Program{Run: Forever}, red)

	state := func(s runtimeapi.ContainerState) *runtimeapi.ContainerStateValue {
		return &runtimeapi.ContainerStateValue{State: s}
	}
	mine := e.podLabels()
	reds := maps.Clone(mine)
	reds["colour"] = "red"
	for _, c := range []struct {
		name   string
		filter *runtimeapi.ContainerFilter
		want   []string
	}{
		{"pod labels", &runtimeapi.ContainerFilter{LabelSelector: mine}, []string{created, running, exited, elsewhere}},
		{"labels", &runtimeapi.ContainerFilter{LabelSelector: reds}, []string{created, exited, elsewhere}},
		{"sandbox", &runtimeapi.ContainerFilter{PodSandboxId: s.id}, []string{created, running, exited}},
		{"created", &runtimeapi.ContainerFilter{PodSandboxId: s.id, State: state(runtimeapi.ContainerState_CONTAINER_CREATED)}, []string{created}},
		{"running", &runtimeapi.ContainerFilter{LabelSelector: mine, State: state(runtimeapi.ContainerState_CONTAINER_RUNNING)}, []string{running, elsewhere}},
		{"exited", &runtimeapi.ContainerFilter{PodSandboxId: s.id, State: state(runtimeapi.ContainerState_CONTAINER_EXITED)}, []string{exited}},
		{"id", &runtimeapi.ContainerFilter{Id: running}, []string{running}},
		{"id and sandbox", &runtimeapi.ContainerFilter{Id: running, PodSandboxId: other.id}, nil},
		{"id and state", &runtimeapi.ContainerFilter{Id: running, State: state(runtimeapi.ContainerState_CONTAINER_EXITED)}, nil},
		{"id and labels", &runtimeapi.ContainerFilter{Id: running, LabelSelector: reds}, nil},
	} {
		e.wantIDs(c.name, e.listContainers(c.filter), c.want)
	}
	all := e.listContainers(nil)
	for _, id := range []string{created, running, exited, elsewhere} {
		if !slices.Contains(all, id) {
			e.Errorf("the unfiltered list misses %s", id)
		}
	}
}

// containerDuplicate: a runtime refuses the second call for a name and attempt, or answers
// it with the existing container.
func containerDuplicate(e *env) {
	s := e.sandbox()
	config := e.containerConfig(s, Program{})
	id := e.createFrom(s, config)
	for _, state := range []string{"created", "exited"} {
		if other, err := e.Runtime.CreateContainer(e.ctx, s.id, config, s.config); err == nil && other != id {
			e.Errorf("a second container of the same name and attempt was created while the first was %s", state)
		}
		if state == "created" {
			e.must(e.Runtime.StartContainer(e.ctx, id))
			e.waitExited(id)
		}
	}
	e.wantIDs("after repeated calls", e.listContainers(&runtimeapi.ContainerFilter{PodSandboxId: s.id}), []string{id})
	e.must(e.Runtime.RemoveContainer(e.ctx, id))
	e.createFrom(s, config)
}

func containerStartsOnce(e *env) {
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever, OnTERM: 3})
	if err := e.Runtime.StartContainer(e.ctx, id); err == nil {
		e.Error("a running container was started")
	}
	if got := e.status(id).GetState(); got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		e.Errorf("state after a second start: %v", got)
	}
	e.must(e.Runtime.StopContainer(e.ctx, id, longGrace))
	if err := e.Runtime.StartContainer(e.ctx, id); err == nil {
		e.Error("an exited container was started")
	}
	if got := e.status(id); got.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		e.Errorf("state after starting an exited container: %v", got.GetState())
	}
}

// containerOutlivesContext: an engine that stops cancels its contexts; pods continue.
func containerOutlivesContext(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	config := e.sandboxConfig()
	sandboxID, err := e.Runtime.RunPodSandbox(ctx, config, e.RuntimeHandler)
	e.must(err)
	e.removeLater(sandboxID)
	s := &sandbox{id: sandboxID, config: config}
	id, err := e.Runtime.CreateContainer(ctx, s.id, e.containerConfig(s, Program{Run: Forever}), config)
	e.must(err)
	e.must(e.Runtime.StartContainer(ctx, id))
	_, _, err = e.Runtime.ExecSync(ctx, id, e.Command(Program{}), 10*time.Second)
	e.must(err)
	cancel()
	// The command takes long enough for a kill to show.
	_, _, err = e.exec(id, Program{Run: 200 * time.Millisecond}, 10*time.Second)
	e.must(err)
	if got := e.status(id).GetState(); got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		e.Errorf("container state %v after its context was cancelled", got)
	}
	if got := e.sandboxStatus(s.id).GetState(); got != runtimeapi.PodSandboxState_SANDBOX_READY {
		e.Errorf("sandbox state %v after its context was cancelled", got)
	}
}

func containerIndependent(e *env) {
	s := e.sandbox()
	a, b := e.start(s, Program{Run: Forever}), e.start(s, Program{Run: Forever})
	e.must(e.Runtime.StopContainer(e.ctx, a, longGrace))
	e.must(e.Runtime.RemoveContainer(e.ctx, a))
	if got := e.status(b).GetState(); got != runtimeapi.ContainerState_CONTAINER_RUNNING {
		e.Errorf("state of the other container: %v", got)
	}
}

func containerExitLeavesSandbox(e *env) {
	s := e.sandbox()
	e.finish(s, Program{Exit: 1})
	if got := e.sandboxStatus(s.id).GetState(); got != runtimeapi.PodSandboxState_SANDBOX_READY {
		e.Errorf("sandbox state %v after its only container failed", got)
	}
	e.finish(s, Program{})
}

// containerArguments: later changes of a config by the caller have no effect.
func containerArguments(e *env) {
	s := e.sandbox()
	config := e.containerConfig(s, Program{Exit: 5})
	name := config.GetMetadata().GetName()
	id := e.createFrom(s, config)
	config.Labels[runtime.LabelContainerName] = "changed"
	config.Metadata.Name = "changed"
	config.Command[len(config.Command)-1] = "changed"
	e.must(e.Runtime.StartContainer(e.ctx, id))
	st := e.waitExited(id)
	if st.GetLabels()[runtime.LabelContainerName] != name || st.GetMetadata().GetName() != name || st.GetExitCode() != 5 {
		e.Errorf("status follows the caller's config: %v", st)
	}
}

// containerProcess: Command and Args are concatenated, Envs are set verbatim.
func containerProcess(e *env) {
	s := e.sandbox()
	p := Program{Stdout: []string{"it's \"here\" $HOME"}, Env: []string{"PLAIN", "SPACES", "EMPTY", "UNSET"}, WorkingDir: true}
	st := e.finish(s, p, func(c *runtimeapi.ContainerConfig) {
		c.Command, c.Args = c.Command[:1], c.Command[1:]
		c.WorkingDir = e.WorkingDir
		c.Envs = []*runtimeapi.KeyValue{
			{Key: "PLAIN", Value: []byte("value")},
			{Key: "SPACES", Value: []byte("  a  'b' $PLAIN = ")},
			{Key: "EMPTY", Value: []byte("")},
		}
	})
	want := []string{"it's \"here\" $HOME", "value", "  a  'b' $PLAIN = ", "", "", e.WorkingDir}
	if got := texts(e.logEntries(st.GetLogPath()), "stdout"); !slices.Equal(got, want) {
		e.Errorf("output %q, want %q", got, want)
	}
}

func containerMounts(e *env) {
	if e.Limits.NoMounts {
		e.Skip("the runtime has no mounts")
	}
	s := e.sandbox()
	dir := e.TempDir()
	id := e.start(s, Program{Run: Forever}, func(c *runtimeapi.ContainerConfig) {
		c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/mnt/rt", HostPath: dir, Readonly: true}}
	})
	for _, m := range e.status(id).GetMounts() {
		if m.GetContainerPath() == "/mnt/rt" && m.GetHostPath() == dir && m.GetReadonly() {
			return
		}
	}
	e.Errorf("the mount is missing in the status: %v", e.status(id).GetMounts())
}

func containerRemoveRunning(e *env) {
	s := e.sandbox()
	id := e.start(s, Program{Run: Forever, IgnoreTERM: true})
	e.must(e.Runtime.RemoveContainer(e.ctx, id))
	_, err := e.Runtime.ContainerStatus(e.ctx, id, false)
	e.wantNotFound("status of a removed container", err)
}

func containerRemoveIdempotent(e *env) {
	s := e.sandbox()
	id := e.finish(s, Program{}).GetId()
	for range 2 {
		e.must(e.Runtime.RemoveContainer(e.ctx, id))
	}
}

func containerRemoveCreated(e *env) {
	s := e.sandbox()
	id := e.create(s, Program{Run: Forever})
	e.must(e.Runtime.RemoveContainer(e.ctx, id))
	_, err := e.Runtime.ContainerStatus(e.ctx, id, false)
	e.wantNotFound("status of a removed container", err)
}

// sandboxStopStopsContainers: by force, and without losing the exit codes of containers
// that had ended before.
func sandboxStopStopsContainers(e *env) {
	s := e.sandbox()
	over := e.finish(s, Program{Exit: 9}).GetId()
	running := e.start(s, Program{Run: Forever, IgnoreTERM: true})
	e.must(e.Runtime.StopPodSandbox(e.ctx, s.id))
	if st := e.waitExited(running); st.GetExitCode() == 0 {
		e.Error("a killed container has exit code 0")
	}
	if got := e.status(over).GetExitCode(); got != 9 {
		e.Errorf("exit code of the finished container is now %d, want 9", got)
	}
}

func sandboxRemoveRemovesContainers(e *env) {
	s := e.sandbox()
	ids := []string{e.create(s, Program{}), e.start(s, Program{Run: Forever, IgnoreTERM: true}), e.finish(s, Program{}).GetId()}
	e.must(e.Runtime.StopPodSandbox(e.ctx, s.id))
	e.must(e.Runtime.RemovePodSandbox(e.ctx, s.id))
	for _, id := range ids {
		_, err := e.Runtime.ContainerStatus(e.ctx, id, false)
		e.wantNotFound("status of a container of a removed sandbox", err)
	}
	e.wantIDs("after removal", e.listContainers(&runtimeapi.ContainerFilter{LabelSelector: e.podLabels()}), nil)
}
