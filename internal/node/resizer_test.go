package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/runtime/pods"
)

// grantTable is what pods were granted.
type grantTable struct {
	calls
	err  error
	next time.Time
}

func (g *grantTable) Load() error { g.add("load"); return g.err }
func (g *grantTable) Admitted(pod *v1.Pod, at time.Time, started bool) {
	g.add(fmt.Sprint("admitted ", pod.Name, " ", at.Unix(), " ", started))
}
func (g *grantTable) AdmittedAs(*v1.Pod) *v1.Pod { return nil }
func (g *grantTable) Life(uid types.UID) (time.Time, bool) {
	return time.Unix(7, 0), uid == "started"
}

func (g *grantTable) Allocated(pod *v1.Pod) *v1.Pod {
	return requesting(pod, "1")
}
func (g *grantTable) Known() []types.UID         { return []types.UID{"known", "gone"} }
func (g *grantTable) Forget(uid types.UID) error { g.add("forget " + string(uid)); return g.err }
func (g *grantTable) NextRetry() time.Time       { return g.next }
func (g *grantTable) Retry(timed bool)           { g.next = time.Time{}; g.add(fmt.Sprintf("retry %v", timed)) }

// levels are the cgroups that pods share.
type levels struct{ *grantTable }

func (l levels) Setup() error { l.add("setup"); return l.err }
func (l levels) SetBurstableShares(shares int64) error {
	l.add(fmt.Sprintf("shares %d", shares))
	return l.err
}

func newResizer(g *grantTable, l CgroupLevels) *Resizer {
	return NewResizer(ResizerOptions{
		Allocations: g, Levels: l, Clock: clock.RealClock{}, Active: func() []*v1.Pod { return nil },
		Orphaned: func(uid types.UID) bool { return uid == "gone" },
		Records:  func() Admissions { return g },
	})
}

// TestResizerRetries when something has changed, and when a deferred resize is due; it is
// idle otherwise.
func TestResizerRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &grantTable{next: time.Now().Add(time.Minute)}
		r := newResizer(g, levels{g})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		<-time.After(59 * time.Second)
		if got := g.take(); got != nil {
			t.Errorf("before it is due: %v", got)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if got, want := g.take(), []string{"forget gone", "shares 2", "retry true"}; !slices.Equal(got, want) {
			t.Errorf("when it is due: %v, want %v", got, want)
		}
		r.PodChanged()
		synctest.Wait()
		<-time.After(time.Hour)
		if got, want := g.take(), []string{"forget gone", "shares 2", "retry false"}; !slices.Equal(got, want) {
			t.Errorf("after a change: %v, want %v", got, want)
		}
		g.err = errors.New("logged")
		r.Changed()
		synctest.Wait()
		if got := g.take(); len(got) != 3 {
			t.Errorf("with trouble: %v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// requesting returns a copy of the pod with a container that requests so much CPU.
func requesting(pod *v1.Pod, cpu string) *v1.Pod {
	out := pod.DeepCopy()
	out.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return out
}

// TestWeightIsWhatPodsWereAllocated (spec/runtime.md 13.4): a resize that waits or was refused weighs nothing.
func TestWeightIsWhatPodsWereAllocated(t *testing.T) {
	g := &grantTable{}
	r := newResizer(g, levels{g})
	wanted := []*v1.Pod{requesting(newPod("a"), "64")}
	r.options.Active = func() []*v1.Pod { return wanted }
	if err := r.setLevels(); err != nil {
		t.Fatal(err)
	}
	if got, want := g.take(), []string{"shares 1024"}; !slices.Equal(got, want) {
		t.Errorf("a pod that was allocated 1 CPU and wants 64: %v, want %v", got, want)
	}
	if cpu := wanted[0].Spec.Containers[0].Resources.Requests.Cpu(); cpu.Value() != 64 {
		t.Errorf("the pod that is wanted was changed: %v", cpu)
	}
}

// reserving are levels that protect memory, too.
type reserving struct{ levels }

func (l reserving) SetReservations(guaranteed, burstable int64) error {
	l.add(fmt.Sprintf("reserved %d, %d", guaranteed, burstable))
	return l.err
}

// asAsked grants every pod what it asks for.
type asAsked struct{ *grantTable }

func (asAsked) Allocated(pod *v1.Pod) *v1.Pod { return pod }

// TestReservationsAreWhatPodsRequestTogether (spec/runtime.md 13.6): by class, and only if memory is to be protected.
func TestReservationsAreWhatPodsRequestTogether(t *testing.T) {
	pod := func(class v1.PodQOSClass, memory string) *v1.Pod {
		p := newPod(types.UID(string(class) + memory))
		p.Status.QOSClass = class
		p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)},
		}}}
		return p
	}
	g := &grantTable{}
	r := newResizer(g, reserving{levels{g}})
	r.options.Allocations = asAsked{g}
	r.options.Active = func() []*v1.Pod {
		return []*v1.Pod{
			pod(v1.PodQOSGuaranteed, "100"), pod(v1.PodQOSGuaranteed, "20"), pod(v1.PodQOSBurstable, "3"), pod(v1.PodQOSBestEffort, "1000"),
			pod(v1.PodQOSBurstable, "8E"), pod(v1.PodQOSBurstable, "8E"),
		}
	}
	for reserve, want := range map[bool][]string{false: {"shares 2"}, true: {"shares 2", fmt.Sprintf("reserved 120, %d", 3+2<<50)}} {
		r.options.Reserve = reserve
		if err := r.setLevels(); err != nil {
			t.Fatal(err)
		}
		if got := g.take(); !slices.Equal(got, want) {
			t.Errorf("reserve %v: %v, want %v", reserve, got, want)
		}
	}
	g.err, r.options.Reserve = errors.New("no such file"), true
	if err := r.setLevels(); err == nil || strings.Count(err.Error(), "no such file") != 2 {
		t.Errorf("with trouble: %v", err)
	}
}

