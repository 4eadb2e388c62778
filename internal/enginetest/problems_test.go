package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/source"
)

// stuck is a place where something hangs until it is released.
type stuck struct {
	mu   sync.Mutex
	gone bool
	let  chan struct{}
}

// wait blocks until release.
func (s *stuck) wait() {
	<-s.let
}

func (s *stuck) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		s.gone = true
		close(s.let)
	}
}

// silent is a source that delivers nothing until it is released.
type silent struct {
	s   *stuck
	err error
}

func (silent) Name() string { return "quiet" }

func (q silent) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	select {
	case <-q.s.let:
	case <-ctx.Done():
		return nil
	default:
		if q.err != nil {
			return q.err
		}
		select {
		case <-q.s.let:
		case <-ctx.Done():
			return nil
		}
	}
	if err := deliver(ctx, nil); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// hang is one thing that can hang in a whole engine.
type hang struct {
	name string
	// configure makes it hang from the start; act makes it hang in a running engine with the pods
	// default/bad and ten good ones.
	configure func(t *testing.T, c *podwright.Config, s *stuck)
	act       func(r *rig, s *stuck)
	// pod changes the bad pod.
	pod func(*v1.Pod)
	// fault is a runtime call that lasts until the hang is over.
	fault fake.Method
	// kind, what and waits are those of the listed problem; after is its maximum age at that
	// moment; unhealthy: it harms all pods.
	kind, what, waits string
	after             time.Duration
	unhealthy         bool
}

