//go:build containerd

package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/status/checkpoint"
)

var (
	evictionRounds = flag.Int("evictions", 1, "how often an agent is killed at each step of an eviction: the first time at once, then a random time later")
	evictionSeed   = flag.Uint64("evictions.seed", 0, "seed of these times (default: a new one)")
)

// evictionScene is an agent with a disk of its own that evicts a pod and is killed.
type evictionScene struct {
	t         *testing.T
	runtime   *containerdtest.Instance
	client    *cri.Client
	root      string
	manifests string
	marks     string
	statuses  storybook
	args      []string
	agent     *testAgent
}

// evictionStep is a step of an eviction, and whether it has been taken.
type evictionStep struct {
	name  string
	taken func(s *evictionScene) bool
}

func evictionSteps() []evictionStep {
	return []evictionStep{
		{"victim chosen", func(s *evictionScene) bool { return strings.Contains(s.agent.log(), "Evicting a pod") }},
		{"record written", func(s *evictionScene) bool {
			r := s.record()
			return r != nil && r.Termination != nil && r.Termination.Decision != nil
		}},
		{"end told", func(s *evictionScene) bool { tale := s.tale(); return tale != nil && tale.phase == v1.PodFailed }},
		{"signalled", func(s *evictionScene) bool {
			_, err := os.Stat(filepath.Join(s.marks, "told"))
			return err == nil
		}},
		{"stopped", func(s *evictionScene) bool {
			return !s.has(func(c *runtimeapi.Container) bool { return c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING })
		}},
		{"containers removed", func(s *evictionScene) bool { return !s.has(func(*runtimeapi.Container) bool { return true }) }},
		{"volumes removed", func(s *evictionScene) bool {
			left, err := filepath.Glob(filepath.Join(s.root, "pods", "*", "volumes", "*", "data", "much"))
			return err == nil && len(left) == 0
		}},
		{"finished", func(s *evictionScene) bool { tale := s.tale(); return tale != nil && tale.finished }},
	}
}

// record is what the agent has written about its victim, nil without a record.
func (s *evictionScene) record() *checkpoint.Record {
	loaded, err := checkpoint.NewFiles(checkpoint.Dir(filepath.Join(s.root, "state", "pods"))).Inspect(s.t.Context())
	if err != nil {
		return nil // files come and go while they are read
	}
	for _, r := range loaded.Records {
		if r.Name == "victim-"+s.agent.node {
			return r
		}
	}
	return nil
}

// tale is what was told of the victim.
func (s *evictionScene) tale() *podTale { return s.statuses.open(s.t)["victim"] }

// has reports whether the runtime has such a container of the victim.
func (s *evictionScene) has(which func(*runtimeapi.Container) bool) bool {
	list, err := s.client.ListContainers(s.t.Context(), &runtimeapi.ContainerFilter{LabelSelector: map[string]string{runtime.LabelPodName: "victim-" + s.agent.node}})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range list {
		if which(c) {
			return true
		}
	}
	return false
}

// TestContainerdEvictionKills: IN8: a pod fills the disk and is evicted, and the agent is
// killed with SIGKILL at each step of that. The pod is Failed for the reason Evicted, once
// and with one message, its container never runs again, all that it had is removed, and no
// other pod is touched.
func TestContainerdEvictionKills(t *testing.T) {
	beside(t)
	seed := *evictionSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("repeat with -evictions=%d -evictions.seed=%d", *evictionRounds, seed)
	rt := containerdtest.Start(t)
	client, err := cri.Dial(t.Context(), rt.Endpoint, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	random := rand.New(rand.NewPCG(seed, 8))
	for round := range *evictionRounds {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			for i, step := range evictionSteps() {
				late := time.Duration(0)
				if round > 0 {
					late = time.Duration(random.IntN(200)) * time.Millisecond
				}
				node := fmt.Sprintf("r%d-%d", round, i)
				disk := smallDisk(t, rt, node, 48<<20)
				t.Run(step.name, func(t *testing.T) {
					t.Parallel() // each with an agent and a disk of its own
					newEvictionScene(t, rt, client, node, disk).play(step, late)
				})
			}
		})
	}
}

