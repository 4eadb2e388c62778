package oomkills

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
)

// idA and idB are IDs as runtimes give them.
var idA, idB = strings.Repeat("a1", 32), strings.Repeat("b2", 32)

// 28.2: which kills of a life are new when its cgroup is read and when it has ended.
func TestKillsOfALife(t *testing.T) {
	at := func(seconds float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	type reading struct {
		at    float64
		count int64
	}
	for _, c := range []struct {
		name     string
		old      bool // older than the agent
		readings []reading
		end      *runtime.ContainerStatus
		stopping bool
		want     int64
	}{
		{name: "nothing", readings: []reading{{0, 0}, {10, 0}}, want: 0},
		{name: "two processes", readings: []reading{{0, 0}, {10, 1}, {20, 1}, {30, 2}}, want: 2},
		{name: "before the agent", old: true, readings: []reading{{0, 3}, {10, 3}, {20, 4}}, want: 1},
		{name: "the container", readings: []reading{{0, 0}}, end: &runtime.ContainerStatus{Reason: restartpolicy.OOMKilled, ExitCode: 137, FinishedAt: at(5)}, want: 1},
		{name: "never read", end: &runtime.ContainerStatus{Reason: restartpolicy.OOMKilled, ExitCode: 137, FinishedAt: at(5)}, want: 1},
		{name: "ended by itself", readings: []reading{{0, 0}}, end: &runtime.ContainerStatus{Reason: "Error", ExitCode: 137, FinishedAt: at(5)}, want: 0},
		{name: "a process, then the container", readings: []reading{{0, 1}}, end: &runtime.ContainerStatus{Reason: restartpolicy.OOMKilled, ExitCode: 137, FinishedAt: at(5)}, want: 2},
		{name: "read between the kill and the end", readings: []reading{{5, 1}}, end: &runtime.ContainerStatus{Reason: restartpolicy.OOMKilled, ExitCode: 137, FinishedAt: at(5.2)}, want: 1},
		{name: "read after the end", readings: []reading{{5, 1}}, end: &runtime.ContainerStatus{Reason: restartpolicy.OOMKilled, ExitCode: 137, FinishedAt: at(4.9)}, want: 1},
		{name: "a process, then an end of its own", readings: []reading{{0, 1}}, end: &runtime.ContainerStatus{Reason: restartpolicy.OOMKilled, FinishedAt: at(5)}, want: 1},
		{name: "a process, then stopped", readings: []reading{{0, 1}}, end: &runtime.ContainerStatus{Reason: restartpolicy.OOMKilled, ExitCode: 137, FinishedAt: at(5)}, stopping: true, want: 1},
		{name: "a process that no reading saw, then an end of its own", readings: []reading{{0, 0}}, end: &runtime.ContainerStatus{Reason: restartpolicy.OOMKilled, FinishedAt: at(5)}, want: 1},
	} {
		l, got := &life{based: !c.old}, int64(0)
		for _, r := range c.readings {
			got += l.read(r.count, at(r.at))
		}
		if c.end != nil {
			got += l.end(c.end, c.stopping)
		}
		if got != c.want {
			t.Errorf("%s: %d kills, want %d", c.name, got, c.want)
		}
	}
}

// groups makes cgroups with kills, by path below the root; of version 2 if unified.
func groups(t *testing.T, root string, unified bool, kills map[string]int) {
	t.Helper()
	top, file := filepath.Join(root, "memory"), "memory.oom_control"
	text := "oom_kill_disable 0\nunder_oom 0\noom_kill %d\n"
	if unified {
		top, file, text = root, "memory.events", "low 0\nhigh 7\nmax 9\noom 3\noom_kill %d\noom_group_kill 0\n"
		if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("cpu memory\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, n := range kills {
		dir := filepath.Join(top, path)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, file), fmt.Appendf(nil, text, n), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// 28.1: the kills are read where the version of the cgroups has them, whatever the cgroups are called.
func TestReadsCgroupsOfEitherVersion(t *testing.T) {
	for _, unified := range []bool{false, true} {
		root := t.TempDir()
		groups(t, root, unified, map[string]int{"k8s.io/" + idA: 1, "kubepods.slice/cri-containerd-" + idB + ".scope": 2, "memory": 3})
		k := looking(t, root)
		paths := k.paths(true)
		a, okA := k.kills(paths[idA])
		b, okB := k.kills(paths[idB])
		if !okA || !okB || a != 1 || b != 2 {
			t.Errorf("unified %t: %d %t, %d %t", unified, a, okA, b, okB)
		}
		if n, ok := k.kills("gone"); ok {
			t.Errorf("a cgroup that is gone: %d", n)
		}
	}
	if k := looking(t, t.TempDir()); k.watches() {
		t.Errorf("a machine without cgroups: %+v", k.finder)
	}
}

// looking returns a table that looks for two containers below a folder.
func looking(t *testing.T, root string) *Kills {
	t.Helper()
	k, err := New(Options{Root: root, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	k.pods["u"] = &pod{lives: map[string]*life{idA: {}, idB: {}}}
	return k
}

// 28.1: a search that had to leave something out is none: the next ones find what it did not.
func TestUnfinishedSearchIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		groups(t, root, true, map[string]int{"k8s.io/" + idA: 1})
		k := looking(t, root)
		k.finder.Most = 1
		for range 10 * maxSearches {
			k.look()
			after(time.Minute)
		}
		if !k.watches() {
			t.Errorf("given up: %+v", k.pods["u"].lives[idA])
		}
		k.finder.Most = 100
		after(time.Hour)
		if k.paths(true)[idA] == "" {
			t.Error("not found later")
		}
	})
}

// rig is a table over pods of a test.
type rig struct {
	*testing.T
	*Kills
	root  string
	meter *instrumenttest.Meter

	// read is closed when the runtime has been read.
	read     chan struct{}
	mu       sync.Mutex
	views    map[types.UID]*runtime.PodStatus
	failed   map[types.UID]error
	stopping bool
	events   []string
}

func (r *rig) Eventf(object apiruntime.Object, kind, reason, format string, args ...any) {
	ref := object.(*v1.ObjectReference)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s/%s %s %s %s %s", ref.Namespace, ref.Name, ref.FieldPath, kind, reason, fmt.Sprintf(format, args...)))
}

// newRig makes a table that runs. The first complete reading of the runtime shows these containers of a pod.
func newRig(t *testing.T, first ...*runtime.ContainerStatus) *rig {
	r := newUnreadRig(t)
	if len(first) > 0 {
		r.show("u", first...)
	}
	close(r.read)
	synctest.Wait()
	return r
}

// newUnreadRig makes a table that runs, for a runtime that has not been read completely.
func newUnreadRig(t *testing.T) *rig {
	r := &rig{
		T: t, root: t.TempDir(), meter: &instrumenttest.Meter{}, read: make(chan struct{}),
		views: map[types.UID]*runtime.PodStatus{}, failed: map[types.UID]error{},
	}
	groups(t, r.root, true, nil)
	var err error
	r.Kills, err = New(Options{
		View: func(uid types.UID) (*runtime.PodStatus, error) { return r.views[uid], r.failed[uid] },
		Read: r.read, Pods: func() []types.UID {
			return append(slices.Collect(maps.Keys(r.views)), slices.Collect(maps.Keys(r.failed))...)
		},
		Pod: func(types.UID) *v1.Pod {
			return &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "side"}}}}
		},
		Stopping: func(types.UID) bool { return r.stopping },
		Root:     r.root, Machine: filepath.Join(r.root, "vmstat"), Clock: clock.RealClock{}, Events: r, Meter: r.meter,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Kills.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	synctest.Wait()
	return r
}

