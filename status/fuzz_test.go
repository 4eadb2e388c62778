package status

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/internal/restartpolicy"
	"github.com/podwright/podwright/runtime"
)

// TestRandomLives drives generator, manager and merge through random pods and
// random, even impossible, runtime histories.
func TestRandomLives(t *testing.T) { rapid.Check(t, randomLife) }

// FuzzLives is TestRandomLives for the fuzzer.
func FuzzLives(f *testing.F) { f.Fuzz(rapid.MakeFuzz(randomLife)) }

// world is one random life.
type world struct {
	*rapid.T
	pod     *v1.Pod
	now     time.Time
	records []*runtime.ContainerStatus
	old     *v1.PodStatus
	// sent is what a sink without an API has.
	sent *v1.PodStatus
}

func randomLife(t *rapid.T) {
	w := &world{T: t, pod: randomPod(t), now: t0, sent: &v1.PodStatus{}}
	clk := clocktesting.NewFakeClock(t0)
	m := NewManager(Options{Clock: clk})
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "pass")) * time.Second)
		clk.SetTime(w.now)
		w.runtimeMoves()
		in := w.input()
		made := Generate(in)
		w.checkMade(in, &made)
		_ = m.SetPodStatus(w.pod, made) // what is illegal is dropped
		w.checkCached(m)
		if rapid.IntRange(0, 3).Draw(t, "probe result") == 0 && len(w.records) > 0 {
			r := rapid.SampledFrom(w.records).Draw(t, "probed")
			m.SetContainerReadiness(w.pod.UID, r.ID, rapid.Bool().Draw(t, "ready"))
			w.checkCached(m)
			m.SetContainerStartup(w.pod.UID, r.ID, rapid.Bool().Draw(t, "started"))
			w.checkCached(m)
			m.SetSandboxReady(w.pod.UID)
			w.checkCached(m)
		}
		if rapid.IntRange(0, 15).Draw(t, "terminate") == 0 {
			if err := m.TerminatePod(w.pod); err != nil {
				t.Fatal(err)
			}
			w.checkCached(m)
		}
	}
}

// randomPod has up to three containers of each kind.
func randomPod(t *rapid.T) *v1.Pod {
	pod := newPod(policy(rapid.SampledFrom([]v1.RestartPolicy{always, onFailure, never}).Draw(t, "policy")))
	if rapid.IntRange(0, 4).Draw(t, "static") == 0 {
		static(pod)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "inits") {
		if rapid.Bool().Draw(t, "sidecar") {
			sidecars(fmt.Sprint("i", i))(pod)
		} else {
			inits(fmt.Sprint("i", i))(pod)
		}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "apps") {
		apps(fmt.Sprint("a", i))(pod)
	}
	if rapid.IntRange(0, 4).Draw(t, "rule") == 0 {
		restartAllOn42(pod)
	}
	for i := range rapid.IntRange(0, 1).Draw(t, "ephemerals") {
		debuggers(fmt.Sprint("e", i))(pod)
	}
	return pod
}

func (w *world) names() (out []string) {
	for i := range w.pod.Spec.InitContainers {
		out = append(out, w.pod.Spec.InitContainers[i].Name)
	}
	for i := range w.pod.Spec.Containers {
		out = append(out, w.pod.Spec.Containers[i].Name)
	}
	for i := range w.pod.Spec.EphemeralContainers {
		out = append(out, w.pod.Spec.EphemeralContainers[i].Name)
	}
	return out
}

// runtimeMoves changes some records: new runs, new states, lost records.
func (w *world) runtimeMoves() {
	for _, name := range w.names() {
		at := slices.IndexFunc(w.records, func(r *runtime.ContainerStatus) bool { return r.Name == name })
		switch rapid.IntRange(0, 4).Draw(w.T, "move") {
		case 0: // a new run
			n := 0
			if at >= 0 {
				n = w.records[at].RestartCount + 1
			}
			w.records = append([]*runtime.ContainerStatus{w.record(name, n)}, w.records...)
		case 1: // another state
			if at >= 0 {
				w.records[at] = w.record(name, w.records[at].RestartCount)
			}
		case 2: // the record is lost
			if at >= 0 {
				w.records = slices.Delete(slices.Clone(w.records), at, at+1)
			}
		}
	}
}

