package podsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

var errFake = errors.New("told to fail")

// node is everything a syncer works with. It records the calls in order; the calls named in
// fail return an error.
type node struct {
	t     *testing.T
	clock *clocktesting.FakeClock

	mu    sync.Mutex
	calls []string
	fail  map[string]bool
	// failure is the error of these calls; nil means errFake.
	failure error

	// view is what a reading of the pod returns.
	view *runtime.PodStatus
	// results of SyncPod; the last one repeats.
	results []pods.Result
	// killed is called by KillPod.
	killed func()
	// shown are the views that SyncPod was given.
	shown []*runtime.PodStatus
	// published are the statuses in order.
	published []v1.PodStatus
	waiting   map[string]pods.Waiting
	message   string
	resources runtime.Resources
	changed   bool // by Allocate
	// unrecorded: a failed Allocate is about the pod's first record.
	unrecorded bool
	granted    func(pod *v1.Pod) *v1.Pod
	lost       *v1.PodStatus
	unwritten  bool
	earlier    bool // the runtime may have containers of an earlier life
	probes     map[probe.Kind]probe.Result
	removable  bool
	// runs is how many removals still find the pod running.
	runs    int
	network error
	events  []string
}

func newNode(t *testing.T) *node {
	return &node{
		t: t, clock: clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
		fail: map[string]bool{}, removable: true, killed: func() {},
	}
}

// syncer returns a syncer on the node with all options set; change edits them.
func (n *node) syncer(change ...func(*Options)) *Syncer {
	o := Options{
		Content: content{n}, Probes: prober{n}, Allocations: allocations{n}, Records: records{n}, Mirrors: mirrors{n},
		Removable: func(types.UID) bool { return n.removable },
		Network:   func() error { return n.network },
		NodeIPs:   func() []string { return []string{"192.0.2.1"} }, Clock: n.clock, Events: n,
		Hooks: Hooks{
			Syncing:     func(ctx context.Context, _ types.UID) context.Context { n.do("Syncing"); return ctx },
			Changed:     func(types.UID) { n.do("Changed") },
			Terminating: func(types.UID) { n.do("Terminating") },
			Released:    func(types.UID) { n.do("Released") },
		},
	}
	for _, c := range change {
		c(&o)
	}
	return New(n, reader{n}, statuses{n}, o)
}

// do records a call.
func (n *node) do(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, name)
	if n.fail[name] {
		return cmp.Or(n.failure, errFake)
	}
	return nil
}

// want checks the calls since it was last called.
func (n *node) want(calls ...string) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.calls, calls) {
		n.t.Errorf("calls:\n%q, want\n%q", n.calls, calls)
	}
	n.calls = nil
}

// last returns the status that was published last.
func (n *node) last() v1.PodStatus {
	n.t.Helper()
	if len(n.published) == 0 {
		n.t.Fatal("nothing was published")
	}
	return n.published[len(n.published)-1]
}

func (n *node) Eventf(_ apiruntime.Object, kind, reason, format string, args ...any) {
	n.events = append(n.events, kind+" "+reason+" "+fmt.Sprintf(format, args...))
}

func (n *node) SyncPod(_ context.Context, _ *v1.Pod, view *runtime.PodStatus) pods.Result {
	err := n.do("SyncPod")
	n.shown = append(n.shown, view)
	result := pods.Result{}
	if len(n.results) > 0 {
		result = n.results[0]
		if len(n.results) > 1 {
			n.results = n.results[1:]
		}
	}
	result.Err = errors.Join(result.Err, err)
	return result
}

func (n *node) RefreshVolumes(context.Context, *v1.Pod) { _ = n.do("RefreshVolumes") }

func (n *node) KillPod(context.Context, *v1.Pod, *runtime.PodStatus, *int64) error {
	n.killed()
	return n.do("KillPod")
}

func (n *node) KillListed(context.Context, *v1.Pod, *int64) error { return n.do("KillListed") }

func (n *node) KillRuntimePod(context.Context, *runtime.Pod, *int64) error {
	return n.do("KillRuntimePod")
}

func (n *node) WaitingReasons(types.UID) map[string]pods.Waiting { return n.waiting }

func (n *node) PodResources(*v1.Pod) runtime.Resources { return n.resources }

func (n *node) TerminationMessage(*runtime.ContainerStatus) string { return n.message }

type content struct{ n *node }

func (c content) TearDownVolumes(context.Context, types.UID) error { return c.n.do("TearDownVolumes") }

func (c content) RemovePod(context.Context, types.UID) error {
	if err := c.n.do("RemovePod"); err != nil {
		return err
	}
	if c.n.runs > 0 {
		c.n.runs--
		return pods.ErrPodRunning
	}
	return nil
}

func (c content) RemoveStopped(context.Context, *runtime.PodStatus) error {
	return c.n.do("RemoveStopped")
}
func (c content) DestroyCgroup(context.Context, types.UID) error { return c.n.do("DestroyCgroup") }
func (c content) Forget(types.UID)                               { _ = c.n.do("Forget") }