// TestResizerNamesTheLife: spec/runtime.md 21.1. What is stored may be of an earlier life.
func TestResizerNamesTheLife(t *testing.T) {
	g := &grantTable{}
	r := newResizer(g, nil)
	for _, name := range []string{"started", "new"} {
		r.Admitted(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
	}
	if got, want := g.take(), []string{"admitted started 7 true", "admitted new 7 false"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestPodsWithoutCommonCgroupsWeighNothing: then a start of a container is no change.
func TestPodsWithoutCommonCgroupsWeighNothing(t *testing.T) {
	r := newResizer(&grantTable{}, nil)
	r.PodChanged()
	if len(r.changed) != 0 {
		t.Error("a change of weights without cgroups")
	}
}

// TestResizerPrepares: what was stored is read, then the levels are made.
func TestResizerPrepares(t *testing.T) {
	g := &grantTable{}
	if err := newResizer(g, levels{g}).Prepare(); err != nil || !slices.Equal(g.take(), []string{"load", "setup"}) {
		t.Errorf("%v", err)
	}
	for reserve, want := range map[bool][]string{true: {"load", "setup"}, false: {"load", "setup", "reserved 0, 0"}} { // 13.6: an earlier agent may have reserved
		r := newResizer(g, reserving{levels{g}})
		r.options.Reserve = reserve
		if err := r.Prepare(); err != nil || !slices.Equal(g.take(), want) {
			t.Errorf("reserve %v: %v, want %v", reserve, err, want)
		}
	}
	if err := newResizer(g, nil).Prepare(); err != nil {
		t.Error(err)
	}
	bad := &grantTable{err: errors.New("broken")}
	if err := newResizer(bad, nil).Prepare(); err == nil {
		t.Error("unread allocations are no error")
	}
	if err := newResizer(g, levels{bad}).Prepare(); err == nil || !strings.HasPrefix(err.Error(), "cgroups of pods: ") {
		t.Errorf("cgroups that cannot be made: %v", err)
	}
}

// TestAllocatableIsTheMachines, unless it is set.
func TestAllocatableIsTheMachines(t *testing.T) {
	got := Allocatable(&pods.Machine{MemoryCapacity: 1000}, v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")})
	if cpu, memory := got[v1.ResourceCPU], got[v1.ResourceMemory]; cpu.Value() != 3 || memory.Value() != 1000 {
		t.Errorf("%v", got)
	}
	examined := Allocatable(nil, nil)
	if memory := examined[v1.ResourceMemory]; memory.IsZero() {
		t.Errorf("this machine has %v", examined)
	}
}

// TestGrantsWakeTheResizer: what one pod is granted may change what others get.
func TestGrantsWakeTheResizer(t *testing.T) {
	allocations, err := pods.NewAllocations(pods.AllocationOptions{
		Store: pods.ResourceFiles{Dir: t.TempDir()}, Allocatable: func() v1.ResourceList { return Allocatable(nil, nil) },
		Active: func() []*v1.Pod { return nil }, Wake: func(types.UID) {}, Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newResizer(&grantTable{}, nil)
	pod := newPod("a")
	pod.Spec.Containers = []v1.Container{{Name: "app"}}
	_, changed, err := Grants{Allocations: allocations, Resizer: r}.Allocate(pod)
	if err != nil || changed != (len(r.changed) == 1) {
		t.Errorf("changed %v, woken %v, %v", changed, len(r.changed), err)
	}
}
