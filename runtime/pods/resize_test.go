package pods_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// resizeWorld is a world whose containers and pods' cgroups can be resized. Every
// change is written to log.
type resizeWorld struct {
	*world
	store   memoryStore
	a       *pods.Allocations
	cgroups *memoryCgroups
	log     []string
	// fail makes the change with this text fail.
	fail string
}

func newResizeWorld(t *testing.T, withCgroups bool) *resizeWorld {
	t.Helper()
	w := &resizeWorld{store: memoryStore{}}
	w.cgroups = &memoryCgroups{w: w, set: map[types.UID]pods.CgroupResources{}}
	w.world = newWorld(t, nil, func(o *pods.Options) { o.Updater, o.Stats = nil, nil })
	w.opts.Updater, w.opts.Stats = loggedUpdater{w}, w.fake
	if withCgroups {
		w.opts.Cgroups = w.cgroups
	}
	w.reload()
	return w
}

// reload is an engine restart.
func (w *resizeWorld) reload() {
	w.t.Helper()
	var err error
	w.a, err = pods.NewAllocations(pods.AllocationOptions{
		Store: w.store, Events: w.events,
		Allocatable: func() v1.ResourceList {
			return v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi")}
		},
	})
	if err == nil {
		err = w.a.Load()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.opts.Allocations = w.a
	w.restart()
}

// did notes a change, or fails it.
func (w *resizeWorld) did(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if w.fail != "" && strings.HasPrefix(text, w.fail) {
		return errors.New("told to fail")
	}
	w.log = append(w.log, text)
	return nil
}

// changes returns what was done since the last call.
func (w *resizeWorld) changes() string {
	out := strings.Join(w.log, "; ")
	w.log = nil
	return out
}

// to syncs the pod until it has the resources it asks for, as far as it gets them,
// and returns the result of the first sync.
func (w *resizeWorld) to(pod *v1.Pod) pods.Result {
	w.t.Helper()
	allocated, _, err := w.a.Allocate(pod)
	if err != nil {
		w.t.Fatal(err)
	}
	r := w.sync(allocated)
	for range 5 {
		if next := w.sync(allocated); !next.Acted {
			break
		}
	}
	return r
}

// conditions returns the resize conditions as "type reason".
func (w *resizeWorld) conditions(uid types.UID) string {
	var out []string
	for _, c := range w.a.Conditions(uid) {
		out = append(out, strings.TrimSpace(string(c.Type)+" "+c.Reason))
	}
	return strings.Join(out, ", ")
}

// loggedUpdater is the fake as far as it changes resources.
type loggedUpdater struct{ w *resizeWorld }

func (l loggedUpdater) UpdateContainerResources(ctx context.Context, id string, r *runtimeapi.ContainerResources) error {
	status, err := l.w.fake.ContainerStatus(ctx, id, false)
	if err != nil {
		return err
	}
	linux := r.GetLinux()
	if err := l.w.did("%s shares %d memory %d", status.GetStatus().GetMetadata().GetName(), linux.GetCpuShares(), linux.GetMemoryLimitInBytes()); err != nil {
		return err
	}
	return l.w.fake.UpdateContainerResources(ctx, id, r)
}

func (l loggedUpdater) UpdatePodSandboxResources(ctx context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	if err := l.w.did("sandbox shares %d memory %d", r.GetResources().GetCpuShares(), r.GetResources().GetMemoryLimitInBytes()); err != nil {
		return nil, runtime.ErrUnimplemented
	}
	return l.w.fake.UpdatePodSandboxResources(ctx, r)
}

// memoryStore keeps records in memory.
type memoryStore map[types.UID][]byte

func (s memoryStore) Load() (map[types.UID][]byte, error)     { return maps.Clone(s), nil }
func (s memoryStore) Save(uid types.UID, record []byte) error { s[uid] = record; return nil }
func (s memoryStore) Remove(uid types.UID) error              { delete(s, uid); return nil }

// memoryCgroups keeps pods' cgroups in memory.
type memoryCgroups struct {
	w     *resizeWorld
	set   map[types.UID]pods.CgroupResources
	usage int64
}

func (m *memoryCgroups) Parent(p pods.PodCgroup) (string, error) {
	return "/kubepods/" + strings.ToLower(string(p.Class)) + "/pod" + string(p.UID), nil
}

func (m *memoryCgroups) Exists(p pods.PodCgroup) (bool, error) {
	_, ok := m.set[p.UID]
	return ok, nil
}

func (m *memoryCgroups) Create(p pods.PodCgroup, r pods.CgroupResources) error {
	m.set[p.UID] = r
	return m.w.did("create pod %s", settingsText(r))
}

func (m *memoryCgroups) Resources(p pods.PodCgroup) (pods.CgroupResources, error) {
	return m.set[p.UID], nil
}

func (m *memoryCgroups) SetResources(p pods.PodCgroup, r pods.CgroupResources) error {
	if err := m.w.did("set pod %s", settingsText(r)); err != nil {
		return err
	}
	now := m.set[p.UID]
	for _, field := range []struct{ have, want *int64 }{
		{&now.CPUShares, &r.CPUShares}, {&now.CPUQuota, &r.CPUQuota}, {&now.CPUPeriod, &r.CPUPeriod}, {&now.MemoryLimit, &r.MemoryLimit},
	} {
		if *field.want != 0 {
			*field.have = *field.want
		}
	}
	m.set[p.UID] = now
	return nil
}

func (m *memoryCgroups) MemoryUsage(pods.PodCgroup) (int64, error) { return m.usage, nil }

func (m *memoryCgroups) Destroy(_ context.Context, uid types.UID) error {
	delete(m.set, uid)
	return nil
}

// settingsText names what is set.
func settingsText(r pods.CgroupResources) string {
	var out []string
	for _, f := range []struct {
		name  string
		value int64
	}{{"shares", r.CPUShares}, {"quota", r.CPUQuota}, {"memory", r.MemoryLimit}} {
		if f.value != 0 {
			out = append(out, fmt.Sprintf("%s %d", f.name, f.value))
		}
	}
	return strings.Join(out, " ")
}

// needing gives a container CPU as request and limit, and memory as limit.
func needing(c *v1.Container, cpu, memory string) {
	c.Resources = v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("10")},
		Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)},
	}
}