type reader struct{ n *node }

func (r reader) ReadNow(context.Context, types.UID) (*runtime.PodStatus, error) {
	return r.read("ReadNow")
}
func (r reader) Get(types.UID) (*runtime.PodStatus, error) { return r.read("Get") }
func (r reader) Hold(types.UID)                            { _ = r.n.do("Hold") }
func (r reader) Release(types.UID)                         { _ = r.n.do("Release") }

func (r reader) read(name string) (*runtime.PodStatus, error) {
	if err := r.n.do(name); err != nil {
		return nil, err
	}
	return r.n.view, nil
}

type statuses struct{ n *node }

func (s statuses) SetPodStatus(_ *v1.Pod, status v1.PodStatus) error {
	if err := s.n.do("SetPodStatus"); err != nil {
		return err
	}
	s.n.published = append(s.n.published, status)
	return nil
}
func (s statuses) TerminatePod(*v1.Pod) error { return s.n.do("TerminatePod") }
func (s statuses) Get(types.UID) (v1.PodStatus, bool) {
	if len(s.n.published) == 0 {
		return v1.PodStatus{}, false
	}
	return s.n.last(), true
}

type prober struct{ n *node }

func (p prober) AddPod(*v1.Pod)                   { _ = p.n.do("AddPod") }
func (p prober) StopLivenessAndStartup(types.UID) { _ = p.n.do("StopLivenessAndStartup") }
func (p prober) RemovePod(types.UID)              { _ = p.n.do("RemoveProbes") }
func (p prober) Observed(*v1.Pod, *v1.PodStatus)  { _ = p.n.do("Observed") }
func (p prober) Status(k probe.Kind, _ *v1.Pod, _ string, _ runtime.ContainerID) probe.Result {
	return p.n.probes[k]
}

type allocations struct{ n *node }

func (a allocations) Allocate(pod *v1.Pod) (*v1.Pod, bool, error) {
	err := a.n.do("Allocate")
	if err != nil && a.n.unrecorded {
		return nil, false, err
	}
	return a.Allocated(pod), a.n.changed, err
}

func (a allocations) Allocated(pod *v1.Pod) *v1.Pod {
	if a.n.granted == nil {
		return pod
	}
	return a.n.granted(pod)
}

func (a allocations) Conditions(types.UID) []v1.PodCondition {
	return []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue}}
}
func (a allocations) Actuated(types.UID) map[string]runtime.Resources { return nil }
func (a allocations) Forget(types.UID) error                          { return a.n.do("ForgetAllocation") }

type records struct{ n *node }

func (r records) Previous(_ *v1.Pod, _ *runtime.PodStatus, old *v1.PodStatus) *v1.PodStatus {
	if r.n.lost != nil {
		return r.n.lost
	}
	return old
}
func (r records) ProbeUnwritten(probe.Kind, runtime.ContainerID) bool { return r.n.unwritten }
func (r records) ForgetProbes(types.UID)                              { _ = r.n.do("ForgetProbes") }
func (r records) EarlierLife(types.UID) bool                          { return r.n.earlier }
func (r records) EarlierLifeGone(context.Context, types.UID) error {
	r.n.earlier = false
	return r.n.do("EarlierLifeGone")
}

type mirrors struct{ n *node }

func (m mirrors) Want(*v1.Pod)     { _ = m.n.do("WantMirror") }
func (m mirrors) Forget(types.UID) { _ = m.n.do("ForgetMirror") }

// web is a pod with the container "c".
func web() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Namespace: "default", Name: "web"},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "c"}}},
	}
}

// viewOf returns a view of the pod with its container in a state; the sandbox runs unless the container has exited.
func viewOf(state runtime.State) *runtime.PodStatus {
	c := &runtime.ContainerStatus{ID: runtime.ContainerID{Runtime: "rt", ID: "c1"}, Name: "c", SandboxID: "s1", State: state}
	if state != runtime.Created {
		c.StartedAt = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if state == runtime.Exited {
		c.FinishedAt = c.StartedAt.Add(time.Minute)
		c.ExitCode, c.Reason = 3, "Error"
	}
	sandbox := &runtime.SandboxStatus{ID: "s1", State: runtime.Running}
	if state == runtime.Exited {
		sandbox.State = runtime.Exited
	}
	return &runtime.PodStatus{
		UID: "u", Namespace: "default", Name: "web", IPs: []string{"10.0.0.1"},
		Sandboxes: []*runtime.SandboxStatus{sandbox}, Containers: []*runtime.ContainerStatus{c},
	}
}

// nothing returns the view of a pod that the runtime does not have.
func nothing() *runtime.PodStatus { return &runtime.PodStatus{UID: "u"} }

// same compares results; of Amend it compares only whether it is set.
func same(a, b podworkers.SyncResult) bool {
	return a.Terminal == b.Terminal && a.Acted == b.Acted && (a.Amend == nil) == (b.Amend == nil)
}
