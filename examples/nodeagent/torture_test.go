//go:build containerd

package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

var (
	tortureSeed  = flag.Uint64("torture.seed", 0, "seed of the first round (default: a new one)")
	tortureSteps = flag.Int("torture.steps", 30, "actions of one round")
	tortureTime  = flag.Duration("torture.for", 0, "start new rounds, each with the next seed, until this time is over (default: one round)")
)

// TestContainerdTorture does random things to an agent, its manifests, its runtime
// and its containers, and then looks whether everything is as the manifests say.
// A seed repeats the actions; how they meet what the agent does at that moment
// still varies.
func TestContainerdTorture(t *testing.T) {
	containerdtest.NeedPrivate(t, "kills the runtime")
	seed := *tortureSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	deadline := time.Now().Add(*tortureTime)
	for ok := true; ok; seed++ {
		t.Logf("repeat with -torture.seed=%d -torture.steps=%d", seed, *tortureSteps)
		ok = t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { newTorture(t, seed).round(*tortureSteps) })
		ok = ok && time.Now().Before(deadline)
	}
}

// torture is one round.
type torture struct {
	t       *testing.T
	rand    *rand.Rand
	runtime *containerdtest.Instance
	client  *cri.Client

	manifests, root, starts string
	agent                   *testAgent // nil while none runs
	args                    []string
	pods                    map[string]*torturePod
	foreign                 string // container that is not the agent's
	killedRuntime           bool
	began                   time.Time
	watch                   *watcher
}

func newTorture(t *testing.T, seed uint64) *torture {
	rt := containerdtest.Start(t)
	client, err := cri.Dial(t.Context(), rt.Endpoint, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	x := &torture{
		t: t, rand: rand.New(rand.NewPCG(seed, 0)), runtime: rt, client: client,
		manifests: t.TempDir(), root: t.TempDir(), starts: t.TempDir(), pods: map[string]*torturePod{}, began: time.Now(),
	}
	x.args = []string{"--manifests", x.manifests, "--root", x.root, "--runtime", rt.Endpoint}
	x.foreign = x.runForeign()
	x.watch = newWatcher(t, client)
	x.startAgent()
	return x
}

func (x *torture) say(format string, args ...any) {
	x.t.Helper()
	x.t.Logf("%8s %s", time.Since(x.began).Round(time.Millisecond), fmt.Sprintf(format, args...))
}

// runForeign runs a container whose sandbox has the labels of a pod, but not of
// this agent's.
func (x *torture) runForeign() string {
	ctx := x.t.Context()
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "foreign", Namespace: "default", Uid: "foreign"},
		Labels:   map[string]string{runtime.LabelPodName: "foreign", runtime.LabelPodNamespace: "default", runtime.LabelPodUID: "foreign"},
		Linux:    &runtimeapi.LinuxPodSandboxConfig{},
	}
	id, err := x.client.RunPodSandbox(ctx, sandbox, "")
	if err != nil {
		x.t.Fatal(err)
	}
	container, err := x.client.CreateContainer(ctx, id, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: x.runtime.Image},
		Command:  []string{"sleep", "100000"},
		Labels:   map[string]string{runtime.LabelPodName: "foreign", runtime.LabelPodNamespace: "default", runtime.LabelPodUID: "foreign", runtime.LabelContainerName: "main"},
		Linux:    &runtimeapi.LinuxContainerConfig{},
	}, sandbox)
	if err != nil {
		x.t.Fatal(err)
	}
	if err := x.client.StartContainer(ctx, container); err != nil {
		x.t.Fatal(err)
	}
	return container
}

func (x *torture) startAgent() {
	x.agent = startAgent(x.t, x.args...)
	x.watch.agent.Store(x.agent.api)
}

// stopAgent ends the agent with kill -9 or SIGTERM.
func (x *torture) stopAgent(politely bool) {
	x.watch.agent.Store(nil)
	if !politely {
		for _, p := range x.pods {
			p.cutOff = true
		}
		x.agent.kill()
		return
	}
	began := time.Now()
	if code := x.agent.terminate(); code != 0 {
		x.t.Errorf("the agent ended with exit code %d after SIGTERM", code)
	}
	if took := time.Since(began); took > patience.Of(5*time.Second) {
		x.t.Errorf("the agent took %v to end after SIGTERM", took)
	}
}

