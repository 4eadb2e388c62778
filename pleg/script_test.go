package pleg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a runtime whose content a test writes by hand. IDs are unique across
// pods; a sandbox of a pod is named "<uid>/s<n>", a container "<uid>/<name>".
type script struct {
	mu         sync.Mutex
	sandboxes  map[string]*runtimeapi.PodSandboxStatus
	containers map[string]*runtimeapi.ContainerStatus
	owner      map[string]types.UID // by container ID
	calls      map[string]int       // by method, and by method + " " + ID

	// before, if set, runs at the start of each call, without the lock. Its
	// error is the call's.
	before func(ctx context.Context, method, id string) error
	// listed, if set, edits every list response.
	listed func([]*runtimeapi.PodSandbox, []*runtimeapi.Container) ([]*runtimeapi.PodSandbox, []*runtimeapi.Container)
}

const (
	sCreated = runtimeapi.ContainerState_CONTAINER_CREATED
	sRunning = runtimeapi.ContainerState_CONTAINER_RUNNING
	sExited  = runtimeapi.ContainerState_CONTAINER_EXITED
	sUnknown = runtimeapi.ContainerState_CONTAINER_UNKNOWN

	sReady    = runtimeapi.PodSandboxState_SANDBOX_READY
	sNotReady = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
)

func newScript() *script {
	return &script{
		sandboxes: map[string]*runtimeapi.PodSandboxStatus{}, containers: map[string]*runtimeapi.ContainerStatus{},
		owner: map[string]types.UID{}, calls: map[string]int{},
	}
}

func podLabels(uid types.UID) map[string]string {
	return map[string]string{
		runtime.LabelPodUID: string(uid), runtime.LabelPodName: "pod-" + string(uid), runtime.LabelPodNamespace: "ns",
	}
}

// sandbox sets the state and address of sandbox n of a pod.
func (s *script) sandbox(uid types.UID, n int, state runtimeapi.PodSandboxState, ip string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("%s/s%d", uid, n)
	s.sandboxes[id] = &runtimeapi.PodSandboxStatus{
		Id: id, State: state, CreatedAt: int64(n + 1), Labels: podLabels(uid),
		Metadata: &runtimeapi.PodSandboxMetadata{Uid: string(uid), Attempt: uint32(n)},
		Network:  &runtimeapi.PodSandboxNetworkStatus{Ip: ip},
	}
}

// container sets the state of a container of a pod; with sExited, code is its
// exit code.
func (s *script) container(uid types.UID, name string, state runtimeapi.ContainerState, code ...int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := string(uid) + "/" + name
	c := &runtimeapi.ContainerStatus{
		Id: id, State: state, CreatedAt: 1, Labels: podLabels(uid), Image: &runtimeapi.ImageSpec{Image: "image"},
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
	}
	if len(code) > 0 {
		c.ExitCode = code[0]
	}
	s.containers[id], s.owner[id] = c, uid
}

// pod is a pod with one ready sandbox and running containers.
func (s *script) pod(uid types.UID, containers ...string) {
	s.sandbox(uid, 0, sReady, "10.0.0.1")
	for _, name := range containers {
		s.container(uid, name, sRunning)
	}
}

// remove takes an object, or all of a pod, away.
func (s *script) remove(uid types.UID, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		delete(s.containers, string(uid)+"/"+name)
		delete(s.sandboxes, string(uid)+"/"+name)
	}
	if len(names) == 0 {
		maps.DeleteFunc(s.containers, func(id string, _ *runtimeapi.ContainerStatus) bool { return s.owner[id] == uid })
		maps.DeleteFunc(s.sandboxes, func(_ string, b *runtimeapi.PodSandboxStatus) bool { return b.Metadata.Uid == string(uid) })
	}
}

// fail sets the hook that runs before each call.
func (s *script) fail(hook func(ctx context.Context, method, id string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = hook
}

// failing is a hook that fails one method, for IDs that begin with prefix.
func failing(method, prefix string, err error) func(context.Context, string, string) error {
	return func(_ context.Context, m, id string) error {
		if m == method && len(id) >= len(prefix) && id[:len(prefix)] == prefix {
			return err
		}
		return nil
	}
}

// hanging is a hook that makes one method hang for IDs that begin with prefix,
// until its context ends, or with deaf until release is closed.
func hanging(method, prefix string, deaf bool, release <-chan struct{}) func(context.Context, string, string) error {
	return func(ctx context.Context, m, id string) error {
		if m != method || len(id) < len(prefix) || id[:len(prefix)] != prefix {
			return nil
		}
		done := ctx.Done()
		if deaf {
			done = nil
		}
		select {
		case <-release:
			return nil
		case <-done:
			return ctx.Err()
		}
	}
}

func (s *script) count(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

// statusCalls is the number of calls that read one object.
func (s *script) statusCalls() int { return s.count("PodSandboxStatus") + s.count("ContainerStatus") }

func (s *script) enter(ctx context.Context, method, id string) error {
	s.mu.Lock()
	s.calls[method]++
	if id != "" {
		s.calls[method+" "+id]++
	}
	hook := s.before
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, method, id); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *script) Version(ctx context.Context, _ string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "script"}, s.enter(ctx, "Version", "")
}