// apps is a pod of app containers that need "cpu memory" each.
func apps(of ...string) *v1.Pod {
	return newPod(func(p *v1.Pod) {
		p.Generation = 1
		p.Spec.Containers = nil
		for i, text := range of {
			cpu, memory, _ := strings.Cut(text, " ")
			c := container(string(rune('a' + i)))
			needing(&c, cpu, memory)
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	})
}

// 21.6, 21.8, 21.9, 13.4: the order of all calls, then completion, and nothing more.
func TestResizeInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, true)
		w.to(apps("1 1000", "2 2000"))
		if got, want := w.changes(), "create pod shares 3072 quota 300000 memory 3000"; got != want {
			t.Errorf("13.4: %q, want %q", got, want)
		}
		before := w.state(apps("1 1000", "2 2000"))
		r := w.to(apps("2 500", "1 4000"))
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		want := "sandbox shares 3072 memory 4500; set pod memory 4500; " +
			"a shares 1024 memory 500; b shares 2048 memory 4000; b shares 1024 memory 4000; a shares 2048 memory 500"
		if got := w.changes(); got != want {
			t.Errorf("21.6: %q\nwant %q", got, want)
		}
		w.wantState(apps("1 1", "1 1"), before)
		if got := w.conditions("uid-1"); got != "" {
			t.Errorf("21.9: conditions %q", got)
		}
		for _, e := range []string{"Normal ResizeStarted", "Normal ResizeCompleted"} {
			if !w.events.has(e) {
				t.Errorf("no event %s: %v", e, w.events.list())
			}
		}
		if len(w.calls(fake.StopContainer)) != 0 {
			t.Error("21.5: a container was stopped")
		}
		w.reload() // what was done is remembered
		w.to(apps("2 500", "1 4000"))
		if got := w.changes(); got != "" {
			t.Errorf("21.1: after a restart %q", got)
		}
	})
}

