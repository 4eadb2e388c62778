package enginetest_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
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
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

var (
	leakSchedules = flag.Int("leak.schedules", 200, "random schedules of TestLeakHunt")
	leakSeed      = flag.Uint64("leak.seed", 0, "where TestLeakHunt begins; 0: anywhere")
)

// TestLeakHunt: HI2, HI5, HI6, HI12, ID1: pods come, go, come back under the same UID and crash,
// sandboxes are removed by hand, the runtime and the agent end and start again, and 5 % of all
// calls go wrong. After each such period the runtime and the disk hold exactly what is desired.
// make leak-hunt runs 100,000 schedules.
func TestLeakHunt(t *testing.T) {
	t.Parallel()
	leakHunt(t, false)
}

// TestLeakHuntOfShapes is TestLeakHunt with jobs, which run at most once in each life (HI8), with init containers,
// sidecars and several containers, and with lists that leave objects out for a while (R7).
func TestLeakHuntOfShapes(t *testing.T) {
	t.Parallel()
	leakHunt(t, true)
}

func leakHunt(t *testing.T, shapes bool) {
	seed := *leakSeed
	if seed == 0 {
		seed = rand.Uint64() % 1_000_000
	}
	count := *leakSchedules
	if raceDetector {
		count /= 3
	}
	t.Logf("seed %d: repeat with -leak.seed", seed)
	const batch = 20 // schedules on one runtime
	for done := 0; done < count && !t.Failed(); done += batch {
		synctest.Test(t, func(t *testing.T) { newHunt(t, seed+uint64(done), shapes).run(min(batch, count-done)) })
	}
}

// hunt is one runtime and the agents that live on it, one after the other.
type hunt struct {
	*rig
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	rt   *fake.Runtime
	log  []string
	// desired are the pods that are wanted now; generation makes new UIDs.
	desired    map[string]*v1.Pod
	generation int
	// shapes: pods differ, and lists have gaps.
	shapes bool
	// lives counts the lives of each pod.
	lives map[types.UID]int
	// born is when the agent began.
	born time.Time
}

func newHunt(t *testing.T, seed uint64, shapes bool) *hunt {
	h := &hunt{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), desired: map[string]*v1.Pod{}, shapes: shapes, lives: map[types.UID]int{}}
	h.rt = fake.New(fake.Options{MaxCalls: 100, Script: func(l fake.Launch) (s fake.Script) {
		if l.Container == "init" || l.Container == "job" {
			s.Exit = &fake.Exit{After: 700 * time.Millisecond}
		}
		return s
	}})
	h.agent(t.TempDir())
	return h
}

// pod returns a new pod, of a random shape if they differ.
func (h *hunt) pod(name string) *v1.Pod {
	h.generation++
	p := newPod(name)
	if h.shapes {
		switch h.rng.IntN(3) {
		case 0:
			p = newPod(name, "job")
			p.Spec.RestartPolicy = v1.RestartPolicyNever
		case 1:
			p = newPod(name, "main", "other")
			p.Spec.InitContainers = []v1.Container{
				{Name: "init", Image: "app:1"}, {Name: "sidecar", Image: "app:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)},
			}
		}
	}
	p.UID = types.UID(fmt.Sprintf("uid-%s-%d", name, h.generation))
	return p
}

func isJob(p *v1.Pod) bool { return p.Spec.RestartPolicy == v1.RestartPolicyNever }

func (h *hunt) agent(root string) {
	h.rig = newRig(h.t, h.rt, root, func(c *podwright.Config) {
		quick := pods.BackOffPolicy{Initial: time.Second, Max: 4 * time.Second}
		c.Pods.CrashLoopBackOff, c.Pods.ImageBackOff = quick, quick
	}).start()
	h.born = time.Now()
	h.deliver()
}

func (h *hunt) say(format string, args ...any) { h.log = append(h.log, fmt.Sprintf(format, args...)) }

func (h *hunt) deliver() {
	list := make([]*v1.Pod, 0, len(h.desired))
	for _, name := range []string{"a", "b", "c"} {
		if p := h.desired[name]; p != nil {
			list = append(list, p.DeepCopy())
		}
	}
	h.set(list...)
}

func (h *hunt) run(schedules int) {
	for i := range schedules {
		h.log = h.log[:0]
		calm := h.faults()
		for range 3 + h.rng.IntN(6) {
			h.step()
			<-time.After(time.Duration(h.rng.IntN(3000)) * time.Millisecond)
		}
		calm()
		h.rt.SetDown(false)
		if !h.converges() {
			h.t.Fatalf("seed %d, schedule %d: %v\n%s\n%v", h.seed, i, h.check(), strings.Join(h.log, "\n"), h.engine.Healthy())
		}
		if err := h.rt.Doubled(); err != nil {
			h.t.Fatalf("seed %d, schedule %d: %v\n%s", h.seed, i, err, strings.Join(h.log, "\n"))
		}
	}
}

// faults makes 5 % of the calls fail (with or without having been done) or complete late.
func (h *hunt) faults() (calm func()) {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(h.rng.Uint64(), 2))
	share := func(permille int) func(fake.Call) bool {
		return func(c fake.Call) bool {
			mu.Lock()
			defer mu.Unlock()
			return c.Method != fake.GetContainerEvents && rng.IntN(1000) < permille
		}
	}
	return h.rt.Inject(
		fake.Fault{Match: fake.Match{Func: share(20)}, Effect: fake.Effect{Err: runtime.ErrUnavailable}},
		fake.Fault{Match: fake.Match{Func: share(20)}, Effect: fake.Effect{Err: runtime.ErrUnavailable, Done: true}},
		fake.Fault{Match: fake.Match{Func: share(10)}, Effect: fake.Effect{Delay: 700 * time.Millisecond}},
	)
}