// show has the runtime show containers of a pod.
func (r *rig) show(uid types.UID, containers ...*runtime.ContainerStatus) {
	r.views[uid] = &runtime.PodStatus{UID: uid, Namespace: "default", Name: "web", Containers: containers}
	r.Noticed(uid)
}

// want compares the events, and the metric if it is not negative.
func (r *rig) want(sum float64, events ...string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.events, events) {
		r.Errorf("events %q, want %q", r.events, events)
	}
	if got := r.meter.Read(r.Context()); got["container_oom_events_total{container=app,namespace=default,pod=web}"] != sum {
		r.Errorf("metric %v, want %v", got, sum)
	}
}

func container(id string, state runtime.State) *runtime.ContainerStatus {
	return &runtime.ContainerStatus{ID: runtime.ContainerID{ID: id}, Name: "app", State: state, StartedAt: time.Now()}
}

func ended(c *runtime.ContainerStatus, code int32, reason string) *runtime.ContainerStatus {
	e := *c
	e.State, e.ExitCode, e.Reason, e.FinishedAt = runtime.Exited, code, reason, time.Now()
	return &e
}

// 28.1, 28.2: a process that is killed while its container continues is reported once, within 10 s,
// and the container's end once; the sum is that of all its lives until the pod is gone.
func TestProcessesAndContainersAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		groups(t, r.root, true, map[string]int{"k8s.io/" + idA: 0})
		a := container(idA, runtime.Running)
		r.show("u", a)
		synctest.Wait()
		r.want(0)
		groups(t, r.root, true, map[string]int{"k8s.io/" + idA: 1})
		after(10 * time.Second)
		process := "default/web spec.containers{app} Warning OOMKilled Out of memory: the kernel killed a process of container app"
		r.want(1, process)
		after(time.Minute)
		r.want(1, process)
		after(5 * time.Second)
		if err := os.RemoveAll(filepath.Join(r.root, "k8s.io")); err != nil {
			t.Fatal(err)
		}
		b := container(idB, runtime.Running)
		dead := ended(a, 137, restartpolicy.OOMKilled)
		r.show("u", dead, b)
		r.show("u", dead, b)
		whole := "default/web spec.containers{app} Warning OOMKilled Out of memory: the kernel killed container app"
		r.want(2, process, whole)
		r.show("u", b)
		r.want(2, process, whole)
		r.show("u")
		if got := r.meter.Read(t.Context()); len(got) != 0 {
			t.Errorf("a pod that is gone: %v", got)
		}
	})
}