// 21.6: the first error stops the resize; what was done is kept, and the next sync
// continues from there. 21.8: the sandbox is told the old values if the pod's cgroup
// could not be set, and a runtime that knows nothing of sandbox resources is fine.
func TestResizeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, true)
		w.to(apps("1 1000", "1 1000"))
		w.changes()
		w.fail = "b shares"
		bigger := apps("1 2000", "1 2000")
		r := w.to(bigger)
		if r.Err == nil || r.Actions[0].Reason != "ResizePodInPlaceError" {
			t.Errorf("22.1: %+v", r)
		}
		if got := w.conditions("uid-1"); got != "PodResizeInProgress Error" || !w.events.has("Warning ResizeError") {
			t.Errorf("21.6: conditions %q, events %v", got, w.events.list())
		}
		if got := w.changes(); strings.Count(got, "a shares 1024 memory 2000") != 1 {
			t.Errorf("21.6: %q: what was done is not kept", got)
		}
		w.reload()
		w.fail = "sandbox"
		w.to(bigger)
		if got := w.changes(); got != "b shares 1024 memory 2000" {
			t.Errorf("21.6: %q after a restart, want the rest", got)
		}
		if got := w.conditions("uid-1"); got != "" {
			t.Errorf("21.9: conditions %q", got)
		}

		w.fail = "set pod"
		w.to(apps("1 3000", "1 3000"))
		if got := w.changes(); !strings.HasPrefix(got, "sandbox shares 2048 memory 6000; sandbox shares 2048 memory 4000") {
			t.Errorf("21.8: %q, want new values, then the old ones", got)
		}
	})
}

// unable is a runtime without optional abilities, wrapping one that may have them.
type unable struct {
	cri.RuntimeService
	unwrap cri.RuntimeService
}

func (u unable) Unwrap() cri.RuntimeService { return u.unwrap }

// 21.5, 21.7, 21.9: without an Updater and Stats of its own a manager uses the runtime's, also behind a wrapper; if there
// is none, a resize that restarts no container fails, and is never called completed.
func TestResizeByAbilitiesOfTheRuntime(t *testing.T) {
	for _, tc := range []struct {
		name string
		wrap func(*fake.Runtime) cri.RuntimeService
		able bool
	}{
		{"its own", func(f *fake.Runtime) cri.RuntimeService { return f }, true},
		{"a wrapped runtime's", func(f *fake.Runtime) cri.RuntimeService { return unable{f, unable{f, f}} }, true},
		{"none", func(f *fake.Runtime) cri.RuntimeService { return unable{f, nil} }, false},
		{"none that shows", func(f *fake.Runtime) cri.RuntimeService { return struct{ cri.RuntimeService }{f} }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newResizeWorld(t, false)
				w.opts.Updater, w.opts.Stats = nil, nil
				var err error
				if w.m, err = pods.New(tc.wrap(w.fake), w.fake, w.opts); err != nil {
					t.Fatal(err)
				}
				w.to(apps("1 1000"))
				r := w.to(apps("1 2000"))
				if completed := w.events.has("Normal ResizeCompleted"); completed != tc.able || (r.Err == nil) != tc.able {
					t.Errorf("21.9: completed %v, err %v", completed, r.Err)
				}
				want := "PodResizeInProgress Error"
				if tc.able {
					want = ""
				}
				if got := w.conditions("uid-1"); got != want {
					t.Errorf("21.9: conditions %q, want %q", got, want)
				}
				if got := w.read(apps("1 2000")).Container("a").Resources.MemoryLimit; (got == 2000) != tc.able {
					t.Errorf("21.5: the container has %d bytes", got)
				}
				w.fake.SetMemoryUsage("uid-1", "a", 1500)
				w.to(apps("1 1200"))
				if got := w.conditions("uid-1"); got != "PodResizeInProgress Error" {
					t.Errorf("21.7: conditions %q, although more is in use", got)
				}
				w.to(apps("1 1000")) // as it was
				w.fake.SetMemoryUsage("uid-1", "a", 0)
				w.to(apps("1 1000"))
				if got := w.conditions("uid-1"); got != "" {
					t.Errorf("21.9: conditions %q of a pod that has what it was allocated", got)
				}
			})
		})
	}
}

