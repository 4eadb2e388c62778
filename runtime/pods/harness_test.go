package pods_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// world is a manager on a fake runtime. Tests run it in a synctest bubble, so
// that the real clock is virtual.
type world struct {
	t      *testing.T
	fake   *fake.Runtime
	m      *pods.Manager
	view   *cri.View
	events *events
	opts   pods.Options
}

// newWorld makes one; opt may change the manager's options.
func newWorld(t *testing.T, script func(fake.Launch) fake.Script, opt ...func(*pods.Options)) *world {
	t.Helper()
	return newWorldOn(t, fake.Options{Script: script}, opt...)
}

// newWorldOn makes one on a fake of its own.
func newWorldOn(t *testing.T, o fake.Options, opt ...func(*pods.Options)) *world {
	t.Helper()
	f := fake.New(o)
	w := &world{t: t, fake: f, events: &events{}}
	w.opts = pods.Options{
		OwnerID: "test", NodeName: "node",
		HostIPs: func() []string { return []string{"192.0.2.7"} }, Events: w.events,
	}
	for _, o := range opt {
		o(&w.opts)
	}
	if w.opts.RootDir == "" {
		w.opts.RootDir, w.opts.LogDir = t.TempDir(), t.TempDir()
	}
	w.restart()
	return w
}

// restart is an engine restart: all memory is lost.
func (w *world) restart() {
	w.t.Helper()
	m, err := pods.New(w.fake, w.fake, w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.m = m
	w.view = cri.NewView(w.fake, cri.ViewOptions{OwnerID: w.opts.OwnerID})
}

func (w *world) read(pod *v1.Pod) *runtime.PodStatus {
	w.t.Helper()
	status, err := w.view.Read(w.t.Context(), pod.UID)
	if err != nil {
		w.t.Fatal(err)
	}
	return status
}

// sync is one sync with a fresh reading.
func (w *world) sync(pod *v1.Pod) pods.Result {
	w.t.Helper()
	return w.m.SyncPod(w.t.Context(), pod, w.read(pod))
}

// syncAll syncs until nothing is left to do now.
func (w *world) syncAll(pod *v1.Pod) pods.Result {
	w.t.Helper()
	for range 30 {
		if r := w.sync(pod); !r.Acted && !r.Again {
			return r
		}
	}
	w.t.Fatal("the pod needs sync after sync")
	return pods.Result{}
}

// calls returns the names of the calls made since the last time, statuses and
// lists of the harness left out by the caller's choice of methods.
func (w *world) calls(methods ...fake.Method) []string {
	var out []string
	for _, c := range w.fake.Calls(fake.Match{}) {
		if slices.Contains(methods, c.Method) {
			out = append(out, strings.TrimSpace(string(c.Method)+" "+c.Container))
		}
	}
	return out
}

// state describes the containers of a pod: "name:state".
func (w *world) state(pod *v1.Pod) string {
	w.t.Helper()
	var out []string
	status := w.read(pod)
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			s := "none"
			if record := status.Container(c.Name); record != nil {
				s = record.State.String()
			}
			out = append(out, c.Name+":"+s)
		}
	}
	return strings.Join(out, " ")
}

func (w *world) wantState(pod *v1.Pod, want string) {
	w.t.Helper()
	if got := w.state(pod); got != want {
		w.t.Errorf("state %q, want %q", got, want)
	}
}

// events collects events as "type reason fieldPath message".
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) Eventf(object k8sruntime.Object, eventtype, reason, format string, args ...any) {
	ref := object.(*v1.ObjectReference)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprintf("%s %s %s %s", eventtype, reason, ref.FieldPath, fmt.Sprintf(format, args...)))
}

func (e *events) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

// has reports whether some event begins with the text.
func (e *events) has(prefix string) bool {
	return slices.ContainsFunc(e.list(), func(s string) bool { return strings.HasPrefix(s, prefix) })
}

func newPod(change ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: types.UID("uid-1")},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways,
			DNSPolicy:     v1.DNSNone,
			Containers:    []v1.Container{container("app")},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func container(name string) v1.Container {
	return v1.Container{Name: name, Image: "example.com/" + name + ":1", ImagePullPolicy: v1.PullIfNotPresent}
}

func sidecar(name string) v1.Container {
	c := container(name)
	always := v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func withImages(w *world, pod *v1.Pod) {
	w.t.Helper()
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if _, err := w.fake.PullImage(context.Background(), imageSpec(c.Image), nil, nil); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

const second = time.Second

// pass lets virtual time pass.
func pass(d time.Duration) { clock.RealClock{}.Sleep(d) }

// clockNow is the virtual time.
func clockNow() time.Time { return clock.RealClock{}.Now() }

// removed are the runtime IDs that a collection removed.
type removed struct{ Containers, Sandboxes []string }

// collect collects garbage by policy.
func collect(ctx context.Context, m *pods.Manager, policy pods.GCPolicy) (removed, error) {
	var report removed
	done := policy.Done
	policy.Done = func(a pods.GCAction, err error) {
		if done != nil {
			done(a, err)
		}
		switch {
		case err != nil:
		case a.Sandbox:
			report.Sandboxes = append(report.Sandboxes, a.ID)
		default:
			report.Containers = append(report.Containers, a.ID)
		}
	}
	err := m.GarbageCollect(ctx, policy)
	return report, err
}