func newEvictionScene(t *testing.T, rt *containerdtest.Instance, client *cri.Client, node, disk string) *evictionScene {
	s := &evictionScene{
		t: t, runtime: rt, client: client, root: filepath.Join(disk, "root"), manifests: t.TempDir(), marks: t.TempDir(),
		statuses: storybook{path: filepath.Join(t.TempDir(), "statuses"), node: node, tales: map[string]*podTale{}},
	}
	s.args = []string{
		"--manifests", s.manifests, "--root", s.root, "--runtime", rt.Endpoint, "--node-name", node,
		"--statuses", s.statuses.path, "--eviction-hard", "nodefs.available<16Mi",
	}
	return s
}

// play has the victim evicted, kills the agent a time after the step is taken, and looks at
// what the next one makes of it.
func (s *evictionScene) play(step evictionStep, late time.Duration) {
	s.agent = startAgent(s.t, s.args...)
	others := runBystanders(s.t, s.runtime, s.agent, s.manifests, 2)
	writeManifest(s.t, s.manifests, "victim.yaml", pod("victim", s.runtime.Image,
		"echo started >> /marks/starts; trap 'touch /marks/told; sleep 0.2; exit 7' TERM; dd if=/dev/zero of=/data/much bs=1M count=28; while :; do sleep 0.05; done",
		"    volumeMounts: [{name: marks, mountPath: /marks}, {name: data, mountPath: /data}]",
		"  hostNetwork: true", "  terminationGracePeriodSeconds: 10", "  restartPolicy: Always",
		"  volumes: [{name: marks, hostPath: {path: "+s.marks+"}}, {name: data, emptyDir: {}}]"))
	s.await("the victim to fill the disk", func() bool { return free(s.t, s.root) < 16<<20 })
	s.await("step: "+step.name, func() bool { return step.taken(s) })
	timer := time.NewTimer(late)
	<-timer.C
	s.agent.kill()
	var taken []string
	for _, step := range evictionSteps() {
		if step.taken(s) {
			taken = append(taken, step.name)
		}
	}
	s.t.Logf("killed %v after %q; taken: %s", late, step.name, strings.Join(taken, ", "))

	s.agent = startAgent(s.t, s.args...)
	for _, step := range evictionSteps()[1:] { // the first may have been the first agent's
		s.await(step.name, func() bool { return step.taken(s) })
	}
	// Another two looks at the node, and then another agent, change nothing.
	timer.Reset(12 * time.Second)
	<-timer.C
	s.check(others)
	s.agent.kill()
	s.agent = startAgent(s.t, s.args...)
	s.check(others)
	remove(s.t, filepath.Join(s.manifests, "victim.yaml"))
	s.agent.awaitGone("victim")
}

// await looks often, so that little happens between a step and the kill.
func (s *evictionScene) await(what string, taken func() bool) {
	s.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(longest)
	defer deadline.Stop()
	for !taken() {
		select {
		case <-tick.C:
		case <-deadline.C:
			s.t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// check looks at the victim's end and at the others.
func (s *evictionScene) check(others bystanders) {
	s.t.Helper()
	victim := s.agent.awaitPhase("victim", v1.PodFailed)
	if victim.Status.Reason != "Evicted" || !strings.Contains(victim.Status.Message, "ephemeral-storage") || condition(victim, v1.DisruptionTarget).Status != v1.ConditionTrue {
		s.t.Errorf("the victim is Failed for %q: %q, conditions %+v", victim.Status.Reason, victim.Status.Message, victim.Status.Conditions)
	}
	tale := s.tale()
	if len(tale.reasons) != 1 || len(tale.flaps) > 0 || !tale.finished {
		s.t.Errorf("told of the victim: reasons %q, taken back %q:\n%s", tale.reasons, tale.flaps, strings.Join(tale.heard, "\n"))
	}
	if starts, err := os.ReadFile(filepath.Join(s.marks, "starts")); err != nil || string(starts) != "started\n" {
		s.t.Errorf("the victim was started: %q, want one line (%v)", starts, err)
	}
	others.check(s.agent)
	for name, tale := range s.statuses.open(s.t) {
		if name != "victim" && (tale.phase != v1.PodRunning || len(tale.flaps) > 0) {
			s.t.Errorf("told of %s: %s, taken back %q", name, tale.phase, tale.flaps)
		}
	}
	await(s.t, "health", func() error {
		if code, body := s.agent.get("/healthz"); code != 200 {
			return errors.New(body)
		}
		return nil
	})
}