func (s *script) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	uid := f.GetLabelSelector()[runtime.LabelPodUID]
	if err := s.enter(ctx, "ListPodSandbox", uid); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*runtimeapi.PodSandbox
	for _, id := range slices.Sorted(maps.Keys(s.sandboxes)) {
		b := s.sandboxes[id]
		if uid == "" || b.Metadata.Uid == uid {
			list = append(list, &runtimeapi.PodSandbox{Id: id, State: b.State, CreatedAt: b.CreatedAt, Labels: b.Labels, Metadata: b.Metadata})
		}
	}
	if s.listed != nil {
		list, _ = s.listed(list, nil)
	}
	return list, nil
}

func (s *script) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	uid := f.GetLabelSelector()[runtime.LabelPodUID]
	if err := s.enter(ctx, "ListContainers", uid); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*runtimeapi.Container
	for _, id := range slices.Sorted(maps.Keys(s.containers)) {
		c := s.containers[id]
		if uid == "" || string(s.owner[id]) == uid {
			list = append(list, &runtimeapi.Container{
				Id: id, State: c.State, CreatedAt: c.CreatedAt, Labels: c.Labels, Metadata: c.Metadata,
				Image: c.Image, PodSandboxId: string(s.owner[id]) + "/s0", Annotations: c.Annotations,
			})
		}
	}
	if s.listed != nil {
		_, list = s.listed(nil, list)
	}
	return list, nil
}

func (s *script) PodSandboxStatus(ctx context.Context, id string, _ bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	if err := s.enter(ctx, "PodSandboxStatus", id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.sandboxes[id]
	if b == nil {
		return nil, runtime.ErrNotFound
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: b}, nil
}

func (s *script) ContainerStatus(ctx context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	if err := s.enter(ctx, "ContainerStatus", id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[id]
	if c == nil {
		return nil, runtime.ErrNotFound
	}
	return &runtimeapi.ContainerStatusResponse{Status: c}, nil
}

// bench is a generator in manual mode with one subscription.
type bench struct {
	t *testing.T
	*script
	*Generator
	sub *Subscription
	// running is set in a bubble with Run active: events may follow the
	// status they belong to (PI2), so expect waits for them.
	running bool
}

func newBench(t *testing.T, options Options) *bench {
	t.Helper()
	s := newScript()
	g, err := New(s, options)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, script: s, Generator: g, sub: g.Subscribe()}
}

// run starts Run and returns a function that stops it and waits.
func (b *bench) run() (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	stopped := false
	b.running = true
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("Run: %v", err)
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// relist does one relist and fails the test if that fails.
func (b *bench) relist() {
	b.t.Helper()
	if err := b.Relist(b.t.Context()); err != nil {
		b.t.Fatalf("relist: %v", err)
	}
}

// events returns what the subscription holds as "uid: kinds [died]".
func (b *bench) events() []string {
	var all []string
	for _, e := range b.sub.Take() {
		text := fmt.Sprintf("%s: %v", e.UID, e.Kinds)
		if len(e.Died) > 0 {
			text += fmt.Sprintf(" %v", e.Died)
		}
		if e.AllDied {
			text += " all"
		}
		all = append(all, text)
	}
	return all
}

// expect compares the events since the last call.
func (b *bench) expect(what string, want ...string) {
	b.t.Helper()
	if b.running {
		synctest.Wait()
	}
	if got := b.events(); !slices.Equal(got, want) {
		b.t.Errorf("%s: events %q, want %q", what, got, want)
	}
}

// states returns the cached containers and sandboxes as "id=state", none for a pod that
// was never read.
func (b *bench) states(uid types.UID) []string {
	status, err := b.Get(uid)
	if errors.Is(err, ErrNotRead) {
		return nil
	}
	return statesOf(status)
}

func statesOf(status *runtime.PodStatus) []string {
	var all []string
	for _, s := range status.Sandboxes {
		all = append(all, s.ID+"="+s.State.String())
	}
	for _, c := range status.Containers {
		all = append(all, c.ID.ID+"="+c.State.String())
	}
	slices.Sort(all)
	return all
}

// ctxFor returns a context that ends after d on the (virtual) clock.
func ctxFor(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// pass lets d of virtual time pass; it is for synctest bubbles only.
func pass(d time.Duration) { <-time.After(d) }

// isFresh is cache.newer under the lock.
func (b *bench) isFresh(uid types.UID, after runtime.Stamp) bool {
	b.cache.mu.RLock()
	defer b.cache.mu.RUnlock()
	return b.cache.newer(uid, after)
}
