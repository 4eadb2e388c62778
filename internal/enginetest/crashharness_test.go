package enginetest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/internal/tale"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
)

// world is the machine on which one life takes place: the part that outlives its agents.
type world struct {
	t    *testing.T
	life life
	rt   *fake.Runtime
	disk *checkpointtest.Disk
	root string
	tale *tale.Tale

	death death

	began  time.Time
	agent  *rig
	fate   *fate
	fates  []*fate
	wanted []*v1.Pod

	// asked: the operator requested a restart.
	asked    bool
	operator sync.WaitGroup
}

// live runs a life to its end.
func (l life) live(t *testing.T, d death) *world {
	rt := fake.New(fake.Options{
		Script: func(launch fake.Launch) fake.Script { return l.scripts[launch.Container](launch) },
		Registry: func(string, *runtimeapi.AuthConfig) fake.Pull {
			return fake.Pull{Took: 300 * time.Millisecond}
		},
	})
	// Each step takes its time, so that two lives pass through the same moments.
	for method, takes := range map[fake.Method]time.Duration{
		fake.RunPodSandbox: 400 * time.Millisecond, fake.CreateContainer: 200 * time.Millisecond, fake.StartContainer: 200 * time.Millisecond,
		fake.StopPodSandbox: 100 * time.Millisecond, fake.RemoveContainer: 100 * time.Millisecond, fake.RemovePodSandbox: 100 * time.Millisecond,
	} {
		rt.Inject(fake.Fault{Match: fake.Match{Method: method}, Effect: fake.Effect{Delay: takes}})
	}
	w := &world{t: t, life: l, rt: rt, disk: &checkpointtest.Disk{}, root: t.TempDir(), tale: tale.New(), death: d, began: time.Now()}
	w.wanted = l.pods()
	w.start()
	var uids []types.UID
	for _, p := range w.wanted {
		uids = append(uids, p.UID)
	}
	removed := false
	for _, at := range append(l.looks, l.end) {
		if !removed && at >= l.removed {
			w.until(l.removed)
			removed, w.wanted = true, nil
			w.tell()
		}
		w.until(at)
		synctest.Wait()
		if at == l.end {
			break
		}
		w.look(uids)
	}
	for _, p := range l.pods() {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			w.tale.Started(string(p.UID)+"/"+c.Name, rt.Facts(p.UID, c.Name).Started)
		}
	}
	w.check()
	w.agent.stop()
	w.operator.Wait()
	return w
}

// told is the sink of every agent in a life.
func (w *world) told(_ context.Context, u status.Update) (status.StoreResult, error) {
	if !u.Forgotten { // if an agent dies at this moment, the next one sends all of it again (FG1)
		w.tale.Tell(string(u.UID), u.Status, u.Finished)
	}
	return status.Stored, nil
}

// look records what the runtime has of the pods.
func (w *world) look(uids []types.UID) {
	view := cri.NewView(w.rt, cri.ViewOptions{})
	var lines []string
	for _, uid := range uids {
		pod, err := view.Read(w.t.Context(), uid)
		if err != nil {
			w.t.Fatal(err)
		}
		lines = append(lines, tale.Objects(string(uid), pod)...)
	}
	w.tale.See(lines)
}

// start starts the next agent.
func (w *world) start() {
	at := 0
	if len(w.fates) < len(w.death.at) {
		at = w.death.at[len(w.fates)]
	}
	w.fate = newFate(w.t.Context(), at)
	w.fates = append(w.fates, w.fate)
	way := mortal{w.rt, w.fate}
	w.agent = newRig(w.t, w.rt, w.root, func(c *podwright.Config) {
		c.Runtime, c.Images = way, way
		c.Checkpoints.Store, c.Node.BootID = checkpoint.NewFiles(w.fate.disk(w.disk)), "boot-1"
		c.Observe.Sinks = []status.StatusSink{w.fate.sink(status.SinkFunc(w.told))}
		c.Observe.Events = silentIn{&events{}, w.fate}
		c.Workers.DrainTimeout = time.Millisecond // a killed agent finishes nothing
	}).start()
	w.tell()
}

// tell gives the agent the desired pods; an agent that dies meanwhile does not get them.
func (w *world) tell() {
	var pods []*v1.Pod
	for _, p := range w.wanted {
		pods = append(pods, p.DeepCopy())
	}
	if err := w.agent.source.Set(w.fate.end, pods); err != nil && !w.fate.isDead() {
		w.t.Fatal(err)
	}
}

// until continues the life until a given time, and starts another agent for each one that dies.
func (w *world) until(at time.Duration) {
	moment := time.After(at - time.Since(w.began))
	var ask <-chan time.Time
	if w.life.restarted > 0 && !w.asked {
		ask = time.After(w.life.restarted - time.Since(w.began))
	}
	for {
		select {
		case <-ask:
			w.asked = true
			w.ask()
		case <-w.fate.killed:
			w.fate.killed = nil
			w.bury()
			w.start()
			if w.asked && !w.remembered() {
				w.ask()
			}
		case <-moment:
			return
		}
	}
}