// round does steps actions and checks what they led to.
func (x *torture) round(steps int) {
	for range 4 {
		x.create()
	}
	for range steps {
		x.act()
	}
	x.awaitDesired()
	x.checkStarts()
	x.checkOne()
	x.checkDirs()
	memory := x.agentMemory()
	x.clear()
	x.say("agent uses %s with pods, %s without", memory, x.agentMemory())
	x.stopAgent(true)
	x.watch.stop()
}

// act does one random thing. Every number is drawn in any case, so that a seed
// means the same actions whatever the agent does.
func (x *torture) act() {
	dice, which, detail := x.rand.IntN(100), x.rand.IntN(1<<20), x.rand.IntN(1<<20)
	present, absent := x.which(true), x.which(false)
	switch {
	case dice < 18 && len(present) < 12:
		x.create()
	case dice < 28 && len(present) > 0:
		x.edit(present[which%len(present)], detail)
	case dice < 38 && len(present) > 0:
		x.remove(present[which%len(present)])
	case dice < 46 && len(absent) > 0:
		x.restore(absent[which%len(absent)])
	case dice < 52 && len(present) > 0:
		p := present[which%len(present)]
		x.remove(p)
		if detail%2 == 0 {
			x.wait(time.Duration(detail%1500) * time.Millisecond)
		}
		x.restore(p)
	case dice < 56 && len(present) > 0:
		p := present[which%len(present)]
		x.spoil(p, time.Duration(detail%500)*time.Millisecond)
	case dice < 64:
		x.restart(false, detail)
	case dice < 70:
		x.restart(true, detail)
	case dice < 75:
		x.killRuntime(detail)
	case dice < 86 && len(present) > 0:
		x.killTask(present[which%len(present)], detail)
	default:
		x.wait(time.Duration(detail%2000) * time.Millisecond)
	}
}

// which lists the pods that are desired, or those that are not, by name.
func (x *torture) which(present bool) []*torturePod {
	var out []*torturePod
	for _, name := range slices.Sorted(maps.Keys(x.pods)) {
		if p := x.pods[name]; p.present == present {
			out = append(out, p)
		}
	}
	return out
}

// await is await that says what took long.
func (x *torture) await(what string, check func() error) {
	x.t.Helper()
	began := time.Now()
	var last error
	await(x.t, what, func() error {
		err := check()
		if err != nil {
			last = err
		}
		return err
	})
	if took := time.Since(began); took > 5*time.Second {
		x.say("%s: took %v, until then: %v", what, took.Round(time.Millisecond), last)
	}
}

func (x *torture) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

func (x *torture) create() {
	kinds := tortureKinds()
	p := &torturePod{name: fmt.Sprintf("p%d", len(x.pods)), present: true}
	p.renew(kinds[x.rand.IntN(len(kinds))], x.runtime.Image, x.starts)
	x.pods[p.name] = p
	x.say("create %s, %s", p.name, p.kind.name)
	writeManifest(x.t, x.manifests, p.file(), p.text)
}

func (x *torture) edit(p *torturePod, detail int) {
	kinds := tortureKinds()
	was := p.kind.name
	p.renew(kinds[detail%len(kinds)], x.runtime.Image, x.starts)
	x.say("edit %s, %s becomes %s", p.name, was, p.kind.name)
	writeManifest(x.t, x.manifests, p.file(), p.text)
}

func (x *torture) remove(p *torturePod) {
	x.say("delete %s, %s", p.name, p.kind.name)
	p.present = false
	remove(x.t, filepath.Join(x.manifests, p.file()))
}

func (x *torture) restore(p *torturePod) {
	x.say("restore %s, %s", p.name, p.kind.name)
	p.present = true
	p.lives++
	x.watch.forgive(p.name)
	writeManifest(x.t, x.manifests, p.file(), p.text)
}

