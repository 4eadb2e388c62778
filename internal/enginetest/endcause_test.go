package enginetest_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/mirror"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// ending is one way to end the pods "victim-0" and "victim-1", which run beside the pod "quiet".
type ending struct {
	name, reason string
	api          bool // the pods are those of an API; otherwise they are static
	comesBack    bool // once the pods have ended, their next life begins
	configure    func(c *podwright.Config, node *scarce)
	// decide makes the first agent decide; it returns before or when ctx ends.
	decide func(ctx context.Context, s *endingScene)
}

// waysToEnd returns all ways, each for static pods and for those of an API.
func waysToEnd() []ending {
	var out []ending
	for _, api := range []bool{false, true} {
		out = append(
			out,
			ending{
				name: "eviction", reason: "Evicted", api: api,
				configure: func(c *podwright.Config, node *scarce) {
					c.Eviction = &podwright.Eviction{Stats: node, Policy: eviction.Policy{
						Thresholds: []eviction.Threshold{{Signal: eviction.MemoryAvailable, Value: eviction.Value{Quantity: 500}}}, Transition: time.Minute,
					}}
				},
				decide: func(_ context.Context, s *endingScene) {
					s.node.use("uid-victim-0", 400)
					s.node.use("uid-victim-1", 350)
				},
			},
			ending{
				name: "preemption", reason: "Preempting", api: api,
				decide: func(_ context.Context, s *endingScene) { s.tell(append(s.pods(), dns())...) },
			},
			ending{name: "deadline", reason: "DeadlineExceeded", api: api},
			ending{
				name: "shutdown", reason: "Terminated", api: api, comesBack: !api,
				decide: func(ctx context.Context, s *endingScene) {
					_, _ = s.agent.engine.Shutdown(ctx, shutdown.Plan{Groups: []shutdown.Group{{Time: 20 * time.Second}}})
				},
			},
		)
	}
	return out
}

// dns is the critical pod that the victims make room for.
func dns() *v1.Pod { return critical(asking(newPod("dns"), "2")) }

// endingScene is the machine on which an end is decided: the part that outlives the agent that decides it.
type endingScene struct {
	ending
	t     *testing.T
	rt    *fake.Runtime
	disk  *checkpointtest.Disk
	api   *mirror.FakeClient
	root  string
	node  *scarce
	sink  *history
	agent *rig
	fate  *fate
}

var endingVictims = []types.UID{"uid-victim-0", "uid-victim-1"}

func (s *endingScene) pods() []*v1.Pod {
	var out []*v1.Pod
	for _, name := range []string{"victim-0", "victim-1", "quiet"} {
		pod := asking(newPod(name), "1")
		if name == "quiet" {
			pod = withPriority(pod, 100)
		}
		if name != "quiet" {
			pod = withScratch(pod)
		}
		if s.name == "deadline" && name != "quiet" {
			pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](20)
		}
		if s.comesBack && name == "victim-0" {
			pod.Spec.RestartPolicy = v1.RestartPolicyNever
		}
		out = append(out, pod)
	}
	return out
}

// start starts an agent, which dies at the point at unless that is 0. Only the first agent has the
// configuration that decides the end.
func (s *endingScene) start(first bool, at int) {
	s.fate = newFate(s.t.Context(), at)
	way := mortal{s.rt, s.fate}
	s.agent = newRig(s.t, s.rt, s.root, killed, roomFor("3"), func(c *podwright.Config) {
		c.Runtime, c.Images = way, way
		c.Checkpoints.Store, c.Node.BootID = checkpoint.NewFiles(s.fate.disk(s.disk)), "boot-1"
		c.Observe.Sinks = []status.StatusSink{s.fate.sink(s.sink)}
		if s.ending.api {
			c.Sources = []syncloop.Source{apiSource{api: s.api}}
		}
		if first && s.configure != nil {
			s.configure(c, s.node)
		}
	})
	s.node.rig = s.agent
	s.agent.start()
}