// 21.7, edge case 26: a limit below what is used is not applied, neither is anything
// else, until there is less in use.
func TestResizeBelowUsage(t *testing.T) {
	for _, where := range []string{"container", "pod"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newResizeWorld(t, true)
				w.to(apps("1 2000"))
				w.changes()
				use := func(n uint64) {
					if where == "pod" {
						w.cgroups.usage = int64(n)
					} else {
						w.fake.SetMemoryUsage("uid-1", "a", n)
					}
				}
				use(1000)
				if r := w.to(apps("2 1000")); r.Err == nil {
					t.Error("the limit was lowered to what is used")
				}
				if got := w.changes(); got != "" {
					t.Errorf("edge case 26: %q was applied", got)
				}
				if got := w.conditions("uid-1"); got != "PodResizeInProgress Error" || !w.events.has("Warning ResizeError") {
					t.Errorf("edge case 26: conditions %q, events %v", got, w.events.list())
				}
				use(999)
				w.to(apps("2 1000"))
				if got := w.changes(); !strings.Contains(got, "a shares 2048 memory 1000") || w.conditions("uid-1") != "" {
					t.Errorf("edge case 26, later: %q, conditions %q", got, w.conditions("uid-1"))
				}
			})
		})
	}
}

// 21.2: what a container gets is stored before it is created; a record that is missing
// is zero, unless the runtime reports what is wanted.
func TestActuatedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, false)
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Err: errors.New("no")}})
		w.to(apps("1 1000"))
		if got := w.a.Actuated("uid-1")["a"].MemoryLimit; got != 1000 || !strings.Contains(string(w.store["uid-1"]), `"memoryLimit":1000`) {
			t.Errorf("21.2: %d, %s", got, w.store["uid-1"])
		}
	})
	for _, row := range []struct{ record, want string }{
		{`{"allocated":{"containers":{"a":{"requests":{"cpu":"1","memory":"10"},"limits":{"cpu":"1","memory":"1000"}}}}}`, ""},
		{
			`{"allocated":{"containers":{"a":{"requests":{"cpu":"1","memory":"10"},"limits":{"cpu":"1","memory":"1000"}}}},"actuated":{"a":{}}}`,
			"sandbox shares 1024 memory 1000; a shares 2 memory 1000; a shares 1024 memory 1000",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newResizeWorld(t, false)
			w.to(apps("1 1000"))
			w.changes()
			w.store["uid-1"] = []byte(row.record)
			w.reload()
			w.to(apps("1 1000"))
			if got := w.changes(); got != row.want {
				t.Errorf("21.2: %q, want %q", got, row.want)
			}
		})
	}
}

// 21.3: sidecars and running init containers are resized, ephemeral containers never.
func TestResizeWho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, false)
		with := func(cpu string) *v1.Pod {
			p := apps("1 1000")
			side, run := sidecar("s"), container("i")
			needing(&side, cpu, "1000")
			needing(&run, cpu, "1000")
			p.Spec.InitContainers = []v1.Container{side, run}
			e := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "example.com/e:1"}}
			e.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{e}
			return p
		}
		w.to(with("1"))
		w.wantState(with("1"), "s:running i:running a:none")
		w.changes()
		w.to(with("1500m"))
		if got, want := w.changes(), "sandbox shares 3072 memory 2000; s shares 1536 memory 1000; i shares 1536 memory 1000"; got != want {
			t.Errorf("21.3: %q, want %q", got, want)
		}
	})
}