func hangs() []hang {
	remove := func(r *rig, _ *stuck) { r.set(goodPods()...) }
	call := func(m fake.Method, waits string, act func(*rig, *stuck)) hang {
		return hang{name: string(m), fault: m, act: act, kind: "runtimeCall", waits: waits, after: 10 * time.Second}
	}
	disk := func(p func(s *stuck, d *checkpointtest.Points)) func(*testing.T, *podwright.Config, *stuck) {
		return func(_ *testing.T, c *podwright.Config, s *stuck) {
			d := &checkpointtest.Points{FS: &checkpointtest.Disk{}}
			p(s, d)
			c.Checkpoints.Store = checkpoint.NewFiles(d)
		}
	}
	sourceThat := func(err error) func(*testing.T, *podwright.Config, *stuck) {
		return func(_ *testing.T, c *podwright.Config, s *stuck) { c.Sources = append(c.Sources, silent{s, err}) }
	}
	return []hang{
		call(fake.RunPodSandbox, "RunPodSandbox to return", nil),
		call(fake.CreateContainer, "CreateContainer to return", nil),
		call(fake.StartContainer, "StartContainer to return", nil),
		{name: "pull", fault: fake.PullImage, kind: "runtimeCall", waits: "PullImage to return", after: 2 * time.Minute},
		{name: "setup of a pod", fault: fake.CreateContainer, kind: "pod", what: "default/bad", waits: "SyncPod to return", after: 3 * time.Minute},
		{name: "stop", fault: fake.StopContainer, act: remove, kind: "runtimeCall", waits: "StopContainer to return", after: 20 * time.Second},
		{name: "end of a pod", fault: fake.StopContainer, act: remove, kind: "pod", what: "default/bad", waits: "SyncTerminatingPod to return", after: 30 * time.Second},
		call(fake.StopPodSandbox, "StopPodSandbox to return", remove),
		{
			name: "stop that fails", kind: "pod", what: "default/bad", waits: "its containers to stop", after: 51 * time.Second,
			act: func(r *rig, s *stuck) {
				r.refuse(fake.StopContainer, s)
				r.refuse(fake.StopPodSandbox, s)
				remove(r, s)
			},
		},
		{name: "status of a pod", fault: fake.ContainerStatus, kind: "reading", what: "default/bad", waits: "the container runtime to describe the pod", after: time.Minute},
		{
			name: "status of the runtime", fault: fake.Status, kind: "runtime", what: "runtime", waits: "the container runtime to be ready", after: 41 * time.Second,
			act: func(r *rig, s *stuck) { r.fault(fake.Status, "", s) }, unhealthy: true,
		},
		{
			name: "list of the runtime", fault: fake.ListPodSandbox, kind: "reading", what: "list", waits: "the container runtime to list its pods", after: 4 * time.Minute,
			act: func(r *rig, s *stuck) { r.fault(fake.ListPodSandbox, "", s) }, unhealthy: true,
		},
		{name: "silent source", configure: sourceThat(nil), kind: "source", what: "quiet", waits: "the source's first word", after: 31 * time.Second},
		{name: "failing source", configure: sourceThat(errors.New("refused")), kind: "source", what: "quiet", waits: "the source to be read", after: time.Second},
		{
			name: "unreadable manifest", kind: "source", what: "broken.yaml", after: 2 * time.Second,
			configure: func(t *testing.T, c *podwright.Config, s *stuck) { addManifest(t, c, s, "broken.yaml", "not a pod") },
		},
		{
			name: "manifest of another kind", kind: "source", what: "web.yaml", after: 2 * time.Second,
			configure: func(t *testing.T, c *podwright.Config, s *stuck) {
				addManifest(t, c, s, "web.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n")
			},
		},
		{
			name: "sink", kind: "sink", what: "1:status.SinkFunc", waits: "the sink to answer for 1 pods", after: 11 * time.Second,
			configure: func(_ *testing.T, c *podwright.Config, s *stuck) {
				c.Observe.Sinks = append(c.Observe.Sinks, status.SinkFunc(func(_ context.Context, u status.Update) (status.StoreResult, error) {
					if isVictim(u.UID) {
						s.wait()
					}
					return status.Stored, nil
				}))
			},
		},
		{
			name: "write of a record", kind: "record", what: "store", waits: "the disk to answer a write", after: 11 * time.Second, unhealthy: true,
			configure: disk(func(s *stuck, d *checkpointtest.Points) {
				d.Before = func(op checkpointtest.Op) error {
					if op.Kind == "write" && time.Since(epoch) > 5*time.Second {
						s.wait()
					}
					return nil
				}
			}),
			act: func(r *rig, _ *stuck) {
				<-time.After(6 * time.Second)
				r.set(append(goodPods(), badPod(), newPod("late"))...)
			},
		},
		{
			name: "reading of the records", kind: "recovery", what: "start", waits: "the records to be read", after: 31 * time.Second, unhealthy: true,
			configure: disk(func(s *stuck, d *checkpointtest.Points) { d.OnRead = func(string) error { s.wait(); return nil } }),
		},
		{
			name: "exec probe", fault: fake.ExecSync, kind: "probe", what: "default/bad", waits: "the Readiness probe of container main to return", after: 15 * time.Second,
			pod: func(p *v1.Pod) {
				p.Spec.Containers[0].ReadinessProbe = &v1.Probe{
					ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check"}}}, TimeoutSeconds: 1, PeriodSeconds: 10,
				}
			},
		},
		{
			name: "damaged record", kind: "record", what: "uid-lost", waits: "a new record in its place", after: 10 * time.Second,
			configure: func(t *testing.T, c *podwright.Config, s *stuck) { // the record of a pod that the source may want
				damageRecord(t, c, "uid-lost")
				sourceThat(nil)(t, c, s)
			},
		},
		{
			name: "shut gate", kind: "pod", what: "default/late", waits: "the gate to open", after: 31 * time.Second, unhealthy: true,
			act: func(r *rig, s *stuck) {
				r.fault(fake.Status, "", s)
				<-time.After(time.Minute)
				r.set(append(goodPods(), badPod(), newPod("late"))...)
			},
		},
		{
			// The pod's own last step removes the sandbox (runtime.md 19.7).
			name: "removal", fault: fake.RemovePodSandbox, act: remove, kind: "pod", what: "default/bad", waits: "SyncTerminatedPod to return",
			after: 31 * time.Second,
		},
	}
}

// epoch is when the time of a bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// addManifest adds a folder with a file, and removes the file when the hang is over.
func addManifest(t *testing.T, c *podwright.Config, s *stuck, name, text string) {
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	if err := writeManifest(path, text); err != nil {
		t.Fatal(err)
	}
	files, err := source.NewFile(dir, "n1", source.FileOptions{PollOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	c.Sources = append(c.Sources, files)
	go func() {
		s.wait()
		_ = os.Remove(path)
	}()
}

// damageRecord replaces a pod's record with garbage.
func damageRecord(t *testing.T, c *podwright.Config, uid string) {
	dir := filepath.Join(c.RootDir, "state", "pods")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, uid), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// goodPods returns ten pods without any trouble.
func goodPods() []*v1.Pod {
	var out []*v1.Pod
	for i := range 10 {
		out = append(out, newPod(fmt.Sprint("good-", i)))
	}
	return out
}

// fault makes the calls of a method for one pod, or for all pods if uid is empty, wait until the
// hang is over, even if their context ends.
func (r *rig) fault(m fake.Method, uid types.UID, s *stuck) {
	r.runtime.Inject(fake.Fault{Match: fake.Match{Method: m, Func: func(c fake.Call) bool {
		pull, isPull := c.Request.(*runtimeapi.PullImageRequest)
		if uid == "" || c.PodUID == uid || isPull && pull.GetImage().GetImage() == "bad:1" {
			s.wait()
		}
		return false
	}}})
}

// refuse makes the calls of a method for the bad pod fail at once until the hang is over.
func (r *rig) refuse(m fake.Method, s *stuck) {
	r.runtime.Inject(fake.Fault{Effect: fake.Effect{Err: errors.New("device or resource busy")}, Match: fake.Match{Method: m, Func: func(c fake.Call) bool {
		select {
		case <-s.let:
			return false
		default:
			return c.PodUID == "uid-bad"
		}
	}}})
}

// badPod is the pod that hangs.
func badPod() *v1.Pod {
	p := newPod("bad")
	p.Spec.Containers[0].Image = "bad:1"
	return p
}

// TestEachHangIsAProblem: IN2, IN6. Whatever hangs is listed while it hangs. The entry says what it is,
// since when and for what it waits, what to do, and whether it harms all pods. Ten good pods run beside it.
func TestEachHangIsAProblem(t *testing.T) {
	t.Parallel()
	for _, h := range hangs() {
		t.Run(h.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { listHang(t, h) })
		})
	}
}