// tell names the desired pods.
func (s *endingScene) tell(pods ...*v1.Pod) {
	if !s.ending.api {
		if err := s.agent.source.Set(s.fate.end, pods); err != nil && !s.fate.isDead() {
			s.t.Fatal(err)
		}
		return
	}
	for _, pod := range pods {
		s.api.Put(pod)
	}
}

// play makes an agent decide, kills it at the point at after that, and continues with the next
// agent. The next one also dies, at the point again, unless that is 0. What was not synced is lost
// unless kept is true. play returns the number of points that the first agent passes.
func (e ending) play(t *testing.T, at, again int, kept bool) (points int) {
	s := &endingScene{
		ending: e, t: t, disk: &checkpointtest.Disk{}, api: &mirror.FakeClient{}, root: t.TempDir(),
		node: &scarce{used: map[types.UID]uint64{}}, sink: &history{},
		rt: byContainer(map[string]fake.Script{"main": {OnTERM: fake.Exit{After: 3 * time.Second}}}),
	}
	s.start(true, 0)
	s.tell(s.pods()...)
	for _, pod := range s.pods() {
		s.agent.phase(pod.UID, v1.PodRunning, 10*time.Second)
	}
	for _, uid := range endingVictims {
		if err := os.WriteFile(scratchFile(s.root, uid), []byte("much"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(3 * time.Second)
	synctest.Wait()
	s.fate.mu.Lock()
	began := len(s.fate.points)
	if at > 0 {
		s.fate.at = began + at
	}
	s.fate.mu.Unlock()
	ctx, cancel := context.WithCancel(s.fate.end)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if e.decide != nil {
			e.decide(ctx, s)
		}
	}()
	select {
	case <-s.fate.killed:
	case <-time.After(40 * time.Second):
	}
	s.fate.mu.Lock()
	points = len(s.fate.points) - began
	s.fate.mu.Unlock()
	s.fate.cancel()
	cancel()
	<-done
	s.disk = s.disk.LosePower(func(string) bool { return kept })
	s.agent.stop()
	signalled := map[types.UID]bool{}
	for _, uid := range endingVictims {
		signalled[uid] = len(s.rt.Calls(fake.Match{Method: fake.StopContainer, PodUID: uid})) > 0
	}
	if again > 0 {
		s.start(false, again)
		s.resume()
		select {
		case <-s.fate.killed:
		case <-time.After(20 * time.Second):
		}
		s.fate.cancel()
		s.disk = s.disk.LosePower(func(string) bool { return kept })
		s.agent.stop()
	}
	s.start(false, 0)
	s.resume()
	<-time.After(2 * time.Minute)
	synctest.Wait()
	for _, uid := range endingVictims {
		if e.comesBack {
			s.checkNextLife(uid, signalled[uid])
		} else {
			s.check(uid, signalled[uid])
		}
	}
	if e.name != "shutdown" {
		if p := s.agent.pod("uid-quiet"); p.Status.Phase != v1.PodRunning || starts(s.rt, "uid-quiet") != 1 || s.rt.Running("uid-quiet", "main") != 1 {
			t.Errorf("the quiet pod: %+v", p.Status)
		}
	}
	s.agent.stop()
	return points
}

// resume names the desired pods to a later agent.
func (s *endingScene) resume() {
	if desired := s.pods(); s.name == "preemption" { // dns is still desired, and may be judged before its victims are named
		s.tell(append(desired, dns())...)
	} else {
		s.tell(desired...)
	}
}

// check checks the outcome for a victim: it is Failed for the reason and nothing of it runs, or
// nothing was done about it and it still runs.
func (s *endingScene) check(uid types.UID, signalled bool) {
	s.t.Helper()
	st := s.agent.pod(uid).Status
	running := s.rt.Running(uid, "main")
	told, _ := s.sink.of(uid)
	failed := slices.Index(told, v1.PodFailed)
	switch {
	case starts(s.rt, uid) != 1:
		s.t.Errorf("%s was started %d times", uid, starts(s.rt, uid))
	case st.Phase == v1.PodRunning && running == 1 && !signalled && failed < 0: // as far as an observer can tell, its end was not decided
	case st.Phase != v1.PodFailed || st.Reason != s.reason || st.Message == "" || running != 0:
		s.t.Errorf("%s: %d containers run, signalled %v, status %s %q %q", uid, running, signalled, st.Phase, st.Reason, st.Message)
	case failed != len(told)-1:
		s.t.Errorf("%s: told %v", uid, told)
	case s.reason != "DeadlineExceeded" && !disrupted(&v1.Pod{Status: st}):
		s.t.Errorf("%s: conditions %+v", uid, st.Conditions)
	default:
		s.checkNothingHeld(uid)
	}
}

// checkNextLife checks the outcome for a victim that comes back: it has ended in full and runs again, on an empty
// volume, or nothing was done about it and it still runs.
func (s *endingScene) checkNextLife(uid types.UID, signalled bool) {
	s.t.Helper()
	st := s.agent.pod(uid).Status
	told, _ := s.sink.of(uid)
	_, err := os.Stat(scratchFile(s.root, uid))
	lives, ended, keeps := starts(s.rt, uid), signalled || slices.Contains(told, v1.PodFailed), err == nil
	untouched, again := lives == 1 && !ended && keeps, lives == 2 && !keeps
	if st.Phase != v1.PodRunning || s.rt.Running(uid, "main") != 1 || !untouched && !again {
		s.t.Errorf("%s: %d starts, signalled %t, keeps its data %t, told %v, status %s %q: %s", uid, lives, signalled, keeps, told, st.Phase, st.Reason, s.agent.explain(uid))
	}
}

// checkNothingHeld checks that a victim keeps no data and, if it is static and had to end to free
// resources, no containers.
func (s *endingScene) checkNothingHeld(uid types.UID) {
	s.t.Helper()
	if _, err := os.Stat(scratchFile(s.root, uid)); err == nil {
		s.t.Errorf("%s keeps its data: %s", uid, s.agent.explain(uid))
	}
	if n := len(s.agent.records(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})); n > 0 && !s.ending.api && s.decide != nil {
		s.t.Errorf("%s keeps %d containers: %s", uid, n, s.agent.explain(uid))
	}
}

// TestCauseOfAnEndSurvivesEveryPoint: IN8, CK6. From the moment an end is decided, the agent is
// killed before and after each operation on the disk, runtime call and message to a sink. The pod
// is Failed with that reason, once, is never Running without containers, and never runs again; a
// static pod that ended with its node does so in full before its next life.
func TestCauseOfAnEndSurvivesEveryPoint(t *testing.T) {
	t.Parallel()
	step := 5
	switch {
	case os.Getenv(crashVariable) == "full":
		step = 1
	case raceDetector:
		step = 13
	}
	for i, e := range waysToEnd() {
		name := e.name + " of static pods"
		if e.api {
			name = e.name + " of an API's pods"
		}
		t.Run(name, func(t *testing.T) {
			points := 0
			synctest.Test(t, func(t *testing.T) { points = e.play(t, 0, 0, true) })
			if points < 10 {
				t.Fatalf("only %d points", points)
			}
			for at := 1 + i%step; at <= points; at += step {
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { e.play(t, at, 0, at/step%2 == 0) })
				})
			}
		})
	}
}

// TestCauseOfAnEndSurvivesTwoDeaths: IN8: the same if the next agent is killed while it takes
// over, before or after its first status of the pod.
func TestCauseOfAnEndSurvivesTwoDeaths(t *testing.T) {
	t.Parallel()
	points := []int{4, 9, 15, 26}
	last, step := 45, 11
	if os.Getenv(crashVariable) == "full" {
		last, step = 60, 1
	}
	for i, e := range waysToEnd() {
		name := e.name + " of static pods"
		if e.api {
			name = e.name + " of an API's pods"
		}
		t.Run(name, func(t *testing.T) {
			for j, at := range points {
				for again := 1 + (i+3*j)%step; again <= last; again += step {
					t.Run(fmt.Sprintf("%d, %d", at, again), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { e.play(t, at, again, again%2 == 0) })
					})
				}
			}
		})
	}
}
