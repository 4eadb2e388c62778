package enginetest_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status/checkpoint"
)

// firstListWorld is a runtime with pods that an agent has started and left: services, jobs that still run, and jobs that
// ended while no agent ran.
type firstListWorld struct {
	*rig
	t    *testing.T
	rt   *fake.Runtime
	pods []*v1.Pod
	// sandboxes are the IDs of the pods' sandboxes.
	sandboxes map[types.UID]string
}

// endedJob is the exit code of the jobs that end while no agent runs.
const endedJob = 7

func newFirstListWorld(t *testing.T, pods int, configure ...func(*podwright.Config)) *firstListWorld {
	w := &firstListWorld{t: t, rt: fake.New(fake.Options{MaxCalls: 100_000})}
	for i := range pods {
		name := fmt.Sprintf("%s-%d", []string{"web", "job", "ended"}[i%3], i)
		p := newPod(name, "main", "other")
		if i%3 > 0 {
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			if i%2 == 0 {
				p.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			}
		}
		w.pods = append(w.pods, p)
	}
	w.rig = newRig(t, w.rt, t.TempDir(), configure...).start()
	w.set(w.pods...)
	for _, p := range w.pods {
		w.phase(p.UID, v1.PodRunning, 3*time.Minute)
	}
	w.sandboxes = w.listed()
	<-time.After(3 * time.Second) // the records are on the disk
	w.stop()
	for _, p := range w.pods {
		if strings.HasPrefix(p.Name, "ended") {
			code := int32(0)
			if p.Spec.RestartPolicy == v1.RestartPolicyNever {
				code = endedJob
			}
			if err := w.rt.Exit(p.UID, "main", fake.Exit{Code: code}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// listed returns the pods' sandboxes.
func (w *firstListWorld) listed() map[types.UID]string {
	list, err := w.rt.ListPodSandbox(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	sandboxes := map[types.UID]string{}
	for _, s := range list {
		sandboxes[types.UID(s.Metadata.Uid)] += s.Id
	}
	return sandboxes
}

// hide makes lists lack objects until a moment.
func (w *firstListWorld) hide(until time.Time, keep func(id string) bool) {
	w.rt.Inject(fake.Fault{Match: fake.Match{Func: func(c fake.Call) bool {
		return (c.Method == fake.ListContainers || c.Method == fake.ListPodSandbox) && time.Now().Before(until)
	}}, Effect: fake.Effect{Keep: keep}})
}

// breakStatus makes status calls go wrong until a moment.
func (w *firstListWorld) breakStatus(until time.Time, effect fake.Effect) {
	w.rt.Inject(fake.Fault{Match: fake.Match{Func: func(c fake.Call) bool {
		return (c.Method == fake.ContainerStatus || c.Method == fake.PodSandboxStatus) && time.Now().Before(until)
	}}, Effect: effect})
}

// next starts another agent, which is handed the same pods.
func (w *firstListWorld) next(configure ...func(*podwright.Config)) {
	w.rig = newRig(w.t, w.rt, w.root, configure...).start()
	w.set(w.pods...)
}

// unharmed reports the first pod whose containers did not go on as if nothing had happened.
func (w *firstListWorld) unharmed() error {
	if err := w.rt.Doubled(); err != nil {
		return err
	}
	if now := w.listed(); !maps.Equal(now, w.sandboxes) {
		return fmt.Errorf("sandboxes %v, want %v", now, w.sandboxes)
	}
	for _, p := range w.pods {
		ended := strings.HasPrefix(p.Name, "ended")
		for _, c := range []string{"main", "other"} {
			running := 1
			if ended && c == "main" {
				running = 0
			}
			if f := w.rt.Facts(p.UID, c); f.Started != 1 || f.Running != running {
				return fmt.Errorf("%s/%s: %+v", p.Name, c, f)
			}
		}
		seen := w.pod(p.UID)
		if seen == nil || seen.Status.Phase != v1.PodRunning {
			return fmt.Errorf("%s: %+v", p.Name, seen)
		}
		for _, cs := range seen.Status.ContainerStatuses {
			if end := cs.State.Terminated; ended && cs.Name == "main" && (end == nil || end.ExitCode != 0 && end.ExitCode != endedJob) {
				return fmt.Errorf("%s: %+v", p.Name, cs)
			}
		}
	}
	return nil
}

// firstListGaps are what the lists of an agent lack.
func firstListGaps(w *firstListWorld) map[string]func(id string) bool {
	mains, containers := map[string]bool{}, map[string]bool{}
	list, err := w.rt.ListContainers(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range list {
		containers[c.Id] = true
		mains[c.Id] = c.Metadata.Name == "main"
	}
	return map[string]func(id string) bool{
		"one container":  func(id string) bool { return !mains[id] },
		"all containers": func(id string) bool { return !containers[id] },
		"the sandbox":    func(id string) bool { return containers[id] },
		"the whole pod":  func(string) bool { return false },
	}
}

// TestFirstListWithGaps: spec/pleg.md R15. What the first list of an agent lacks goes on all the same: nothing runs a second
// time, and the exit code of a job is not lost, also while the runtime does not describe what it has.
func TestFirstListWithGaps(t *testing.T) {
	t.Parallel()
	crowd := 100
	if raceDetector {
		crowd = 30
	}
	for _, gap := range []string{"one container", "all containers", "the sandbox", "the whole pod"} {
		for name, effect := range map[string]*fake.Effect{
			"": nil, ", status fails": {Err: runtime.ErrUnavailable}, ", status hangs": {Hang: true},
		} {
			for _, pods := range []int{3, crowd} {
				t.Run(fmt.Sprintf("%s%s, %d pods", gap, name, pods), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newFirstListWorld(t, pods)
						w.hide(time.Now().Add(500*time.Millisecond), firstListGaps(w)[gap])
						if effect != nil {
							w.breakStatus(time.Now().Add(1500*time.Millisecond), *effect)
						}
						w.next()
						<-time.After(30 * time.Second)
						synctest.Wait()
						if err := w.unharmed(); err != nil {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

// TestListsWithGapsAfterAStart: R15, R7. The lists of a runtime that is slow after its own start may lack things for longer.
// What the runtime has nevertheless goes on, however many lists lack it.
func TestListsWithGapsAfterAStart(t *testing.T) {
	t.Parallel()
	for _, gap := range []string{"one container", "all containers", "the sandbox", "the whole pod"} {
		for _, lasts := range []time.Duration{3500 * time.Millisecond, time.Minute, 10 * time.Minute} {
			t.Run(fmt.Sprintf("%s for %v", gap, lasts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newFirstListWorld(t, 6)
					w.hide(time.Now().Add(lasts), firstListGaps(w)[gap])
					w.next()
					<-time.After(lasts + 3*time.Minute)
					synctest.Wait()
					if err := w.unharmed(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestListsThatBeginToHaveGaps: R7. The same for an agent that has seen its pods before.
func TestListsThatBeginToHaveGaps(t *testing.T) {
	t.Parallel()
	for _, gap := range []string{"one container", "all containers", "the sandbox", "the whole pod"} {
		t.Run(gap, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFirstListWorld(t, 30)
				w.next()
				<-time.After(10 * time.Second)
				w.hide(time.Now().Add(10*time.Minute), firstListGaps(w)[gap])
				<-time.After(20 * time.Minute)
				synctest.Wait()
				if err := w.unharmed(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestFirstListBeforeTheRecords: R15. Records that are read only after the first list still say what that list lacks.
func TestFirstListBeforeTheRecords(t *testing.T) {
	t.Parallel()
	for _, gap := range []string{"one container", "all containers", "the sandbox", "the whole pod"} {
		t.Run(gap, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, open, slow := &checkpointtest.Disk{}, make(chan struct{}), make(chan struct{})
				close(open)
				records := func(answers <-chan struct{}) func(*podwright.Config) {
					return func(c *podwright.Config) { c.Checkpoints.Store = slowRecords{checkpoint.NewFiles(disk), answers} }
				}
				w := newFirstListWorld(t, 30, records(open))
				w.hide(time.Now().Add(18*time.Second), firstListGaps(w)[gap])
				time.AfterFunc(15*time.Second+500*time.Millisecond, func() { close(slow) }) // longer than the start waits
				w.next(records(slow))
				<-time.After(time.Minute)
				synctest.Wait()
				if err := w.unharmed(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRecordsOfALostRuntime: R15, CK5. The containers that records name are gone, with all else that the runtime had. That
// costs a call for each of them and no time; a runtime that has no proper answer for them costs some lists.
func TestRecordsOfALostRuntime(t *testing.T) {
	t.Parallel()
	pods := 99
	if raceDetector {
		pods = 30
	}
	for name, c := range map[string]struct {
		effect *fake.Effect
		within time.Duration
		calls  int
	}{
		"not found": {nil, 2 * time.Second, 2 * pods},
		"error":     {&fake.Effect{Err: runtime.ErrFailedPrecondition}, 6 * time.Second, 4 * 2 * pods},
		"hangs":     {&fake.Effect{Hang: true}, 6 * time.Second, 4 * 2 * pods},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFirstListWorld(t, pods)
				old := map[string]bool{}
				list, err := w.rt.ListContainers(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range list {
					old[c.Id] = true
				}
				w.rt.LoseRecords()
				lost := fake.Match{Method: fake.ContainerStatus, Func: func(c fake.Call) bool { return old[c.ContainerID] }}
				if c.effect != nil {
					w.rt.Inject(fake.Fault{Match: lost, Effect: *c.effect})
				}
				began, before := time.Now(), len(w.rt.Calls(lost))
				w.next()
				w.within(c.within, "all services to run again", func() error {
					for _, p := range w.pods {
						if strings.HasPrefix(p.Name, "web") && w.rt.Running(p.UID, "main")+w.rt.Running(p.UID, "other") != 2 {
							return fmt.Errorf("%s does not run: %s", p.Name, w.explain(p.UID))
						}
					}
					return nil
				})
				t.Logf("%d pods ran again after %v", pods/3, time.Since(began))
				<-time.After(time.Minute)
				synctest.Wait()
				calls := len(w.rt.Calls(lost)) - before
				t.Logf("%d calls for containers that are gone", calls)
				if calls > c.calls {
					t.Errorf("%d calls for containers that are gone, want at most %d", calls, c.calls)
				}
				for _, p := range w.pods {
					if never := p.Spec.RestartPolicy == v1.RestartPolicyNever; never != (w.rt.Facts(p.UID, "main").Started == 1) {
						t.Errorf("%s: %+v", p.Name, w.rt.Facts(p.UID, "main"))
					}
				}
			})
		})
	}
}

// TestFirstListsOfRandomLives: R15, HI8. The pods of TestLeakHuntOfShapes, whose agents end when their records are written.
// The first list of the next agent lacks half of everything.
func TestFirstListsOfRandomLives(t *testing.T) {
	t.Parallel()
	seed, count := *leakSeed, 5
	if seed == 0 {
		seed = rand.Uint64() % 1_000_000
	}
	if raceDetector {
		count = 2
	}
	t.Logf("seed %d: repeat with -leak.seed", seed)
	for i := 0; i < count && !t.Failed(); i++ {
		synctest.Test(t, func(t *testing.T) { randomFirstLists(t, newHunt(t, seed+uint64(i), true)) })
	}
}

func randomFirstLists(t *testing.T, h *hunt) {
	var mu sync.Mutex
	var until time.Time
	hidden, rng := map[string]bool{}, rand.New(rand.NewPCG(h.seed, 4))
	h.rt.Inject(fake.Fault{Match: fake.Match{Func: func(c fake.Call) bool {
		mu.Lock()
		defer mu.Unlock()
		return (c.Method == fake.ListContainers || c.Method == fake.ListPodSandbox) && time.Now().Before(until)
	}}, Effect: fake.Effect{Keep: func(id string) bool {
		mu.Lock()
		defer mu.Unlock()
		if _, decided := hidden[id]; !decided {
			hidden[id] = rng.IntN(2) == 0
		}
		return !hidden[id]
	}}})
	for i := range 20 {
		h.log = h.log[:0]
		for range 3 + h.rng.IntN(6) {
			h.step()
			<-time.After(time.Duration(h.rng.IntN(3000)) * time.Millisecond)
		}
		<-time.After(3 * time.Second)
		h.stop()
		mu.Lock()
		until = time.Now().Add(500 * time.Millisecond)
		clear(hidden)
		mu.Unlock()
		h.agent(h.root)
		if !h.converges() {
			t.Fatalf("seed %d, schedule %d: %v\n%s\n%v", h.seed, i, h.check(), strings.Join(h.log, "\n"), h.engine.Healthy())
		}
		if err := h.rt.Doubled(); err != nil {
			t.Fatalf("seed %d, schedule %d: %v\n%s", h.seed, i, err, strings.Join(h.log, "\n"))
		}
	}
}
