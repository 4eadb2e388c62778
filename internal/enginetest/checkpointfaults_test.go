package enginetest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
)

var errBusy = errors.New("not yet")

// TestFullDiskLeavesRunningPodsAlone: CK3, CK5, CK8, status.md 9.11, edge case 28, cleanup edge
// case 35. On a full disk, running pods are left alone, a new pod is not started and an event says
// so, a critical static pod is started, the remains of a gone pod are removed without waiting for
// its record (IN4), and everything recovers when the disk has room.
func TestFullDiskLeavesRunningPodsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: 5 * time.Second, Code: 4}}}))
		r := n.agent()
		job := func() *v1.Pod { return withPolicy(newPod("job", "job"), v1.RestartPolicyNever) }
		r.set(newPod("web"), job())
		r.phase("uid-web", v1.PodRunning, time.Minute)
		r.phase("uid-job", v1.PodRunning, time.Minute)
		<-time.After(2 * time.Second)
		n.setFull(true)

		vital := newPod("vital")
		vital.Spec.PriorityClassName = "system-node-critical"
		r.set(newPod("web"), newPod("new"), vital) // the job is removed, and ends
		r.phase("uid-vital", v1.PodRunning, time.Minute)
		<-time.After(5 * time.Minute)
		if n.rt.Running("uid-web", "main") != 1 || n.rt.CallCount(fake.StopContainer) > starts(n.rt, "uid-job") {
			t.Error("a running pod was touched")
		}
		if starts(n.rt, "uid-new") != 0 || r.events.count("new FailedSync") == 0 {
			t.Errorf("the new pod was started %d times, events %v", starts(n.rt, "uid-new"), r.events.seen)
		}
		if c := n.rt.CallCount(fake.RemoveContainer); c != 1 {
			t.Errorf("%d containers were removed, want that of the job, which takes space", c)
		}
		if err := r.engine.Healthy(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("health: %v", err)
		}
		if e, _ := r.engine.Explain("uid-new"); !strings.Contains(e.Checkpoint, "no space left") {
			t.Errorf("Explain: %q", e.Checkpoint)
		}

		n.setFull(false)
		r.phase("uid-new", v1.PodRunning, 2*time.Minute)
		r.within(2*time.Minute, "all records to be written", func() error { return r.engine.Healthy() })
	})
}

// TestEndWaitsForFullDiskOneMinute: status.md 9.11: a terminal status waits for the disk, but is
// sent after 60 s in any case.
func TestEndWaitsForFullDiskOneMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: 5 * time.Second}}}))
		r := n.agent()
		r.set(withPolicy(newPod("job", "job"), v1.RestartPolicyNever))
		r.phase("uid-job", v1.PodRunning, time.Minute)
		<-time.After(2 * time.Second)
		n.setFull(true)
		r.phase("uid-job", v1.PodSucceeded, time.Minute)
		sent := func() bool {
			phases, _ := r.sink.of("uid-job")
			return phases[len(phases)-1] == v1.PodSucceeded
		}
		<-time.After(50 * time.Second)
		if sent() {
			t.Error("the end was told before it was safe")
		}
		<-time.After(15 * time.Second)
		if !sent() {
			t.Error("the end is kept forever")
		}
	})
}

