package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
)

var errDisk = errors.New("the disk is broken")

// disk is a checkpoint.Store in memory that may fail.
type disk struct {
	mu      sync.Mutex
	records map[types.UID]*checkpoint.Record
	bad     []checkpoint.Bad
	// loadErr and writeErr are what Load and Write fail with.
	loadErr, writeErr error
	loads             []time.Time
	// answers, if not nil, is closed when Load may go on.
	answers chan struct{}
}

func newDisk(records ...*checkpoint.Record) *disk {
	d := &disk{records: map[types.UID]*checkpoint.Record{}}
	for _, r := range records {
		d.records[r.UID] = r
	}
	return d
}

func (d *disk) Load(context.Context) (checkpoint.Loaded, error) {
	if d.answers != nil {
		<-d.answers
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loads = append(d.loads, time.Now())
	out := checkpoint.Loaded{Bad: d.bad}
	for _, r := range d.records {
		out.Records = append(out.Records, r)
	}
	return out, d.loadErr
}

func (d *disk) Write(_ context.Context, records []*checkpoint.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.writeErr != nil {
		return d.writeErr
	}
	for _, r := range records {
		d.records[r.UID] = r
	}
	return nil
}

func (d *disk) Delete(_ context.Context, uids []types.UID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, uid := range uids {
		delete(d.records, uid)
	}
	return nil
}

func (d *disk) fail(load, write error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loadErr, d.writeErr = load, write
}

func (d *disk) get(uid types.UID) *checkpoint.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records[uid]
}

// rig is an agent's recovery with fakes around it, in a synctest bubble.
type rig struct {
	*Recovery
	t    *testing.T
	disk *disk

	mu      sync.Mutex
	synced  chan struct{}
	views   map[types.UID]*runtime.PodStatus
	viewErr map[types.UID]error
	// listErrs are what the next lists fail with.
	listErrs []error
	// ends are what the runtime has of containers that ended.
	ends    map[runtime.ContainerID]*runtime.ContainerStatus
	results map[probe.Kind]probe.Result
	// calls are what was called, in order.
	calls []string
	// waiting are the pods whose workers went on after a write.
	waiting []types.UID
	// forgets, if not nil, is called before the status manager forgets a pod.
	forgets func(uid types.UID)
}

// newRig returns an agent that has not loaded its records.
func newRig(t *testing.T, d *disk) *rig {
	r := &rig{
		t: t, disk: d, synced: make(chan struct{}), views: map[types.UID]*runtime.PodStatus{}, viewErr: map[types.UID]error{},
		ends: map[runtime.ContainerID]*runtime.ContainerStatus{}, results: map[probe.Kind]probe.Result{},
	}
	j := NewJournal(JournalOptions{
		Checkpoints: checkpoint.Options{Store: d}, BootID: "boot-1", Clock: clock.RealClock{},
		End: func(_ context.Context, _ types.UID, id runtime.ContainerID) (*runtime.ContainerStatus, error) {
			c, ok := r.ends[id]
			if !ok {
				return nil, errors.New("not known")
			}
			return c, nil
		},
		Renewed: func(uid types.UID) {
			r.forgetting(uid)
			r.note("renewed %s", uid)
		},
		Written: func(_ types.UID, waiting *v1.Pod) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if waiting != nil {
				r.waiting = append(r.waiting, waiting.UID)
			}
		},
	})
	r.Recovery = New(Options{
		Journal: j, Runtime: r, Statuses: r, Probes: r, NodeName: "n1", Events: r,
		Opened: func() { r.note("opened") }, Clock: clock.RealClock{},
	})
	return r
}