// 28.1: cgroups that were read are read again when the kernel has killed something, on the whole machine, and for 20 s after
// that; before its first reading a cgroup is read in any case.
func TestCgroupsAreReadWhenSomethingWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		machine := func(text string) {
			if err := os.WriteFile(filepath.Join(r.root, "vmstat"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		machine("pgfault 9\noom_kill 7\ndrop_pagecache 0\n")
		groups(t, r.root, true, map[string]int{"k8s.io/" + idA: 0})
		a := container(idA, runtime.Running)
		r.show("u", a)
		after(time.Minute)
		groups(t, r.root, true, map[string]int{"k8s.io/" + idA: 1})
		after(time.Minute)
		r.want(0) // else the cgroup was read
		told := func(what string) string {
			return "default/web spec.containers{app} Warning OOMKilled Out of memory: the kernel killed " + what + " of container app"
		}
		machine("oom_kill 8\n")
		after(10 * time.Second)
		r.want(1, told("a process"))
		groups(t, r.root, true, map[string]int{"k8s.io/" + idA: 3})
		after(10 * time.Second)
		r.want(3, told("a process"), told("2 processes"))
		after(time.Minute)
		groups(t, r.root, true, map[string]int{"k8s.io/" + idA: 4, "k8s.io/" + idB: 1})
		r.show("u", a, container(idB, runtime.Running))
		after(time.Minute)
		r.want(4, told("a process"), told("2 processes"), told("a process")) // of b alone
		machine("no count\n")
		after(10 * time.Second)
		r.want(5, told("a process"), told("2 processes"), told("a process"), told("a process"))
	})
}

// 28.1: a scrape reads by itself.
func TestScrapeReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		groups(t, r.root, true, map[string]int{"k8s.io/" + idA: 0})
		r.show("u", container(idA, runtime.Running))
		r.want(0)
		groups(t, r.root, true, map[string]int{"k8s.io/" + idA: 3})
		if got := slices.Collect(maps.Values(r.meter.Read(t.Context()))); !slices.Equal(got, []float64{3}) {
			t.Errorf("read %v", got)
		}
		r.want(3, "default/web spec.containers{app} Warning OOMKilled Out of memory: the kernel killed 3 processes of container app")
	})
}

// 28.3: the agent does not report what its first complete reading of the runtime shows, whether it hears of the pod before or after
// that, and whatever the clock says.
func TestEarlierKillsAreNotTold(t *testing.T) {
	for name, change := range map[string]time.Duration{"clock right": -time.Minute, "clock set forward since": 26 * 365 * 24 * time.Hour} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late %t", name, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					long, short := container(idA, runtime.Running), container(idB, runtime.Running)
					long.StartedAt, short.StartedAt = long.StartedAt.Add(change), short.StartedAt.Add(change)
					dead := ended(short, 137, restartpolicy.OOMKilled)
					dead.FinishedAt = dead.StartedAt.Add(time.Second)
					r := newUnreadRig(t)
					groups(t, r.root, true, map[string]int{"k8s.io/" + idA: 4})
					if late {
						r.failed["u"] = errors.New("no answer")
						close(r.read)
						synctest.Wait()
						delete(r.failed, "u")
					}
					r.show("u", long, dead)
					if !late {
						close(r.read)
					}
					after(time.Minute)
					r.want(0)
					groups(t, r.root, true, map[string]int{"k8s.io/" + idA: 5})
					after(10 * time.Second)
					r.want(1, "default/web spec.containers{app} Warning OOMKilled Out of memory: the kernel killed a process of container app")
				})
			})
		}
	}
}