// step does one random thing.
func (h *hunt) step() {
	name := []string{"a", "b", "c"}[h.rng.IntN(3)]
	p := h.desired[name]
	switch kind := h.rng.IntN(12); {
	case kind < 3 && p == nil:
		p = h.pod(name)
		h.desired[name] = p
		h.lives[p.UID]++
		h.say("create %s", p.UID)
		h.deliver()
	case kind < 5 && p != nil:
		h.say("delete %s", p.UID)
		delete(h.desired, name)
		h.deliver()
		if h.rng.IntN(2) == 0 { // and back under the same UID
			<-time.After(time.Duration(h.rng.IntN(2000)) * time.Millisecond)
			h.say("bring back %s", p.UID)
			h.desired[name] = p
			h.lives[p.UID]++
			h.deliver()
		}
	case kind < 7 && p != nil:
		h.say("crash %s: %v", p.UID, h.rt.Exit(p.UID, "main", fake.Exit{Code: 3}))
	case kind == 7:
		h.say("the agent ends and starts again")
		h.stop()
		<-time.After(time.Duration(h.rng.IntN(2000)) * time.Millisecond)
		h.agent(h.root)
	case kind == 8:
		h.say("the runtime is down")
		h.rt.SetDown(true)
		<-time.After(time.Duration(h.rng.IntN(4000)) * time.Millisecond)
		h.rt.SetDown(false)
	case kind == 9:
		h.say("all containers die")
		h.rt.Reboot()
	case kind == 11 && h.shapes:
		<-time.After(time.Until(h.born.Add(10 * time.Second))) // what an agent sees first it has to believe
		h.say("lists have gaps")
		mend := h.rt.Inject(fake.Fault{Match: fake.Match{Func: func(c fake.Call) bool {
			return c.Method == fake.ListPodSandbox || c.Method == fake.ListContainers
		}}, Effect: fake.Effect{Keep: h.gaps()}})
		<-time.After(time.Duration(h.rng.IntN(6000)) * time.Millisecond)
		mend()
	case kind == 10:
		list, err := h.rt.ListPodSandbox(h.t.Context(), nil)
		if err == nil && len(list) > 0 {
			id := list[h.rng.IntN(len(list))].Id
			h.say("remove sandbox %s by hand: %v", id, h.rt.RemovePodSandbox(h.t.Context(), id))
		}
	}
}

// gaps leaves objects out of lists, none of them so often in a row that the engine has to believe it (R7).
func (h *hunt) gaps() (keep func(id string) bool) {
	rng, inRow := rand.New(rand.NewPCG(h.rng.Uint64(), 3)), map[string]int{}
	var mu sync.Mutex
	return func(id string) bool {
		mu.Lock()
		defer mu.Unlock()
		if inRow[id]++; inRow[id] > 2 || rng.IntN(2) == 0 {
			inRow[id] = 0
		}
		return inRow[id] == 0
	}
}

// converges waits until the runtime and the disk hold what is desired.
func (h *hunt) converges() bool {
	for range 600 {
		synctest.Wait()
		if h.check() == nil {
			return true
		}
		<-time.After(time.Second)
	}
	return false
}

// check returns what is missing or left over in the runtime and on the disk.
func (h *hunt) check() error {
	wanted, jobs := map[string]bool{}, map[string]bool{}
	for _, p := range h.desired {
		wanted[string(p.UID)], jobs[string(p.UID)] = true, isJob(p)
	}
	sandboxes, err := h.rt.ListPodSandbox(h.t.Context(), nil)
	if err != nil {
		return err
	}
	containers, err := h.rt.ListContainers(h.t.Context(), nil)
	if err != nil {
		return err
	}
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	ready, running, dead, used := map[string]int{}, map[string]int{}, map[string]int{}, map[string]bool{}
	for _, c := range containers {
		uid := c.Labels[runtime.LabelPodUID]
		used[c.PodSandboxId] = true
		switch {
		case !wanted[uid]:
			problem("container %s of %s", c.Id, uid)
		case c.State == runtimeapi.ContainerState_CONTAINER_RUNNING:
			running[uid]++
		default:
			dead[uid]++
		}
	}
	for _, s := range sandboxes {
		uid := s.Metadata.GetUid()
		switch {
		case !wanted[uid]:
			problem("sandbox %s of %s", s.Id, uid)
		case s.State == runtimeapi.PodSandboxState_SANDBOX_READY:
			ready[uid]++
		case !used[s.Id] && !jobs[uid]: // the newest sandbox of a pod stays (SB3)
			problem("dead sandbox %s of %s", s.Id, uid)
		}
	}
	for _, p := range h.desired {
		uid := string(p.UID)
		sandboxes, containers, left := 1, len(p.Spec.Containers), 1
		switch {
		case isJob(p):
			sandboxes, containers = 0, 0
		case len(p.Spec.InitContainers) > 0:
			containers, left = 3, 4
		}
		if ready[uid] != sandboxes || running[uid] != containers || dead[uid] > left {
			problem("%s: %d sandboxes, %d running and %d dead containers", uid, ready[uid], running[uid], dead[uid])
		}
		if n := h.rt.Facts(p.UID, "job").Started; isJob(p) && n > h.lives[p.UID] {
			problem("%s: the job was started %d times in %d lives", uid, n, h.lives[p.UID])
		}
	}
	for _, dir := range []string{"pods", "logs"} {
		entries, err := os.ReadDir(filepath.Join(h.root, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			problem("%v", err)
		}
		for _, e := range entries {
			if uid := e.Name()[strings.LastIndexByte(e.Name(), '_')+1:]; !wanted[uid] {
				problem("%s/%s", dir, e.Name())
			}
		}
	}
	return errors.Join(problems...)
}