// 21.5: a container whose policy says so is restarted once, and the pod's own limits
// follow.
func TestResizeRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, true)
		of := func(memory string) *v1.Pod {
			p := apps("1 "+memory, "1 1000")
			p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
			return p
		}
		w.to(of("1000"))
		w.changes()
		w.to(of("2000"))
		if got, want := w.changes(), "sandbox shares 2048 memory 3000; set pod memory 3000"; got != want {
			t.Errorf("21.5: %q, want %q", got, want)
		}
		if got := w.calls(fake.StopContainer); !slices.Equal(got, []string{"StopContainer a"}) {
			t.Errorf("21.5: %v", got)
		}
		if record := w.read(of("2000")).Container("a"); record.RestartCount != 1 || record.Resources.MemoryLimit != 2000 {
			t.Errorf("21.5: %+v", record)
		}
		if got := w.conditions("uid-1"); got != "" {
			t.Errorf("21.9: conditions %q", got)
		}
	})
}

// 21.10: pod-level resources change with the containers that have no limits of their
// own.
func TestResizePodLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, true)
		of := func(cpu, memory string) *v1.Pod {
			return newPod(func(p *v1.Pod) {
				p.Spec.Resources = &v1.ResourceRequirements{
					Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")},
					Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)},
				}
				p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
			})
		}
		w.to(of("2", "1000"))
		if got, want := w.changes(), "create pod shares 1024 quota 200000 memory 1000"; got != want {
			t.Errorf("21.10: %q, want %q", got, want)
		}
		w.to(of("3", "5000"))
		want := "sandbox shares 1024 memory 5000; set pod memory 5000; app shares 1024 memory 5000; set pod quota 300000; app shares 1024 memory 5000"
		if got := w.changes(); got != want || w.conditions("uid-1") != "" {
			t.Errorf("21.10: %q\nwant %q, conditions %q", got, want, w.conditions("uid-1"))
		}
	})
}

// 21.1, 21.4: while a resize is refused everything goes on with what was allocated;
// status edge case 29: the second refusal keeps the time and moves the generation.
func TestResizeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, false)
		w.to(apps("1 1000"))
		w.changes()
		refuse := func(generation int64, cpu string) v1.PodCondition {
			p := apps(cpu + " 1000")
			p.Generation = generation
			allocated, changed, err := w.a.Allocate(p)
			if err != nil || !changed || allocated.Spec.Containers[0].Resources.Requests.Cpu().String() != "1" {
				t.Errorf("21.1: %+v, changed %v, %v", allocated.Spec.Containers[0].Resources, changed, err)
			}
			w.sync(allocated)
			return w.a.Conditions(p.UID)[0]
		}
		first := refuse(2, "50")
		pass(5 * second)
		again := refuse(3, "60")
		if first.Reason != v1.PodReasonInfeasible || again.Reason != first.Reason || !again.LastTransitionTime.Equal(&first.LastTransitionTime) {
			t.Errorf("edge case 29: %+v, then %+v", first, again)
		}
		if first.ObservedGeneration != 2 || again.ObservedGeneration != 3 || !again.LastProbeTime.After(first.LastProbeTime.Time) {
			t.Errorf("edge case 29: %+v, then %+v", first, again)
		}
		w.to(apps("1 1000")) // taken back
		if got := w.conditions("uid-1"); got != "" {
			t.Errorf("status.md 5.6: reverted, and yet %q", got)
		}
		if got := w.changes(); got != "" {
			t.Errorf("21.4: %q", got)
		}
	})
}

