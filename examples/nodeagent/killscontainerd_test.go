//go:build containerd

package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/runtime/cri"
)

var (
	killCount = flag.Int("kills", 10, "how often the agent is killed")
	killSeed  = flag.Uint64("kills.seed", 0, "seed of the moments (default: a new one)")
)

// killedPods is how many pods are somewhere in their lives at every moment.
const killedPods = 20

// longestBackOff is how long a container waits whose start was cut off again and
// again.
const longestBackOff = 5 * time.Minute

// killedKind is a kind of pod: what its container does, and what must be told of it
// however often the agent is killed. Its script adds a line to $MARK at each start, once it has set its trap.
type killedKind struct {
	name, script, policy string
	// starts is how often its container is started, ends the exit code of each run.
	starts int
	ends   []int32
	// enough reports whether it has told enough to be deleted.
	enough func(*podTale) bool
}

func killedKinds() []killedKind {
	ended := func(t *podTale) bool { return t.phase == v1.PodSucceeded || t.phase == v1.PodFailed }
	again := func(t *podTale) bool {
		return t.phase == v1.PodRunning && t.ready && slices.Equal(t.codes(), []int32{3})
	}
	return []killedKind{
		{"never", "echo started >>$MARK; sleep 1; exit 7", "Never", 1, []int32{7}, ended},
		{"done", "echo started >>$MARK; sleep 2; exit 0", "OnFailure", 1, []int32{0}, ended},
		{"crash", "trap 'exit 4' TERM; echo started >>$MARK; [ -e $MARK.over ] || { sleep 1; touch $MARK.over; exit 3; }; while :; do sleep 0.2; done", "Always", 2, []int32{3, 4}, again},
		{"server", "trap 'exit 5' TERM; echo started >>$MARK; while :; do sleep 0.2; done", "Always", 1, []int32{5}, func(t *podTale) bool { return t.ready }},
	}
}

// killing is one run of the test.
type killing struct {
	t         *testing.T
	rand      *rand.Rand
	runtime   *containerdtest.Instance
	manifests string
	marks     string
	statuses  storybook
	args      []string

	agent *testAgent
	// undeletable is how many containers containerd did not delete until it was restarted.
	undeletable int
	kinds       map[string]killedKind // of every pod there ever was, by name
	live        map[string]bool       // those whose manifest is there
}

// TestContainerdKills: status.md 9.1, CK11, HI7, HI8, HI9: an agent is killed with
// SIGKILL at random moments while pods start, crash, complete and are deleted. No
// container is started once too often, every exit code is told, no status goes back,
// and nothing is left.
func TestContainerdKills(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	t.Logf("repeat with -kills=%d -kills.seed=%d", *killCount, seed)
	runtime, manifests, args := onContainerd(t)
	runtime.NeedPrivate(t, "restarts the runtime")
	k := &killing{
		t: t, rand: rand.New(rand.NewPCG(seed, 3)), runtime: runtime, manifests: manifests, marks: t.TempDir(),
		statuses: storybook{path: filepath.Join(t.TempDir(), "statuses"), tales: map[string]*podTale{}}, kinds: map[string]killedKind{}, live: map[string]bool{},
	}
	k.args = append(args, "--statuses", k.statuses.path)
	k.agent = launch(t, k.args...)
	for range *killCount {
		k.turn(k.statuses.open(t))
		longest := 1500
		if k.rand.IntN(5) == 0 {
			longest = 5000 // time to get on
		}
		timer := time.NewTimer(time.Duration(k.rand.IntN(longest)) * time.Millisecond)
		<-timer.C
		k.agent.kill()
		k.t.Logf("killed at %s", time.Now().Format(time.StampMilli))
		k.agent = launch(t, k.args...)
	}
	k.end()
	k.check()
}

// turn deletes pods that have lived enough, and makes new ones in their place.
func (k *killing) turn(tales map[string]*podTale) {
	for _, name := range slices.Sorted(maps.Keys(k.live)) {
		if k.enough(name, tales[name]) {
			remove(k.t, filepath.Join(k.manifests, name+".yaml"))
			delete(k.live, name)
		}
	}
	kinds := killedKinds()
	for len(k.live) < killedPods {
		kind := kinds[len(k.kinds)%len(kinds)]
		name := fmt.Sprintf("%s-%d", kind.name, len(k.kinds))
		script := fmt.Sprintf("MARK=/marks/%s; %s", name, kind.script)
		writeManifest(k.t, k.manifests, name+".yaml", pod(name, k.runtime.Image, script,
			"    volumeMounts: [{name: marks, mountPath: /marks}]",
			"  restartPolicy: "+kind.policy, "  terminationGracePeriodSeconds: 20", "  hostNetwork: true",
			"  volumes: [{name: marks, hostPath: {path: "+k.marks+"}}]"))
		k.kinds[name], k.live[name] = kind, true
	}
}

// enough reports whether a pod may be deleted: a container that is to run until then must have set its trap.
func (k *killing) enough(name string, tale *podTale) bool {
	kind := k.kinds[name]
	return tale != nil && kind.enough(tale) && (kind.policy != "Always" || k.starts(name) >= kind.starts)
}