// 28.2: a container that was seen running ends before the first complete reading, which is the first to show that.
func TestEndSeenByTheFirstReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newUnreadRig(t)
		a := container(idA, runtime.Running)
		r.show("u", a)
		r.views["u"] = &runtime.PodStatus{UID: "u", Namespace: "default", Name: "web", Containers: []*runtime.ContainerStatus{ended(a, 137, restartpolicy.OOMKilled)}}
		close(r.read)
		synctest.Wait()
		r.want(1, "default/web spec.containers{app} Warning OOMKilled Out of memory: the kernel killed container app")
	})
}

// 28.3: what comes after the first complete reading is reported, also if the clock was set back since the agent began.
func TestLaterKillsAreToldWhateverTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, container(idB, runtime.Running))
		a := container(idA, runtime.Running)
		a.StartedAt, a.RestartCount = a.StartedAt.Add(-time.Hour), 1
		dead := ended(a, 137, restartpolicy.OOMKilled)
		dead.FinishedAt = a.StartedAt.Add(time.Second)
		r.show("u", dead, r.views["u"].Containers[0])
		r.want(1, "default/web spec.containers{app} Warning OOMKilled Out of memory: the kernel killed container app")
	})
}

// 28.3: a container that was missing in the first reading, although others of its pod were there, and that had ended by then, is not
// new either; one that ran is.
func TestFirstReadingLacksAContainer(t *testing.T) {
	whole := "default/web spec.containers{app} Warning OOMKilled Out of memory: the kernel killed container app"
	for name, c := range map[string]struct {
		restarts int
		name     string
		ran      bool
		want     []string
	}{
		"older":                      {1, "app", false, nil},
		"newer":                      {3, "app", false, []string{whole}},
		"another one":                {0, "other", false, []string{strings.ReplaceAll(whole, "app", "other")}},
		"it ran, and is there again": {2, "app", true, []string{whole}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := container(idA, runtime.Running), container(idB, runtime.Running)
				a.RestartCount, b.RestartCount, b.Name = 2, c.restarts, c.name
				first := []*runtime.ContainerStatus{a}
				if c.ran {
					first = append(first, b)
				}
				r := newRig(t, first...)
				r.show("u", a)
				r.show("u", a, ended(b, 137, restartpolicy.OOMKilled))
				r.mu.Lock()
				defer r.mu.Unlock()
				if !slices.Equal(r.events, c.want) {
					t.Errorf("events %q, want %q", r.events, c.want)
				}
			})
		})
	}
}

// A container that is killed before it is seen running is reported; one in a list of its own is named accordingly.
func TestQuickEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		side := ended(container("short", runtime.Running), 137, restartpolicy.OOMKilled)
		side.Name = "side"
		r.show("u", side)
		r.want(0, "default/web spec.initContainers{side} Warning OOMKilled Out of memory: the kernel killed container side")
	})
}

// A cgroup that does not exist, such as that of a virtual machine, is searched for only three times.
func TestSearchesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.show("u", container(idA, runtime.Running))
		after(time.Hour)
		if r.watches() || r.pods["u"].lives[idA].searches != maxSearches {
			t.Errorf("%+v", r.pods["u"].lives[idA])
		}
		r.want(0)
	})
}

// 28.1 in a crowd: 1,000 containers are one search and one file each per look.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		kills := map[string]int{}
		var all []*runtime.ContainerStatus
		for i := range 1000 {
			id := fmt.Sprintf("%064x", i)
			kills["k8s.io/"+id] = 1
			all = append(all, container(id, runtime.Running))
		}
		groups(t, r.root, true, kills)
		r.show("u", all...)
		after(10 * time.Second)
		r.want(1000, r.events...)
		if len(r.events) != 1000 {
			t.Errorf("%d events", len(r.events))
		}
	})
}

// BenchmarkLook is a look at 110 containers that nothing has happened to.
func BenchmarkLook(b *testing.B) {
	root := b.TempDir()
	k, err := New(Options{Root: root, Machine: filepath.Join(root, "vmstat"), Clock: clock.RealClock{}, Meter: &instrumenttest.Meter{}})
	if err != nil {
		b.Fatal(err)
	}
	p := &pod{sums: map[string]int64{}, lives: map[string]*life{}}
	k.pods["u"] = p
	for i := range 110 {
		id := fmt.Sprintf("%064x", i)
		path := filepath.Join(root, id)
		if err := errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "memory.events"), []byte("oom 0\noom_kill 0\n"), 0o600)); err != nil {
			b.Fatal(err)
		}
		p.lives[id] = &life{path: id, based: true}
	}
	k.finder.Top, k.file = root, "memory.events"
	for b.Loop() {
		k.look()
	}
}

// after lets time pass, and all that is due happen.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
