package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// leftRunning returns a runtime with n running pods whose agent has ended. Each container crashed
// twice before, and its dead instances are still there.
func leftRunning(t *testing.T, n int, root string) *fake.Runtime {
	rt := byContainer(map[string]fake.Script{"main": {Crashes: 2, Crash: fake.Exit{After: time.Second}}})
	old := newRig(t, rt, root, keepDead).start()
	old.set(crowdOf(n)...)
	old.within(10*time.Minute, "every pod to run after two crashes", func() error {
		for _, pod := range crowdOf(n) {
			if left := old.records(pod); len(left) != 3 || rt.Running(pod.UID, "main") != 1 {
				return fmt.Errorf("%s: %v", pod.Name, left)
			}
		}
		return nil
	})
	<-time.After(2 * time.Second)
	old.stop()
	return rt
}

func keepDead(c *podwright.Config) {
	c.Storage.DeadContainers = podwright.DeadContainers{PerName: -1, Total: -1}
}

// hiding makes the source of an engine unable to name all its pods.
func hiding(h *undecided) func(*podwright.Config) {
	return func(c *podwright.Config) {
		h.Channel = c.Sources[0].(*source.Channel)
		c.Sources = []syncloop.Source{h}
	}
}

// TestOtherKindsDecide: IN11. A readable manifest that is not a pod is a named problem, and does
// not protect unknown running pods. A manifest that cannot be read does protect them.
func TestOtherKindsDecide(t *testing.T) {
	t.Parallel()
	const n = 10
	deployment := "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\n"
	for name, test := range map[string]struct {
		manifest string
		want     int
	}{"other kinds": {deployment, 0}, "one unreadable": {"apiVersion: v1\nkind: Pod\n  x: [", n}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := leftRunning(t, n, t.TempDir())
				f := &fed{folder: t.TempDir()}
				for i := range n - 1 {
					if err := writeManifest(f.path(fmt.Sprintf("d%d.yaml", i)), deployment); err != nil {
						t.Fatal(err)
					}
				}
				if err := errors.Join(writeManifest(f.path("good.yaml"), fixed("good", "app:1")),
					writeManifest(f.path("last.yaml"), test.manifest)); err != nil {
					t.Fatal(err)
				}
				f = newFed(t, rt, t.TempDir(), f.folder)
				f.phase("uid-good", v1.PodRunning, 10*time.Second)
				<-time.After(time.Hour)
				synctest.Wait()
				if got := running(rt, n); got != test.want {
					t.Errorf("%d of %d orphans run after an hour, want %d", got, n, test.want)
				}
				named := 0
				for _, p := range f.file.Problems() {
					if errors.Is(p.Err, source.ErrOtherKind) && strings.Contains(p.Err.Error(), "Deployment") {
						named++
					}
				}
				if named < n-1 {
					t.Errorf("%d problems name the other kind: %v", named, f.file.Problems())
				}
			})
		})
	}
}

// fullUntil is a node whose disk is full while the function returns false.
type fullUntil func() bool

func (f fullUntil) Node(context.Context) (map[eviction.Signal]eviction.Observation, error) {
	o := eviction.Observation{Available: 900, Capacity: 1000}
	if !f() {
		o.Available = 1
	}
	return map[eviction.Signal]eviction.Observation{eviction.NodeFsAvailable: o}, nil
}

func (fullUntil) Pod(context.Context, *v1.Pod, eviction.Signal) (eviction.Usage, error) {
	return eviction.Usage{}, nil
}

// TestReclaimObeysTheRulesOfRemovals: IN11. When the disk is full, a pod that a source may want but
// could not name keeps everything, a veto counts, and the removal rate applies. The rest is
// removed.
func TestReclaimObeysTheRulesOfRemovals(t *testing.T) {
	t.Parallel()
	const n, hidden = 10, 5
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		rt := leftRunning(t, n, root)
		removals := func() int { return len(rt.Calls(fake.Match{Method: fake.RemoveContainer})) }
		before, vetoed := removals(), types.UID("uid-p00")
		h := &undecided{why: errors.New("a manifest is unreadable")}
		r := newRig(t, rt, root, keepDead, hiding(h), func(c *podwright.Config) {
			// The disk is full from this moment, when all pods have their workers again.
			full := time.Now().Add(30 * time.Second)
			c.Eviction = &podwright.Eviction{Stats: fullUntil(func() bool { return time.Now().Before(full) || removals() > before })}
			c.Cleanup.Rates.Containers = 1
			c.Cleanup.Veto = func(a cleanup.Action) error {
				if a.PodUID == vetoed {
					return errors.New("the host objects")
				}
				return nil
			}
		}).start()
		r.set(crowdOf(n)[:n-hidden]...)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		for i, pod := range crowdOf(n) {
			want := 2 // the running one, and the newest dead one, which tells how it ended
			if i >= n-hidden || pod.UID == vetoed {
				want = 3
			}
			if left := r.records(pod); len(left) != want {
				t.Errorf("%s has %v, want %d containers", pod.Name, left, want)
			}
		}
		calls := rt.Calls(fake.Match{Method: fake.RemoveContainer})[before:]
		if took := calls[len(calls)-1].Start.Sub(calls[0].Start); took < time.Duration(len(calls)-3)*time.Second {
			t.Errorf("%d containers were removed within %v, at a rate of 1 per second", len(calls), took)
		}
	})
}

// TestDrainObeysTheRulesOfRemovals: IN11. A drain stops every pod, and removes what may be removed.
// Pods to which the host objects, or which a source may want but could not name, stay and are
// named. The others are gone.
func TestDrainObeysTheRulesOfRemovals(t *testing.T) {
	const n, hidden, vetoes = 10, 3, 4
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		rt := leftRunning(t, n, root)
		h := &undecided{why: errors.New("a manifest is unreadable")}
		r := newRig(t, rt, root, hiding(h), func(c *podwright.Config) {
			c.Cleanup.Veto = func(a cleanup.Action) error {
				if a.PodUID < types.UID(fmt.Sprintf("uid-p%02d", vetoes)) {
					return errors.New("the host objects")
				}
				return nil
			}
		}).start()
		r.set(crowdOf(n)[:n-hidden]...)
		<-time.After(10 * time.Second)
		err := r.engine.Drain(t.Context())
		if !errors.Is(err, podwright.ErrKept) || !strings.Contains(err.Error(), "a manifest is unreadable") {
			t.Fatalf("a drain that had to keep something reports %v", err)
		}
		for i, pod := range crowdOf(n) {
			stays := i < vetoes || i >= n-hidden
			if got := len(r.records(pod)) > 0; got != stays {
				t.Errorf("%s: containers left: %v, want %v", pod.Name, got, stays)
			}
			if got := strings.Contains(err.Error(), "("+string(pod.UID)+")"); got != stays {
				t.Errorf("%s is named: %v, want %v: %v", pod.Name, got, stays, err)
			}
		}
		if got := running(rt, n); got != 0 {
			t.Errorf("%d pods run after the drain", got)
		}
	})
}
