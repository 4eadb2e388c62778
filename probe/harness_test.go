package probe_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
)

// TestMain names a proxy to all tests: Go reads the environment for it once per process. No probe may use it (5.4).
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		if err := os.Setenv(name, proxy); err != nil {
			panic(err)
		}
	}
	if err := errors.Join(os.Unsetenv("NO_PROXY"), os.Unsetenv("no_proxy")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// proxy is where nothing listens.
const proxy = "http://127.0.0.1:1"

// rig is a manager under test in a synctest bubble, with pods whose statuses the test
// writes and a handler whose answers it gives.
type rig struct {
	t *testing.T
	m *probe.Manager

	mu      sync.Mutex
	views   map[types.UID]probe.View
	runs    []ran
	told    []probe.Announcement
	answer  func(ctx context.Context, t probe.Target) (probe.Outcome, error)
	events  []string
	refs    []v1.ObjectReference
	records map[runtime.ContainerID]*probe.Record
	facts   map[string]probe.Fact

	cancel context.CancelFunc
	ended  chan struct{}
}

// ran is one execution.
type ran struct {
	pod, container string
	id             string
	kind           probe.Kind
	at             time.Time
}

func newRig(t *testing.T, configure ...func(*probe.Options)) *rig {
	t.Helper()
	r := &rig{
		t: t, views: map[types.UID]probe.View{}, ended: make(chan struct{}),
		records: map[runtime.ContainerID]*probe.Record{}, facts: map[string]probe.Fact{},
	}
	r.answer = func(context.Context, probe.Target) (probe.Outcome, error) { return good, nil }
	options := probe.Options{
		Pods: r, Memory: r, Events: r,
		Handler:  func(probe.Target) probe.Handler { return r },
		OnResult: r.hear,
		Rand:     func() float64 { return 0 },
	}
	for _, c := range configure {
		c(&options)
	}
	var err error
	if r.m, err = probe.New(options); err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	good = probe.Outcome{Result: probe.Success, Output: "fine"}
	bad  = probe.Outcome{Result: probe.Failure, Output: "broken"}
)

// start runs the manager until the end of the test.
func (r *rig) start() *rig {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.cancel = cancel
	go func() {
		defer close(r.ended)
		if err := r.m.Run(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	r.t.Cleanup(r.stop)
	return r
}

// runFor runs a manager for this long.
func runFor(t *testing.T, m *probe.Manager, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	<-time.After(d)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func (r *rig) stop() {
	r.cancel()
	<-r.ended
}

// pass lets virtual time pass.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	synctest.Wait()
	<-time.After(d)
	synctest.Wait()
}

func (r *rig) View(uid types.UID) (probe.View, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.views[uid]
	return v, ok
}

func (r *rig) Probe(ctx context.Context, t probe.Target) (probe.Outcome, error) {
	r.mu.Lock()
	r.runs = append(r.runs, ran{t.Pod.Name, t.Container.Name, t.ID.ID, t.Kind, time.Now()})
	answer := r.answer
	r.mu.Unlock()
	return answer(ctx, t)
}

func (r *rig) hear(_ context.Context, a probe.Announcement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, a)
}

func (r *rig) Eventf(object apiruntime.Object, eventtype, reason, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := object.(*v1.ObjectReference)
	r.refs = append(r.refs, *ref)
	r.events = append(r.events, eventtype+" "+reason+" "+ref.FieldPath+" "+fmt.Sprintf(format, args...))
}

func (r *rig) Recall(_ types.UID, _ string, id runtime.ContainerID) *probe.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.records[id]; rec != nil {
		c := *rec
		return &c
	}
	return nil
}

func (r *rig) Remember(_ types.UID, _ string, id runtime.ContainerID, kind probe.Kind, f probe.Fact, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts[id.ID+" "+kind.String()] = f
	rec := r.records[id]
	if rec == nil {
		rec = &probe.Record{}
		r.records[id] = rec
	}
	rec.Facts[kind] = f
	rec.Started = rec.Started || kind == probe.Startup && f.Stored == probe.Success
}

// answers makes the handler return these outcomes in turn, and then the last one repeatedly.
func (r *rig) answers(list ...probe.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = func(context.Context, probe.Target) (probe.Outcome, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		out := list[0]
		if len(list) > 1 {
			list = list[1:]
		}
		return out, nil
	}
}

// does sets the handler.
func (r *rig) does(answer func(ctx context.Context, t probe.Target) (probe.Outcome, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// take returns and forgets what ran.
func (r *rig) take() []ran {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.runs
	r.runs = nil
	return out
}

func (r *rig) heard() []probe.Announcement {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.told
	r.told = nil
	return out
}

func (r *rig) said() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.events
	r.events = nil
	return out
}

// result is what is stored for a container.
func (r *rig) result(kind probe.Kind, id string) string {
	v, ok := r.m.Result(kind, cid(id))
	if !ok {
		return "none"
	}
	return v.String()
}

func cid(id string) runtime.ContainerID { return runtime.ContainerID{Runtime: "fake", ID: id} }

// newPod has one container named main.
func newPod(name string, probes ...func(*v1.Container)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	p.Spec.Containers = []v1.Container{{Name: "main"}}
	for _, f := range probes {
		f(&p.Spec.Containers[0])
	}
	return p
}

func tcp(edit ...func(*v1.Probe)) *v1.Probe {
	p := &v1.Probe{PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1}
	p.TCPSocket = &v1.TCPSocketAction{}
	for _, e := range edit {
		e(p)
	}
	return p
}

func liveness(edit ...func(*v1.Probe)) func(*v1.Container) {
	return func(c *v1.Container) { c.LivenessProbe = tcp(edit...) }
}

func readiness(edit ...func(*v1.Probe)) func(*v1.Container) {
	return func(c *v1.Container) { c.ReadinessProbe = tcp(edit...) }
}

func startup(edit ...func(*v1.Probe)) func(*v1.Container) {
	return func(c *v1.Container) { c.StartupProbe = tcp(edit...) }
}

// set makes a status of a pod the newest one, without telling the manager.
func (r *rig) set(pod *v1.Pod, statuses ...v1.ContainerStatus) *v1.PodStatus {
	s := &v1.PodStatus{Phase: v1.PodRunning, PodIP: "127.0.0.1"}
	for _, c := range statuses {
		list := &s.ContainerStatuses
		for i := range pod.Spec.InitContainers {
			if pod.Spec.InitContainers[i].Name == c.Name {
				list = &s.InitContainerStatuses
			}
		}
		*list = append(*list, c)
	}
	r.put(probe.View{Pod: pod, Status: s})
	return s
}

func (r *rig) put(v probe.View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views[v.Pod.UID] = v
}

// publish is set as the engine does it: the manager is told.
func (r *rig) publish(pod *v1.Pod, statuses ...v1.ContainerStatus) {
	r.m.Observed(pod, r.set(pod, statuses...))
}

// up is a running container named main.
func up(id string, started bool, at time.Time) v1.ContainerStatus {
	return named("main", id, started, at)
}

func named(name, id string, started bool, at time.Time) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: name, ContainerID: cid(id).String(), Started: ptr.To(started),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}},
	}
}

// down is an ended container named main.
func down(id string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{
		Name: "main", ContainerID: cid(id).String(), Started: ptr.To(false),
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}},
	}
}

// times are when a kind ran since begin, in seconds.
func times(runs []ran, kind probe.Kind, begin time.Time) (out []float64) {
	for _, r := range runs {
		if r.kind == kind {
			out = append(out, r.at.Sub(begin).Round(time.Millisecond).Seconds())
		}
	}
	return out
}

type typesUID = types.UID

// runtimeView is a reading of the runtime that shows the container named main.
func runtimeView(id string, started time.Time) *runtime.PodStatus {
	return &runtime.PodStatus{Containers: []*runtime.ContainerStatus{{ID: cid(id), Name: "main", State: runtime.Running, StartedAt: started}}}
}

type containerID = runtime.ContainerID