func (w *world) record(name string, n int) *runtime.ContainerStatus {
	r := record(name, n, rapid.SampledFrom([]runtime.State{runtime.Running, runtime.Exited, runtime.Created, runtime.Unknown}).Draw(w.T, "state"))
	if r.State == runtime.Exited {
		r.FinishedAt, r.ExitCode = w.now, rapid.SampledFrom([]int32{0, 1, 42, 137}).Draw(w.T, "code")
	}
	return r
}

// input draws everything else Generate looks at.
func (w *world) input() Input {
	if rapid.IntRange(0, 9).Draw(w.T, "delete") == 0 {
		w.pod = w.pod.DeepCopy()
		w.pod.DeletionTimestamp = &metav1.Time{Time: w.now}
	}
	r := view(w.records...)
	r.Sandboxes[0].State = rapid.SampledFrom([]runtime.State{runtime.Running, runtime.Exited}).Draw(w.T, "sandbox")
	in := Input{
		Pod: w.pod, Runtime: r, Old: w.old, Now: w.now,
		Terminal:     rapid.IntRange(0, 9).Draw(w.T, "terminal") == 0,
		SandboxReady: rapid.Bool().Draw(w.T, "sandbox ready"),
	}
	if rapid.IntRange(0, 19).Draw(w.T, "evict") == 0 {
		in.override = &override{Reason: "Evicted", DisruptionTarget: "no room"}
	}
	if rapid.Bool().Draw(w.T, "failed starts") {
		in.Waiting = map[string]WaitingReason{}
		for _, name := range w.names() {
			in.Waiting[name] = WaitingReason{Reason: "CrashLoopBackOff"}
		}
	}
	if rapid.Bool().Draw(w.T, "probes") {
		facts := map[string]ProbeFacts{}
		for _, name := range w.names() {
			facts[name] = ProbeFacts{Startup: proberesult.Result(rapid.IntRange(0, 3).Draw(w.T, "startup")), Readiness: proberesult.Result(rapid.IntRange(0, 3).Draw(w.T, "readiness"))}
		}
		in.Probes = func(name string, _ runtime.ContainerID) ProbeFacts { return facts[name] }
	}
	return in
}

// checkMade checks one result of Generate.
func (w *world) checkMade(in Input, made *v1.PodStatus) {
	want := encode(w.T, made)
	again := in
	again.Old = made
	// A restart of all containers in an impossible order (new runs beside old
	// ones) may need two looks; possible orders are in TestRestartAll.
	if got := encode(w.T, ptrTo(Generate(again))); !bytes.Equal(got, want) && !restartpolicy.RestartsAll(&w.pod.Spec) {
		w.Fatalf("not stable:\n%s\n%s", want, got)
	}
	other := in
	shuffled := *in.Runtime
	shuffled.Containers = slices.Clone(shuffled.Containers)
	slices.SortStableFunc(shuffled.Containers, func(a, b *runtime.ContainerStatus) int { return cmp.Compare(b.Name, a.Name) })
	other.Runtime = &shuffled
	if got := encode(w.T, ptrTo(Generate(other))); !bytes.Equal(got, want) {
		w.Fatalf("depends on the order of the records:\n%s\n%s", want, got)
	}
	if w.old != nil && podinfo.Terminal(w.old.Phase) && made.Phase != w.old.Phase && in.override == nil && !podinfo.Terminal(w.pod.Status.Phase) {
		w.Fatalf("phase went from %s to %s", w.old.Phase, made.Phase)
	}
	w.checkReady(made)
}

func ptrTo[T any](v T) *T { return &v }