// spoil makes a manifest unreadable for a while, which changes nothing: neither for an
// agent that knows its pod, nor for one that has just started and never could read it.
func (x *torture) spoil(p *torturePod, d time.Duration) {
	x.say("spoil the manifest of %s", p.name)
	writeManifest(x.t, x.manifests, p.file(), "{nonsense")
	x.wait(d)
	writeManifest(x.t, x.manifests, p.file(), p.text)
}

func (x *torture) restart(politely bool, detail int) {
	x.say("end the agent, politely: %v", politely)
	x.stopAgent(politely)
	if detail%3 == 0 {
		x.wait(time.Duration(detail%1000) * time.Millisecond)
	}
	if present := x.which(true); detail%4 == 0 && len(present) > 0 {
		x.remove(present[detail%len(present)])
	}
	x.startAgent()
}

func (x *torture) killRuntime(detail int) {
	x.say("kill -9 containerd")
	x.killedRuntime = true
	for _, p := range x.pods {
		p.runtimeKilled = true
	}
	x.runtime.Kill9()
	x.wait(time.Duration(detail%1500) * time.Millisecond)
	x.runtime.Restart()
	x.say("containerd is up again")
}

// killTask kills a container of the pod or its sandbox's pause process.
func (x *torture) killTask(p *torturePod, detail int) {
	if p.kills >= 2 {
		return // the back-off of the next restart would be beyond our patience
	}
	var ids []string
	containers, sandboxes := x.list(nil)
	if detail%3 == 0 {
		for _, s := range sandboxes {
			if s.Labels[runtime.LabelPodName] == p.name+"-n1" && s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
				ids = append(ids, s.Id)
			}
		}
	} else {
		for _, c := range containers {
			if c.Labels[runtime.LabelPodName] == p.name+"-n1" && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
				ids = append(ids, c.Id)
			}
		}
	}
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	p.kills++
	id := ids[detail/3%len(ids)]
	x.say("kill %.12s of %s, %s; sandbox: %v", id, p.name, p.kind.name, detail%3 == 0)
	out, err := exec.CommandContext(x.t.Context(), "ctr", "-a", strings.TrimPrefix(x.runtime.Endpoint, "unix://"), "-n", "k8s.io",
		"task", "kill", "-s", "SIGKILL", id).CombinedOutput()
	if err != nil {
		x.say("it had ended: %s", out) // between the list and the kill
	}
}

// awaitDesired waits until every desired pod is as its manifest says, and no other is
// shown.
func (x *torture) awaitDesired() {
	x.say("quiet from now on, %d pods", len(x.which(true)))
	x.await("the pods to be as their manifests say", func() error {
		shown := x.agent.pods()
		var problems []error
		for _, p := range x.which(true) {
			problems = append(problems, p.check(shown[p.name]))
			delete(shown, p.name)
		}
		for name := range shown {
			problems = append(problems, fmt.Errorf("%s is shown but not desired", name))
		}
		return errors.Join(problems...)
	})
	x.say("all as desired")
}