// starts is how often the container of a pod was started.
func (k *killing) starts(name string) int {
	marks, err := os.ReadFile(filepath.Join(k.marks, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		k.t.Fatal(err)
	}
	return strings.Count(string(marks), "\n")
}

// end lets all pods come to where they may be deleted, deletes them, and waits for
// the runtime to be empty.
func (k *killing) end() {
	awaitWithin(k.t, longest+longestBackOff, "every pod to have lived enough", func() error {
		tales := k.statuses.open(k.t)
		for name := range k.live {
			if tale := tales[name]; !k.enough(name, tale) {
				return fmt.Errorf("%s: %+v", name, tale)
			}
		}
		return nil
	})
	for name := range k.live {
		remove(k.t, filepath.Join(k.manifests, name+".yaml"))
	}
	client, err := cri.Dial(k.t.Context(), k.runtime.Endpoint, cri.Options{})
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	began := time.Now()
	await(k.t, "an empty runtime", func() error {
		if k.undeletable == 0 && time.Since(began) > longest/3 {
			k.restartStuck()
		}
		sandboxes, err := client.ListPodSandbox(k.t.Context(), nil)
		if err != nil {
			return err
		}
		containers, err := client.ListContainers(k.t.Context(), nil)
		if err != nil {
			return err
		}
		if len(sandboxes)+len(containers) > 0 {
			return fmt.Errorf("%d sandboxes, %d containers", len(sandboxes), len(containers))
		}
		return nil
	})
	await(k.t, "the end of every pod to be told", func() error {
		tales := k.statuses.open(k.t)
		for name := range k.kinds {
			if tale := tales[name]; tale == nil || !tale.finished {
				return fmt.Errorf("%s: %+v", name, tale)
			}
		}
		return nil
	})
}

// restartStuck restarts containerd if it refuses to delete a container. It may keep the
// task of a start that was cut off, and cannot stop a container it believes to have
// ended. At its start it looks again.
func (k *killing) restartStuck() {
	log := k.runtime.Log()
	for _, id := range strings.Fields(k.runtime.Ctr("containers", "ls", "-q")) {
		if strings.Contains(log, "cannot delete running task "+id) {
			k.undeletable++
		}
	}
	if k.undeletable > 0 {
		k.runtime.Restart()
	}
}

// check counts what is wrong.
func (k *killing) check() {
	starts, extra, lost, flaps, cutOff := 0, 0, 0, 0, 0
	tales := k.statuses.open(k.t)
	for _, name := range slices.Sorted(maps.Keys(k.kinds)) {
		kind, tale := k.kinds[name], tales[name]
		n := k.starts(name)
		starts += n
		// containerd kills what it is starting when its caller goes away, and says
		// so: that run has an honest end of its own, and another follows where the
		// policy says so.
		cutOff += len(tale.cutOff)
		switch {
		case kind.policy != "Never":
			kind.starts += len(tale.cutOff)
		case len(tale.cutOff) == 1:
			kind.ends = nil
		}
		if n > kind.starts {
			extra += n - kind.starts
			k.t.Errorf("%s was started %d times, want %d:\n%s", name, n, kind.starts, strings.Join(tale.heard, "\n"))
		}
		if codes := tale.codes(); !slices.Equal(codes, kind.ends) {
			lost++
			k.t.Errorf("%s: told of exit codes %v, want %v:\n%s", name, codes, kind.ends, strings.Join(tale.heard, "\n"))
		}
		flaps += len(tale.flaps)
		if len(tale.flaps) > 0 {
			k.t.Errorf("%s took back what it had told:\n%s\n%s", name, strings.Join(tale.flaps, "\n"), strings.Join(tale.heard, "\n"))
		}
	}
	k.t.Logf("kills: %d, pods: %d, starts: %d, extra starts: %d, lost exit codes: %d, status flaps: %d, containers that the CRI does not list: %d, starts cut off by containerd: %d, containers it deleted only after a restart of its own: %d",
		*killCount, len(k.kinds), starts, extra, lost, flaps, k.unlisted(), cutOff, k.undeletable)
}

// unlisted counts what containerd keeps although the CRI's lists are empty. A sandbox whose
// caller went away while it was made may be forgotten there (containerd 2.x): no agent can
// find it. But then it was never started, and one kill leaves few.
func (k *killing) unlisted() int {
	containers := strings.Fields(k.runtime.Ctr("containers", "ls", "-q"))
	if len(containers) > *killCount {
		k.t.Errorf("%d kills left %d containers: %v", *killCount, len(containers), containers)
	}
	tasks := k.runtime.Ctr("tasks", "ls")
	for task := range strings.Lines(tasks) {
		if strings.Contains(task, "RUNNING") {
			k.t.Errorf("a task runs that the CRI does not list: %s", task)
		}
	}
	if len(containers) > 0 {
		k.t.Logf("containers that the CRI does not list: %v, tasks:\n%s", containers, tasks)
	}
	return len(containers)
}