// ask requests a restart of every pod, until the agent accepts it or dies, or the pods are gone.
func (w *world) ask() {
	agent, fate := w.agent, w.fate
	for _, p := range w.life.pods() {
		w.operator.Go(func() {
			for !fate.isDead() && time.Since(w.began) < w.life.removed && agent.engine.RestartPod(fate.end, p.UID, podwright.RestartOptions{}) != nil {
				select {
				case <-time.After(100 * time.Millisecond):
				case <-fate.end.Done():
				}
			}
		})
	}
}

// remembered reports whether the restarts that a killed agent was asked for are on the disk.
func (w *world) remembered() bool {
	left, err := checkpoint.NewFiles(w.disk).Inspect(w.t.Context())
	return err == nil && len(left.Records) > 0 && !slices.ContainsFunc(left.Records, func(r *checkpoint.Record) bool { return r.Restarts == nil })
}

// bury clears away a killed agent. What it had not synced is lost or kept, as the death says.
func (w *world) bury() {
	w.disk = w.disk.LosePower(func(string) bool { return w.death.kept })
	w.agent.stop()
	w.operator.Wait()
}

// killedAt names the points in messages.
func (w *world) killedAt() string {
	var names []string
	for _, f := range w.fates[:len(w.fates)-1] {
		names = append(names, f.killedBy())
	}
	return strings.Join(names, " and ")
}

// check checks what must hold at the end of every life.
func (w *world) check() {
	if err := w.rt.Doubled(); err != nil {
		w.t.Error(err)
	}
	left, err := checkpoint.NewFiles(w.disk).Inspect(w.t.Context())
	if err != nil || len(left.Bad) > 0 {
		w.t.Errorf("CK2: %v, err %v", left.Bad, err)
	}
	for _, r := range left.Records {
		// An agent that never heard of a pod keeps the record of its end for a day (CK7).
		if !r.Finished || len(w.fates) == 1 {
			w.t.Errorf("HI10: the record of %s is left: %+v", r.UID, r)
		}
	}
	if err := w.agent.engine.Healthy(); err != nil {
		w.t.Errorf("health: %v", err)
	}
}

// crashVariable, set to "full", makes the test kill at every point: make crash.
const crashVariable = "PODWRIGHT_CRASH"

// crashSlice is the number of kills per life in a normal run, which always makes the same ones. A
// full run kills at every point, and draws other points at which the next agent dies too.
const crashSlice = 24

// TestCrash: CK11, HI7, HI8, HI9, status.md 9.1, 9.3. Every life first runs undisturbed, and then
// with the agent killed before or after each operation on the disk, runtime call and message to a
// sink, with and without the loss of what was not synced. An observer sees no difference.
func TestCrash(t *testing.T) {
	full := os.Getenv(crashVariable) == "full"
	seed := tale.Seed(t, full, time.Now())
	var sum struct{ points, lives, differences atomic.Int64 }
	t.Run("lives", func(t *testing.T) {
		for _, l := range lives() {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				calm, points := l.undisturbed(t)
				random := rand.New(rand.NewPCG(seed, 11))
				deaths := l.deaths(points, random)
				sum.points.Add(int64(points))
				if !full {
					random.Shuffle(len(deaths), func(i, j int) { deaths[i], deaths[j] = deaths[j], deaths[i] })
					deaths = deaths[:crashSlice]
				}
				for _, d := range deaths {
					t.Run(d.String(), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							w := l.live(t, d)
							found := w.tale.Differences(calm)
							for _, text := range found {
								t.Errorf("killed at %s: %s", w.killedAt(), text)
							}
							sum.lives.Add(1)
							sum.differences.Add(int64(len(found)))
						})
					})
				}
			})
		}
	})
	t.Logf("kill points: %d, lives compared: %d, differences: %d", sum.points.Load(), sum.lives.Load(), sum.differences.Load())
}

// undisturbed runs a life several times without killing an agent. It returns everything that these
// runs report, and the number of points that an agent passes.
func (l life) undisturbed(t *testing.T) (calm *tale.Tale, points int) {
	for range 6 {
		synctest.Test(t, func(t *testing.T) {
			w := l.live(t, death{})
			points = len(w.fates[0].points)
			if calm == nil {
				calm = w.tale
			}
			calm.Join(w.tale)
			for _, text := range w.tale.Differences(calm) {
				t.Errorf("two undisturbed lives differ: %s", text)
			}
		})
	}
	return calm, points
}

// death says when agents are killed in a life.
type death struct {
	// at are the points at which the first, the second... agent dies.
	at []int
	// kept: what was not synced has reached the disk all the same.
	kept bool
}

// String names a test.
func (d death) String() string {
	text := fmt.Sprint(d.at)
	if d.kept {
		text += " kept"
	}
	return text
}

// deaths returns a death at each point, with and without the loss of what is not synced, and as
// many in which the next agent dies too, early in its life.
func (l life) deaths(points int, random *rand.Rand) (all []death) {
	for at := 1; at <= points; at++ {
		twice := []int{at, 1 + random.IntN(60)}
		all = append(all, death{[]int{at}, false}, death{[]int{at}, true}, death{twice, at%2 == 0})
	}
	return all
}