// status.md 5.6: a refusal goes with its request, also if an earlier agent made it, and it is about the newest generation
// that asks for the same.
func TestRefusalFollowsTheSpec(t *testing.T) {
	for _, cpu := range []string{"50", "3"} { // of 4, of which another pod has 2
		t.Run(cpu, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newResizeWorld(t, false)
				other := apps("2 1000")
				other.UID = "uid-2"
				for _, p := range []*v1.Pod{other, apps("1 1000")} {
					if _, _, err := w.a.Allocate(p); err != nil {
						t.Fatal(err)
					}
				}
				ask := func(cpu string, generation int64) (about int64) {
					p := apps(cpu + " 1000")
					p.Generation = generation
					w.a.Granted(p) // as admission does
					if _, _, err := w.a.Allocate(p); err != nil {
						t.Fatal(err)
					}
					for _, c := range w.a.Conditions(p.UID) {
						about = c.ObservedGeneration
					}
					return about
				}
				for generation := range int64(3) {
					if got := ask(cpu, generation); got != generation {
						t.Errorf("generation %d: refused for %d", generation, got)
					}
				}
				w.reload()
				ask("1", 4)
				if got := w.conditions("uid-1"); got != "" {
					t.Errorf("taken back, and yet %q", got)
				}
				w.reload()
				if got := w.conditions("uid-1"); got != "" {
					t.Errorf("the next agent has %q", got)
				}
			})
		})
	}
}

// 21.4: deferred resizes are due after 30 s, then every 3 min.
func TestResizeRetryTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, false)
		now := func() int { return int(ptr.To(w.a.NextRetry().Sub(clockNow())).Seconds()) }
		other := apps("3 1000")
		other.UID = "uid-2"
		var err error
		w.a, err = pods.NewAllocations(pods.AllocationOptions{
			Store: w.store, Allocatable: func() v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")} },
			Active: func() []*v1.Pod { return []*v1.Pod{other, apps("2 1000")} },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*v1.Pod{other, apps("1 1000"), apps("2 1000")} {
			if _, _, err := w.a.Allocate(p); err != nil {
				t.Fatal(err)
			}
		}
		if got := now(); got != 30 || w.conditions("uid-1") != "PodResizePending Deferred" {
			t.Errorf("21.4: due in %d s, %s", got, w.conditions("uid-1"))
		}
		w.a.Retry(true)
		if got := now(); got != 180 {
			t.Errorf("21.4: due again in %d s", got)
		}
		other = apps("1 1000")
		other.UID = "uid-2"
		if _, _, err := w.a.Allocate(other); err != nil { // makes room
			t.Fatal(err)
		}
		w.a.Retry(false)
		if !w.a.NextRetry().IsZero() {
			t.Error("21.4: nothing waits, and yet something is due")
		}
	})
}

// TestResizeBindsToTheCPUsGranted: a container that was created before it was given CPUs of its own loses its quota
// only together with the others' CPUs (26.1, 13).
func TestResizeBindsToTheCPUsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, false)
		w.to(apps("2 1000"))
		w.opts.Grants = &warehouse{grants: map[string]pods.Grant{"a": {CPUs: "2-3", MemoryNodes: "1", ExclusiveCPUs: true}}}
		w.restart()
		w.reload()
		w.to(apps("2 2000"))
		s, err := w.fake.ContainerStatus(t.Context(), w.read(apps("2 2000")).Container("a").ID.ID, false)
		if err != nil {
			t.Fatal(err)
		}
		if r := s.GetStatus().GetResources().GetLinux(); r.GetCpusetCpus() != "2-3" || r.GetCpusetMems() != "1" || r.GetCpuQuota() != -1 {
			t.Errorf("resources %v", r)
		}
	})
}