// checkStarts: a container of a pod that is never restarted starts at most once in
// each of the pod's lives.
func (x *torture) checkStarts() {
	for _, p := range x.pods {
		if p.kind.spec().RestartPolicy != v1.RestartPolicyNever {
			continue
		}
		data, err := os.ReadFile(filepath.Join(x.starts, p.life()+".main"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			x.t.Fatal(err)
		}
		if n := strings.Count(string(data), "\n"); n > p.lives {
			x.t.Errorf("%s (%s): its container was started %d times in %d lives", p.life(), p.kind.name, n, p.lives)
		}
	}
}

// checkOne: what runs, runs once, and what is not desired is gone from the
// runtime.
func (x *torture) checkOne() {
	desired := map[string]bool{}
	for _, p := range x.which(true) {
		desired[p.name+"-n1"] = true
	}
	x.await("the runtime to hold nothing of other pods", func() error {
		containers, sandboxes := x.list(map[string]string{runtime.LabelOwner: "n1"})
		var problems []error
		for _, s := range sandboxes {
			if name := s.Labels[runtime.LabelPodName]; !desired[name] {
				problems = append(problems, fmt.Errorf("sandbox %.12s of %s", s.Id, name))
			}
		}
		for _, c := range containers {
			if name := c.Labels[runtime.LabelPodName]; !desired[name] {
				problems = append(problems, fmt.Errorf("container %.12s of %s", c.Id, name))
			}
		}
		return errors.Join(problems...)
	})
}

// list lists what has these labels. Right after a restart of the runtime the
// client may still hold that it is down.
func (x *torture) list(labels map[string]string) (containers []*runtimeapi.Container, sandboxes []*runtimeapi.PodSandbox) {
	x.t.Helper()
	x.await("the runtime to list what it has", func() (err error) {
		containers, err = x.client.ListContainers(x.t.Context(), &runtimeapi.ContainerFilter{LabelSelector: labels})
		if err != nil {
			return err
		}
		sandboxes, err = x.client.ListPodSandbox(x.t.Context(), &runtimeapi.PodSandboxFilter{LabelSelector: labels})
		return err
	})
	return containers, sandboxes
}

// checkDirs: there are folders of the desired pods only.
func (x *torture) checkDirs() {
	shown := x.agent.pods()
	uids := map[string]bool{}
	for _, p := range x.which(true) {
		uids[string(shown[p.name].UID)] = true
	}
	x.await("the folders of other pods to be gone", func() error {
		var problems []error
		for _, dir := range []string{"pods", "logs"} {
			entries, err := os.ReadDir(filepath.Join(x.root, dir))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			for _, e := range entries {
				uid := e.Name()[strings.LastIndexByte(e.Name(), '_')+1:]
				if !uids[uid] {
					problems = append(problems, fmt.Errorf("%s/%s", dir, e.Name()))
				}
			}
		}
		return errors.Join(problems...)
	})
}

// clear deletes all manifests: only what is foreign stays.
func (x *torture) clear() {
	for _, p := range x.which(true) {
		x.remove(p)
	}
	x.await("the agent to show no pod", func() error {
		if n := len(x.agent.pods()); n > 0 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	x.checkOne()
	x.checkDirs()
	status, err := x.client.ContainerStatus(x.t.Context(), x.foreign, false)
	if err != nil || status.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		x.t.Errorf("the foreign container was harmed: %v, %v", status, err)
	}
	x.checkRemains()
}

// checkRemains looks below the runtime's interface. A containerd that is killed in
// the middle of a call leaves things that it does not show to its clients.
func (x *torture) checkRemains() {
	found := map[string][]string{
		"containers": strings.Fields(x.runtime.Ctr("containers", "ls", "-q")),
		"tasks":      strings.Fields(x.runtime.Ctr("tasks", "ls", "-q")),
	}
	leases, err := filepath.Glob(filepath.Join(x.runtime.Root, "ipam", "*", "198.*"))
	if err != nil {
		x.t.Fatal(err)
	}
	found["addresses"] = leases
	namespaces, err := filepath.Glob(filepath.Join(x.runtime.Root, "state", "io.containerd.grpc.v1.cri", "netns", "*"))
	if err != nil {
		x.t.Fatal(err)
	}
	found["network namespaces"] = namespaces
	want := map[string]int{"containers": 2, "tasks": 2, "addresses": 1, "network namespaces": 1}
	for what, n := range want {
		if len(found[what]) == n {
			continue
		}
		if x.killedRuntime {
			x.say("%d %s left, %d are foreign; containerd was killed", len(found[what]), what, n)
			continue
		}
		x.t.Errorf("%d %s left, want %d, the foreign ones: %q", len(found[what]), what, n, found[what])
	}
}

// agentMemory is the agent's resident memory and number of threads.
func (x *torture) agentMemory() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.agent.cmd.Process.Pid))
	if err != nil {
		x.t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "VmRSS:") || strings.HasPrefix(line, "Threads:") {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(out, ", ")
}
