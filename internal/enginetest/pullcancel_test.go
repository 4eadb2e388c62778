package enginetest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// cancelPods is the number of pods that each engine of TestDeleteDuringPull has.
const cancelPods = 100

// TestDeleteDuringPull: pods of every kind are deleted at a random moment while they wait for an
// image that never comes. Each is gone within a second, and nothing more is made or started for it,
// over 10,000 random schedules in virtual time (300 with the race detector or -short).
func TestDeleteDuringPull(t *testing.T) {
	schedules := 10_000
	if raceDetector || testing.Short() {
		schedules = 300
	}
	dir := memoryDir(t)
	var stuck atomic.Int64
	t.Run("engines", func(t *testing.T) {
		for engine := range schedules / cancelPods {
			t.Run(strconv.Itoa(engine), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { stuck.Add(deleteDuringPull(t, dir, uint64(engine))) })
			})
		}
	})
	t.Logf("%d schedules; in %d the pull hung at that moment", schedules, stuck.Load())
	if stuck.Load() < int64(schedules/2) {
		t.Error("too few pods were waiting for their image")
	}
}

// memoryDir returns a temporary folder, in memory where the machine allows it: the test is about
// calls, not about the disk.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "podwright-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// deletion is one pod with the times at which it is added and removed.
type deletion struct {
	pod *v1.Pod
	// own is true if no other container waits for its image.
	own         bool
	add, remove time.Duration
	removed     time.Time
	seen        int // number of calls before the removal
	waited      bool
}

// deleteDuringPull plays one engine's schedules and returns how many pods were deleted while their
// pull hung.
func deleteDuringPull(t *testing.T, dir string, engine uint64) (stuck int64) {
	random := rand.New(rand.NewPCG(engine, 4))
	rt := fake.New(fake.Options{
		Images: []fake.Image{{Ref: "here:1"}},
		Registry: func(string, *runtimeapi.AuthConfig) fake.Pull {
			return fake.Pull{Took: 1000 * time.Hour}
		},
		AbandonStopOnCancel: random.IntN(2) == 0,
	})
	for _, m := range []fake.Method{fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer, fake.ImageStatus, fake.StopPodSandbox, fake.StopContainer} {
		rt.Inject(fake.Fault{Match: fake.Match{Method: m}, Effect: fake.Effect{Delay: time.Duration(random.IntN(20)) * time.Millisecond}})
	}
	r := newRig(t, rt, filepath.Join(dir, strconv.FormatUint(engine, 10))).start()
	all := make([]*deletion, cancelPods)
	var moments []moment
	for i := range all {
		d := randomDeletion(random, i)
		all[i] = d
		moments = append(moments,
			moment{d.add, func() { r.apply(d.pod) }},
			moment{d.remove, func() { d.begin(r) }},
			moment{d.remove + time.Second, func() { d.checkGone(r) }})
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return int(a.at - b.at) })
	began := time.Now()
	for _, m := range moments {
		<-time.After(m.at - time.Since(began))
		m.do()
	}
	r.empty(time.Minute)
	calls := map[types.UID][]fake.Call{}
	for _, c := range rt.Calls(fake.Match{}) {
		calls[c.PodUID] = append(calls[c.PodUID], c)
	}
	for _, d := range all {
		d.checkCalls(t, calls[d.pod.UID])
		if d.waited {
			stuck++
		}
	}
	return stuck
}

// moment is an action at a time.
type moment struct {
	at time.Duration
	do func()
}

func (r *rig) apply(pod *v1.Pod) {
	if err := r.source.Apply(r.t.Context(), []*v1.Pod{pod}); err != nil {
		r.t.Error(err)
	}
}

// randomDeletion makes a pod that cannot start completely, and the times at which it is added and removed.
func randomDeletion(random *rand.Rand, i int) *deletion {
	d := &deletion{pod: newPod(fmt.Sprint("p", i)), own: random.IntN(4) > 0}
	image := "shared:1"
	if d.own {
		image = fmt.Sprintf("own-%d:1", i)
	}
	spec := &d.pod.Spec
	spec.Containers[0].Image = image
	spec.Containers[0].ImagePullPolicy = []v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent}[random.IntN(2)]
	running := v1.Container{Name: "running", Image: "here:1", ImagePullPolicy: v1.PullIfNotPresent}
	switch random.IntN(4) {
	case 0:
		spec.Containers = append([]v1.Container{running}, spec.Containers...)
	case 1:
		spec.Containers = append(spec.Containers, running)
	case 2:
		running.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		spec.InitContainers = []v1.Container{running}
	case 3:
		spec.InitContainers, spec.Containers = spec.Containers, []v1.Container{running}
	}
	spec.TerminationGracePeriodSeconds = ptr.To(int64(random.IntN(60)))
	d.add = time.Duration(random.IntN(3_000_000)) * time.Microsecond
	d.remove = d.add + time.Duration(random.IntN(2_000_000))*time.Microsecond
	return d
}

// begin deletes the pod.
func (d *deletion) begin(r *rig) {
	calls := r.runtime.Calls(fake.Match{PodUID: d.pod.UID})
	if len(calls) > 0 {
		last := calls[len(calls)-1]
		d.waited = !last.Done && last.Method == fake.PullImage
	}
	d.seen, d.removed = r.runtime.CallCount(""), time.Now()
	if err := r.source.Apply(r.t.Context(), nil, d.pod.UID); err != nil {
		r.t.Error(err)
	}
}

// checkGone checks that nothing of the pod runs.
func (d *deletion) checkGone(r *rig) {
	synctest.Wait()
	label := map[string]string{runtime.LabelPodUID: string(d.pod.UID)}
	sandboxes, err := r.runtime.ListPodSandbox(r.t.Context(), &runtimeapi.PodSandboxFilter{
		LabelSelector: label, State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err != nil || len(sandboxes) > 0 {
		r.t.Errorf("%s: %d sandboxes are ready a second after its deletion, err %v", d.pod.Name, len(sandboxes), err)
	}
	for _, name := range []string{"main", "running"} {
		if r.runtime.Facts(d.pod.UID, name).Running > 0 {
			r.t.Errorf("%s: container %s runs a second after its deletion", d.pod.Name, name)
		}
	}
}

// checkCalls checks that no call makes anything after the deletion.
func (d *deletion) checkCalls(t *testing.T, calls []fake.Call) {
	for _, c := range calls {
		switch c.Method {
		case fake.RunPodSandbox, fake.CreateContainer, fake.StartContainer, fake.PullImage:
		default:
			continue
		}
		// At the very moment of its deletion a pod may still make a call, unless it was waiting for
		// its image.
		if late := c.Start.After(d.removed) || (d.waited && c.Seq > d.seen); late {
			t.Errorf("%s: %s %s %v after its deletion", d.pod.Name, c.Method, c.Container, c.Start.Sub(d.removed))
		}
	}
}