// TestBadRecordsStopNoAgent: CK2, CK9, status.md 9.5, edge case 25, cleanup edge case 34: whatever
// the folder contains, the agent starts, running pods continue, the report, health and Explain say
// what is wrong, and the damaged records are replaced.
func TestBadRecordsStopNoAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, fake.New(fake.Options{}))
		names := []string{"cut", "empty", "flipped", "newer", "well"}
		pods := func() (all []*v1.Pod) {
			for _, name := range names {
				all = append(all, newPod(name))
			}
			return all
		}
		first := n.agent()
		first.set(pods()...)
		for _, p := range pods() {
			first.phase(p.UID, v1.PodRunning, time.Minute)
		}
		<-time.After(2 * time.Second)
		n.kill(first)

		content := func(name string) []byte {
			data, err := n.disk.Read("uid-"+name, (256 << 10))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		flipped := content("flipped")
		flipped[len(flipped)/2] ^= 4
		n.disk.Put("uid-cut", content("cut")[:100], 0)
		n.disk.Put("uid-empty", nil, 0)
		n.disk.Put("uid-flipped", flipped, 0)
		n.disk.Put("uid-newer", []byte(newerRecord()), 0)
		n.disk.Put("README.txt", []byte("not ours"), 0)
		n.disk.Put("folder", nil, fs.ModeDir)

		r := n.agent()
		r.set(pods()...)
		for _, p := range pods() {
			r.phase(p.UID, v1.PodRunning, time.Minute)
		}
		report, _ := r.engine.Recovery()
		if report.Records != 1 || len(report.Bad) != 6 || len(report.Unknown) != 4 || len(report.Resumed) != 1 {
			t.Errorf("report: %s", report)
		}
		for _, want := range []string{"uid-cut: corrupt", "uid-empty: corrupt", "uid-flipped: corrupt", "uid-newer: newer", "README.txt: foreign", "folder: foreign"} {
			if !strings.Contains(report.String(), want) {
				t.Errorf("no %q in %s", want, report)
			}
		}
		<-time.After(2 * time.Minute)
		for _, p := range pods() {
			if s := starts(n.rt, p.UID); s != 1 || n.rt.Running(p.UID, "main") != 1 {
				t.Errorf("%s: %d starts", p.Name, s)
			}
		}
		// All but the newer one have a record again.
		if got := len(n.records()); got != 4 {
			t.Errorf("%d records", got)
		}
		err := r.problems()
		if err == nil || strings.Contains(err.Error(), "corrupt") || !strings.Contains(err.Error(), "uid-newer") {
			t.Errorf("health: %v", err)
		}
		if e, _ := r.engine.Explain("uid-newer"); !strings.Contains(e.Checkpoint, "newer") {
			t.Errorf("Explain: %q", e.Checkpoint)
		}
		if data, _ := n.disk.Read("uid-newer", 1<<20); string(data) != newerRecord() {
			t.Error("the newer record was touched")
		}
		r.set()
		r.empty(time.Minute)
	})
}

// newerRecord returns a record of a future format version.
func newerRecord() string {
	const title = "podwright-checkpoint 3"
	return fmt.Sprintf("%s %x\n{}", title, sha256.Sum256([]byte(title+"{}")))
}

// TestUnreadableRecordsChangeNoPod: status.md 9.5, CK9: while the records cannot be read, pods are
// left as they are: nothing is started, stopped or removed. Without open files, one is as good as all.
func TestUnreadableRecordsChangeNoPod(t *testing.T) {
	for name, tc := range map[string]struct {
		file string // empty: all
		err  error
	}{
		"the disk fails":       {"", syscall.EIO},
		"no open file is left": {"uid-job", syscall.EMFILE},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { changeNoPod(t, tc.file, tc.err) }) })
	}
}

func changeNoPod(t *testing.T, file string, fault error) {
	n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}))
	pods := func() []*v1.Pod {
		return []*v1.Pod{newPod("web"), withPolicy(newPod("job", "job"), v1.RestartPolicyNever)}
	}
	first := n.agent()
	first.set(pods()...)
	first.phase("uid-job", v1.PodSucceeded, time.Minute)
	<-time.After(2 * time.Second)
	n.kill(first)
	n.rt.LoseRecords()

	var broken atomic.Bool
	broken.Store(true)
	r := n.agent(func(c *podwright.Config) {
		c.Checkpoints.Store = checkpoint.NewFiles(&checkpointtest.Points{FS: n.disk, OnRead: func(name string) error {
			if broken.Load() && (file == "" || file == name) {
				return fault
			}
			return nil
		}})
	})
	r.set(pods()...)
	<-time.After(5 * time.Minute)
	if c := n.rt.CallCount(fake.RunPodSandbox); c != 2 {
		t.Errorf("%d sandboxes, want the 2 of before", c)
	}
	if err := r.engine.Healthy(); !errors.Is(err, fault) {
		t.Errorf("health: %v", err)
	}
	if e, ok := r.engine.Explain("uid-web"); !ok || !strings.Contains(e.Held, "checkpoints") {
		t.Errorf("Explain: %+v", e)
	}
	broken.Store(false)
	r.phase("uid-web", v1.PodRunning, 3*time.Minute)
	r.phase("uid-job", v1.PodSucceeded, time.Minute)
	if s := starts(n.rt, "uid-job"); s != 1 {
		t.Errorf("the job was started %d times", s)
	}
}