func encode(t *rapid.T, s *v1.PodStatus) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkReady: ready only with running and started, but for finished regular init
// containers.
func (w *world) checkReady(s *v1.PodStatus) {
	for i := range s.InitContainerStatuses {
		cs := &s.InitContainerStatuses[i]
		if cs.Ready && !restartpolicy.IsSidecar(&w.pod.Spec.InitContainers[i]) && succeeded(&cs.State) {
			continue
		}
		if cs.Ready && cs.State.Running == nil {
			w.Fatalf("init container %s is ready and does not run: %+v", cs.Name, cs.State)
		}
	}
	for i := range s.ContainerStatuses {
		if cs := &s.ContainerStatuses[i]; cs.Ready && cs.State.Running == nil {
			w.Fatalf("container %s is ready and does not run: %+v", cs.Name, cs.State)
		}
	}
}

// checkCached compares what the manager holds now with what it held before.
func (w *world) checkCached(m *Manager) {
	now, ok := m.Get(w.pod.UID)
	if !ok {
		return
	}
	w.checkReady(&now)
	old := w.old
	w.old = &now
	w.checkSent(&now)
	if old == nil {
		return
	}
	if podinfo.Terminal(old.Phase) && now.Phase != old.Phase {
		w.Fatalf("cached phase went from %s to %s", old.Phase, now.Phase)
	}
	if !now.StartTime.Equal(old.StartTime) || now.ObservedGeneration < old.ObservedGeneration {
		w.Fatal("start time or generation moved back")
	}
	for list, lists := range [][2][]v1.ContainerStatus{{old.ContainerStatuses, now.ContainerStatuses}, {old.InitContainerStatuses, now.InitContainerStatuses}} {
		for i := range lists[0] {
			before, after := &lists[0][i], statusOf(lists[1], i, lists[0][i].Name)
			if after == nil {
				w.Fatalf("status of %s vanished", before.Name)
			}
			if after.RestartCount < before.RestartCount {
				w.Fatalf("restart count of %s went from %d to %d", before.Name, before.RestartCount, after.RestartCount)
			}
			if w.pod.Spec.RestartPolicy == never && !restartpolicy.RestartsAll(&w.pod.Spec) && before.State.Terminated != nil && after.State.Waiting != nil && !w.isSidecar(before.Name) &&
				(list == 0 || before.ContainerID == after.ContainerID) { // what runs is believed, init containers run again (IN5)
				w.Fatalf("%s left Terminated under Never", before.Name)
			}
		}
	}
	for i := range now.Conditions {
		c := &now.Conditions[i]
		before := conditionOf(old.Conditions, c.Type)
		if before != nil && before.Status == c.Status && !before.LastTransitionTime.Equal(&c.LastTransitionTime) {
			w.Fatalf("%s: the time moved without the status", c.Type)
		}
		if before != nil && before.Status != c.Status && c.LastTransitionTime.Time.Before(w.now.Truncate(time.Second)) {
			w.Fatalf("%s: the status moved without the time", c.Type)
		}
	}
}

func (w *world) isSidecar(name string) bool {
	c := specOf(w.pod.Spec.InitContainers, name)
	return c != nil && restartpolicy.IsSidecar(c)
}

// checkSent merges as a sender would and checks spec/status.md 8.4, 8.5.
func (w *world) checkSent(now *v1.PodStatus) {
	next := merge(w.sent, now, false, rapid.IntRange(0, 4).Draw(w.T, "could run") == 0, metav1.Time{Time: w.now})
	s := next.status
	if podinfo.Terminal(w.sent.Phase) && s.Phase != w.sent.Phase {
		w.Fatalf("sent phase went from %s to %s", w.sent.Phase, s.Phase)
	}
	if podinfo.Terminal(s.Phase) {
		if !podinfo.Terminal(w.sent.Phase) && anyRunning(s) {
			w.Fatal("terminal with a running container")
		}
		if condition(s, v1.PodReady).Status == v1.ConditionTrue || condition(s, v1.ContainersReady).Status == v1.ConditionTrue {
			w.Fatal("terminal and ready")
		}
	} else if conditionOf(s.Conditions, v1.DisruptionTarget) != nil {
		w.Fatal("DisruptionTarget before the pod has ended")
	}
	seen := map[types.UID]bool{}
	for _, c := range s.Conditions {
		if seen[types.UID(c.Type)] {
			w.Fatalf("two conditions %s", c.Type)
		}
		seen[types.UID(c.Type)] = true
	}
	w.sent = s
}