func listHang(t *testing.T, h hang) {
	s := &stuck{let: make(chan struct{})}
	t.Cleanup(s.release)
	r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
		if h.configure != nil {
			h.configure(t, c, s)
		}
	})
	t.Cleanup(s.release)
	if h.fault != "" && (h.act == nil || h.kind == "runtimeCall" || h.kind == "pod") {
		r.fault(h.fault, "uid-bad", s)
	}
	r.start()
	t.Cleanup(s.release) // before the engine is stopped
	bad := badPod()
	if h.pod != nil {
		h.pod(bad)
	}
	go func() { _ = r.source.Set(t.Context(), append(goodPods(), bad)) }()
	if h.kind != "recovery" {
		for _, p := range goodPods() {
			r.phase(p.UID, v1.PodRunning, 5*time.Second)
		}
	}
	before := time.Now()
	if h.act != nil {
		r.phase("uid-bad", v1.PodRunning, 5*time.Second)
		before = time.Now()
		h.act(r, s)
	}
	var found podwright.Problem
	r.within(h.after+10*time.Second, "the hang is listed", func() error {
		for _, p := range r.engine.Problems() {
			if string(p.Kind) == h.kind && (h.what == "" || p.Name == h.what) && (h.waits == "" || strings.Contains(p.Waits, h.waits)) {
				found = p
				return nil
			}
		}
		return unmet(func() string { return fmt.Sprintf("problems: %v", r.problems()) })
	})
	if waited := time.Since(found.Since); waited > h.after+imprecision || found.Since.Before(before.Add(-40*time.Second)) {
		t.Errorf("listed since %v, after %v: %s", found.Since, waited, found)
	}
	if found.Advice == "" || found.Waits == "" {
		t.Errorf("%+v", found)
	}
	if healthy := r.engine.Healthy() == nil; healthy == h.unhealthy {
		t.Errorf("healthy %v: %v", healthy, r.engine.Healthy())
	}
	s.release()
	r.within(7*time.Minute, "nothing to hang", r.problems)
	for _, p := range goodPods() {
		r.phase(p.UID, v1.PodRunning, 5*time.Second)
	}
}

// TestStopThatNeverEndsIsAProblem: IN2. StopContainer hangs, even when its context ends, and the
// engine has to stop. The component that waits for the call is listed until it ends.
func TestStopThatNeverEndsIsAProblem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{let: make(chan struct{})}
		r := newRig(t, fake.New(fake.Options{}), t.TempDir()).start()
		t.Cleanup(s.release) // before the engine is stopped
		r.set(append(goodPods(), badPod())...)
		r.phase("uid-bad", v1.PodRunning, 5*time.Second)
		r.fault(fake.StopContainer, "uid-bad", s)
		r.set(goodPods()...)
		<-time.After(5 * time.Second)
		r.cancel()
		told := time.Now()
		r.within(time.Minute, "the end of the workers is listed", func() error {
			for _, p := range r.engine.Problems() {
				if p.Kind == "stop" && p.Name == "workers" && !p.Since.Before(told) && strings.Contains(p.Waits, "to return") {
					return nil
				}
			}
			return fmt.Errorf("problems: %w", r.problems())
		})
		if waited := time.Since(told); waited < 30*time.Second {
			t.Errorf("listed after %v", waited)
		}
		s.release()
		<-r.ended
		if err := r.problems(); err != nil {
			t.Errorf("after the end: %v", err)
		}
	})
}