// TestUnreadableRecordHoldsNoOtherPod: status.md 9.5: a record that the disk does not return keeps no other pod waiting, is
// a problem that names its file, and counts again at the next start.
func TestUnreadableRecordHoldsNoOtherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}))
		job := func() *v1.Pod { return withPolicy(newPod("job", "job"), v1.RestartPolicyNever) }
		first := n.agent()
		first.set(newPod("web"), job())
		first.phase("uid-job", v1.PodSucceeded, time.Minute)
		<-time.After(2 * time.Second)
		n.kill(first)
		n.rt.LoseRecords()

		r := n.agent(func(c *podwright.Config) {
			c.Checkpoints.Store = checkpoint.NewFiles(&checkpointtest.Points{FS: n.disk, OnRead: func(name string) error {
				if strings.HasPrefix(name, "uid-job") {
					return syscall.EIO
				}
				return nil
			}})
		})
		r.set(newPod("web"), newPod("new"))
		r.phase("uid-web", v1.PodRunning, time.Minute)
		r.phase("uid-new", v1.PodRunning, time.Minute)
		<-time.After(2 * time.Hour)
		if err := r.problems(); err == nil || !strings.Contains(err.Error(), "uid-job: unreadable") {
			t.Errorf("problems: %v", err)
		}
		n.kill(r)

		again := n.agent()
		again.set(newPod("web"), newPod("new"), job())
		again.phase("uid-job", v1.PodSucceeded, time.Minute)
		<-time.After(time.Minute)
		if s := starts(n.rt, "uid-job"); s != 1 {
			t.Errorf("the job was started %d times", s)
		}
		if err := again.problems(); err != nil {
			t.Errorf("problems: %v", err)
		}
	})
}

// TestNothingIsStoppedBeforeTheRecordsAreRead: CK9. While the records cannot be read, a pod that
// its source does not name, or no longer names, continues to run. Then it is stopped with its own
// grace, and its end is reported.
func TestNothingIsStoppedBeforeTheRecordsAreRead(t *testing.T) {
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprintf("named at first: %t", named), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, byContainer(map[string]fake.Script{"slow": {OnTERM: fake.Exit{After: 5 * time.Second, Code: 4}}}))
				first := n.agent()
				first.set(newPod("web", "slow")) // grace 10 s
				first.phase("uid-web", v1.PodRunning, time.Minute)
				<-time.After(2 * time.Second)
				n.kill(first)

				var broken atomic.Bool
				broken.Store(true)
				var last status.Update
				r := n.agent(sinks(status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
					last = u
					return status.Stored, nil
				})), func(c *podwright.Config) {
					c.Checkpoints.Store = checkpoint.NewFiles(&checkpointtest.Points{FS: n.disk, OnRead: func(string) error {
						if broken.Load() {
							return syscall.EIO
						}
						return nil
					}})
				})
				if named {
					r.set(newPod("web", "slow"))
					<-time.After(time.Second)
				}
				r.set()
				<-time.After(5 * time.Minute)
				if n.rt.Running("uid-web", "slow") != 1 {
					t.Error("it was stopped before the records were read")
				}
				broken.Store(false)
				<-time.After(2 * time.Minute)
				if !last.Finished || len(last.Status.ContainerStatuses) != 1 {
					t.Fatalf("its end was not told: %+v", last)
				}
				if end := last.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 4 {
					t.Errorf("told %+v", last.Status.ContainerStatuses[0].State)
				}
				r.empty(time.Minute)
				<-time.After(time.Minute)
				if rec := n.records(); len(rec) != 0 {
					t.Errorf("records stay: %+v", rec["uid-web"])
				}
			})
		})
	}
}

// bad is a sink that misbehaves as configured, in front of an API that holds one status.
type bad struct {
	mu    sync.Mutex
	store func(ctx context.Context, u status.Update) (status.StoreResult, error)
	read  func(ref status.PodRef) *v1.Pod
	have  map[types.UID]*v1.PodStatus
}