// 26.1, 13: a resize of its memory leaves a container with CPUs of its own without a CPU quota, also after a restart
// of the engine; while what it was granted is not known, the resize waits.
func TestResizeLeavesExclusiveCPUsWithoutQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, false)
		stock := &warehouse{grants: map[string]pods.Grant{"a": {CPUs: "2-3", ExclusiveCPUs: true}}}
		w.opts.Grants = stock
		w.restart()
		w.to(apps("2 1000"))
		quota := func() int64 {
			s, err := w.fake.ContainerStatus(t.Context(), w.read(apps("2 1000")).Container("a").ID.ID, false)
			if err != nil {
				t.Fatal(err)
			}
			return s.GetStatus().GetResources().GetLinux().GetCpuQuota()
		}
		w.reload()
		w.changes()
		stock.err = errors.New("the CPU manager restarts")
		if r := w.to(apps("2 2000")); r.Err == nil || !strings.Contains(w.conditions("uid-1"), v1.PodReasonError) {
			t.Errorf("26.1: %v, conditions %q", r.Err, w.conditions("uid-1"))
		}
		stock.err = nil
		w.to(apps("2 2000"))
		if got := w.changes(); !strings.Contains(got, "a shares 2048 memory 2000") || w.conditions("uid-1") != "" {
			t.Errorf("26.1: %q, conditions %q", got, w.conditions("uid-1"))
		}
		if q := quota(); q > 0 {
			t.Errorf("13: quota %d after a resize of the memory", q)
		}
	})
}

// 21.9: a resize is complete once every running container has what it was allocated, even while another container
// cannot start.
func TestResizeCompletesBesideAContainerThatCannotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, false)
		of := func(cpu string) *v1.Pod {
			p := apps(cpu + " 1000")
			c := container("z")
			c.ImagePullPolicy = v1.PullNever
			p.Spec.Containers = append(p.Spec.Containers, c)
			return p
		}
		w.to(of("1"))
		w.changes()
		w.to(of("2"))
		for range 3 {
			w.to(of("2"))
		}
		if got := w.changes(); strings.Count(got, "a shares 2048 memory 1000") != 1 {
			t.Errorf("21.5: %q", got)
		}
		if got := w.conditions("uid-1"); got != "" || !w.events.has("Normal ResizeCompleted") {
			t.Errorf("21.9: conditions %q, events %v", got, w.events.list())
		}
	})
}

// 3.10, 21.8: the runtime is told the pod's resources without its overhead, at a resize as at the creation, and if the
// pod's cgroup could not be set.
func TestResizeTellsTheOverheadApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newResizeWorld(t, true)
		of := func(need string) *v1.Pod {
			p := apps(need)
			p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("100")}
			return p
		}
		w.to(of("1 1000"))
		created := w.fake.Calls(fake.Match{Method: fake.RunPodSandbox})[0].Request.(*runtimeapi.RunPodSandboxRequest).GetConfig().GetLinux()
		w.changes()
		w.to(of("2 2000"))
		if got := w.changes(); !strings.HasPrefix(got, "sandbox shares 2048 memory 2000; set pod memory 2100;") {
			t.Errorf("21.8: %q", got)
		}
		told := w.fake.Calls(fake.Match{Method: fake.UpdatePodSandboxResources})[0].Request.(*runtimeapi.UpdatePodSandboxResourcesRequest)
		if got, want := told.GetOverhead(), created.GetOverhead(); got.GetCpuShares() != want.GetCpuShares() || got.GetCpuQuota() != want.GetCpuQuota() ||
			got.GetMemoryLimitInBytes() != want.GetMemoryLimitInBytes() {
			t.Errorf("21.8: overhead %v, at the creation %v", got, want)
		}
		w.fail = "set pod"
		w.to(of("2 3000"))
		if got := w.changes(); !strings.HasPrefix(got, "sandbox shares 2048 memory 3000; sandbox shares 2048 memory 2000") {
			t.Errorf("21.8: %q, want the new values, then the old ones", got)
		}
	})
}