// keep loads the records and runs their keeper until the test ends.
func (r *rig) keep() *rig {
	r.t.Helper()
	if err := r.Load(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.start(r.KeepRecords)
	return r
}

// start runs f until the test ends.
func (r *rig) start(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	r.t.Cleanup(func() { cancel(); <-done })
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

// took returns what was called since the last call.
func (r *rig) took() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

func (r *rig) want(what string, calls ...string) {
	r.t.Helper()
	if got := r.took(); !slices.Equal(got, calls) {
		r.t.Errorf("%s: called %q, want %q", what, got, calls)
	}
}

// Runtime.

func (r *rig) SyncedC() <-chan struct{} { return r.synced }

func (r *rig) Known() (uids []types.UID) {
	for uid := range r.views {
		uids = append(uids, uid)
	}
	return uids
}

func (r *rig) Recall(uid types.UID, containers ...string) { r.note("recall %s %v", uid, containers) }

func (r *rig) Relist(context.Context) error {
	r.note("relist")
	if len(r.listErrs) == 0 {
		return nil
	}
	err := r.listErrs[0]
	r.listErrs = r.listErrs[1:]
	return err
}

func (r *rig) Get(uid types.UID) (*runtime.PodStatus, error) {
	if err := r.viewErr[uid]; err != nil {
		return nil, err
	}
	if view := r.views[uid]; view != nil {
		return view, nil
	}
	return &runtime.PodStatus{UID: uid}, nil
}

// Statuses.

func (r *rig) Restore(s status.Restored) { r.note("restore %s %s", s.Pod.UID, s.Status.Phase) }
func (r *rig) Adopt(pod *v1.Pod)         { r.note("adopt %s", pod.UID) }
func (r *rig) Forget(uid types.UID) {
	r.forgetting(uid)
	r.note("forget %s", uid)
}

func (r *rig) forgetting(uid types.UID) {
	if r.forgets != nil {
		r.forgets(uid)
	}
}

func (r *rig) SetContainerStartup(uid types.UID, _ runtime.ContainerID, started bool) {
	r.note("started %s %t", uid, started)
}

func (r *rig) SetContainerReadiness(uid types.UID, _ runtime.ContainerID, ready bool) {
	r.note("ready %s %t", uid, ready)
}

// Probes.

func (r *rig) Status(kind probe.Kind, _ *v1.Pod, _ string, _ runtime.ContainerID) probe.Result {
	result, has := r.results[kind]
	if !has {
		return probe.None
	}
	return result
}

// Events.

func (r *rig) Eventf(_ apiruntime.Object, kind, reason, _ string, _ ...any) {
	r.note("event %s %s", kind, reason)
}

// newPod returns a pod of the source "file", which makes it static.
func newPod(uid types.UID, edits ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: uid, Name: string(uid), Namespace: "ns",
			Annotations: map[string]string{podinfo.AnnotationSource: "file", podinfo.AnnotationHash: "h"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func fromAPI(p *v1.Pod)   { p.Annotations[podinfo.AnnotationSource] = "api" }
func deleting(p *v1.Pod)  { now := metav1.Now(); p.DeletionTimestamp = &now }
func runOnce(p *v1.Pod)   { p.Spec.RestartPolicy = v1.RestartPolicyNever }
func hasFailed(p *v1.Pod) { p.Status.Phase = v1.PodFailed }

// newRecord returns a record of a pod.
func newRecord(uid types.UID, edits ...func(*checkpoint.Record)) *checkpoint.Record {
	r := &checkpoint.Record{UID: uid}
	describe(r, newPod(uid))
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func phase(p v1.PodPhase) func(*checkpoint.Record) {
	return func(r *checkpoint.Record) { r.Status = &v1.PodStatus{Phase: p} }
}

func retired(r *checkpoint.Record)   { r.Retired = true }
func finished(r *checkpoint.Record)  { r.Finished = true }
func begun(r *checkpoint.Record)     { r.StartedAt = time.Unix(1, 0) }
func renewed(r *checkpoint.Record)   { r.EarlierLife = true }
func otherBoot(r *checkpoint.Record) { r.BootID = "boot-0" }
func hasNoPod(r *checkpoint.Record)  { r.Pod = nil }

func stopping(t checkpoint.Termination) func(*checkpoint.Record) {
	return func(r *checkpoint.Record) { r.Termination = &t }
}

// view returns a view of a pod with one container in this state.
func view(uid types.UID, state runtime.State) *runtime.PodStatus {
	return &runtime.PodStatus{UID: uid, Containers: []*runtime.ContainerStatus{{Name: "main", State: state}}}
}

// pass lets time pass, and everything that happens then be done.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