func (b *bad) Store(ctx context.Context, u status.Update) (status.StoreResult, error) {
	b.mu.Lock()
	store := b.store
	b.mu.Unlock()
	if store != nil {
		return store(ctx, u)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.have[u.UID] = u.Status
	return status.Stored, nil
}

func (b *bad) phase(uid types.UID) v1.PodPhase {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.have[uid]; s != nil {
		return s.Phase
	}
	return ""
}

// TestBadSinkHarmsNoOther: a sink hangs forever, rejects, claims conflicts, or panics. Pods run,
// another sink gets everything, and health names the bad sink, which gets everything once it is
// well again.
func TestBadSinkHarmsNoOther(t *testing.T) {
	for name, store := range map[string]func(context.Context, status.Update) (status.StoreResult, error){
		"hangs forever": func(ctx context.Context, _ status.Update) (status.StoreResult, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		},
		"rejects":       failing,
		"says conflict": func(context.Context, status.Update) (status.StoreResult, error) { return status.Conflict, nil },
		"says nonsense": func(context.Context, status.Update) (status.StoreResult, error) { return 77, nil },
		"panics":        func(context.Context, status.Update) (status.StoreResult, error) { panic("sink") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, byContainer(map[string]fake.Script{"job": {Exit: &fake.Exit{After: time.Second}}}))
				sick, well := &bad{store: store, have: map[types.UID]*v1.PodStatus{}}, &bad{have: map[types.UID]*v1.PodStatus{}}
				r := n.agent(sinks(sick, well))
				r.set(newPod("web"), withPolicy(newPod("job", "job"), v1.RestartPolicyNever))
				r.phase("uid-web", v1.PodRunning, 10*time.Second)
				r.phase("uid-job", v1.PodSucceeded, 10*time.Second)
				<-time.After(2 * time.Minute)
				if well.phase("uid-job") != v1.PodSucceeded || n.rt.Running("uid-web", "main") != 1 {
					t.Errorf("the other sink has %q", well.phase("uid-job"))
				}
				var sinkErr *status.SinkError
				if err := r.problems(); !errors.As(err, &sinkErr) {
					t.Errorf("health: %v", err)
				}
				sick.mu.Lock()
				sick.store = nil
				sick.mu.Unlock()
				r.within(2*time.Minute, "everything to be told", func() error {
					if a, b := sick.phase("uid-web"), sick.phase("uid-job"); a != v1.PodRunning || b != v1.PodSucceeded {
						return fmt.Errorf("%q %q", a, b)
					}
					return r.problems()
				})
			})
		})
	}
}

// reading is a bad sink that also reads.
type reading struct{ *bad }

func (reading) Name() string { return "api" }

func (b reading) ReadPod(_ context.Context, ref status.PodRef) (*v1.Pod, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read != nil {
		return b.read(ref), nil
	}
	p := newPod("x")
	p.UID, p.Name, p.Namespace = ref.UID, ref.Name, ref.Namespace
	if s := b.have[ref.UID]; s != nil {
		p.Status = *s
	}
	return p, nil
}

// TestWrongAnswersOfAPIChangeNoPod: an API echoes an old status, or answers for another UID. This
// changes no pod, and the API gets the true status once it answers correctly.
func TestWrongAnswersOfAPIChangeNoPod(t *testing.T) {
	for name, read := range map[string]func(status.PodRef) *v1.Pod{
		"echoes an old status": func(ref status.PodRef) *v1.Pod {
			p := newPod("old")
			p.UID, p.Status.Phase = ref.UID, v1.PodPending
			return p
		},
		"answers for another UID": func(status.PodRef) *v1.Pod { return newPod("another") },
		"knows no pod":            func(status.PodRef) *v1.Pod { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newHost(t, fake.New(fake.Options{}))
				api := &bad{read: read, have: map[types.UID]*v1.PodStatus{}}
				configure := func(c *podwright.Config) {
					c.Observe.Sinks = []status.StatusSink{reading{api}}
				}
				r := n.agent(configure)
				r.set(newPod("web"))
				r.phase("uid-web", v1.PodRunning, 10*time.Second)
				<-time.After(5 * time.Minute)
				if n.rt.Running("uid-web", "main") != 1 || starts(n.rt, "uid-web") != 1 || r.pod("uid-web").Status.Phase != v1.PodRunning {
					t.Errorf("the pod was changed: %s", r.explain("uid-web"))
				}
			})
		})
	}
}
