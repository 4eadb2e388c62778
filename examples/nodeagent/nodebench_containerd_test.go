//go:build containerd

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/containerdtest"

	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

var (
	benchPods   = flag.Int("node.pods", 8, "pods of TestContainerdNodeBench")
	benchRounds = flag.Int("node.rounds", 1, "rounds of TestContainerdNodeBench")
)

// callRecorder stands before a runtime: it counts the calls and keeps the requests that make, start,
// stop and remove something, in the order in which they were made.
type callRecorder struct {
	*cri.Client
	mu    sync.Mutex
	calls map[string]int
	made  map[types.UID]*madePod
	order []types.UID // in which the pods' sandboxes were asked for
}

// madePod is what was asked for one pod.
type madePod struct {
	sandbox   *runtimeapi.PodSandboxConfig
	handler   string
	container *runtimeapi.ContainerConfig
	timeout   int64

	sandboxID, containerID string
}

var (
	_ cri.RuntimeService = (*callRecorder)(nil)
	_ cri.ImageService   = (*callRecorder)(nil)
	_ cri.EventStreamer  = (*callRecorder)(nil)
)

func newCallRecorder(c *cri.Client) *callRecorder {
	return &callRecorder{Client: c, calls: map[string]int{}, made: map[types.UID]*madePod{}}
}

// note counts a call; with f it changes what is recorded.
func (r *callRecorder) note(method string, f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[method]++
	if f != nil {
		f()
	}
}

// take returns the counts since the last look.
func (r *callRecorder) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = map[string]int{}
	return calls
}

func (r *callRecorder) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	uid := types.UID(config.Metadata.Uid)
	r.note("RunPodSandbox", func() {
		r.order = append(r.order, uid)
		r.made[uid] = &madePod{sandbox: config, handler: handler}
	})
	id, err := r.Client.RunPodSandbox(ctx, config, handler)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made[uid].sandboxID = id
	return id, err
}

func (r *callRecorder) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	uid := types.UID(sandboxConfig.Metadata.Uid)
	r.note("CreateContainer", func() { r.made[uid].container = config })
	id, err := r.Client.CreateContainer(ctx, sandbox, config, sandboxConfig)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made[uid].containerID = id
	return id, err
}

func (r *callRecorder) StartContainer(ctx context.Context, id string) error {
	r.note("StartContainer", nil)
	return r.Client.StartContainer(ctx, id)
}

func (r *callRecorder) StopContainer(ctx context.Context, id string, timeout int64) error {
	r.note("StopContainer", func() {
		for _, m := range r.made {
			if m.containerID == id {
				m.timeout = timeout
			}
		}
	})
	return r.Client.StopContainer(ctx, id, timeout)
}

func (r *callRecorder) StopPodSandbox(ctx context.Context, id string) error {
	r.note("StopPodSandbox", nil)
	return r.Client.StopPodSandbox(ctx, id)
}

func (r *callRecorder) RemoveContainer(ctx context.Context, id string) error {
	r.note("RemoveContainer", nil)
	return r.Client.RemoveContainer(ctx, id)
}

func (r *callRecorder) RemovePodSandbox(ctx context.Context, id string) error {
	defer r.note("RemovePodSandbox", nil)
	return r.Client.RemovePodSandbox(ctx, id)
}

func (r *callRecorder) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	r.note("lists", nil)
	return r.Client.ListPodSandbox(ctx, f)
}

func (r *callRecorder) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	r.note("lists", nil)
	return r.Client.ListContainers(ctx, f)
}

func (r *callRecorder) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.note("PodSandboxStatus", nil)
	return r.Client.PodSandboxStatus(ctx, id, verbose)
}

func (r *callRecorder) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.note("ContainerStatus", nil)
	return r.Client.ContainerStatus(ctx, id, verbose)
}

func (r *callRecorder) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	r.note("ImageStatus", nil)
	return r.Client.ImageStatus(ctx, image, verbose)
}

// runningTimes is a sink that notes when each pod was first told to run.
type runningTimes struct {
	mu sync.Mutex
	at map[types.UID]time.Time
}

func (s *runningTimes) Store(_ context.Context, u status.Update) (status.StoreResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.at[u.UID]; !known && u.Status.Phase == v1.PodRunning {
		s.at[u.UID] = time.Now()
	}
	return status.Stored, nil
}

func (s *runningTimes) Remove(context.Context, types.UID) error { return nil }

// since returns when the pods ran, after began, in order.
func (s *runningTimes) since(began time.Time) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []time.Duration
	for _, at := range s.at {
		all = append(all, at.Sub(began))
	}
	slices.Sort(all)
	return all
}

// nodeRound is what one round measures.
type nodeRound struct {
	start, floorStart, gone, floorGone time.Duration
	startCalls, stopCalls              map[string]int
	startCPU, stopCPU                  time.Duration
	quarters                           [4]time.Duration // when 25, 50, 75 and 100 % of the pods ran
}

// TestContainerdNodeBench (B14, 9.12, 19.7) starts and stops pods on a private containerd, all at once, and then has
// the runtime do the very same once more with nothing in between: the requests that the engine sent for each pod, one
// pod after the other in the same order, as many at a time as the engine makes at a time. make bench-node
// is this with 100 pods and 5 rounds; what it measures is in docs/benchmarks/node.md.
func TestContainerdNodeBench(t *testing.T) {
	n := *benchPods
	containerd := containerdtest.Start(t)
	var rounds []nodeRound
	for i := range *benchRounds {
		r := benchNode(t, containerd, i, n)
		rounds = append(rounds, r)
		t.Logf("round %d: %+v, load %s", i, r, loadAverage())
	}
	printRounds(t, rounds, n)
	for _, r := range rounds {
		for method, want := range map[string]int{
			"RunPodSandbox": n, "CreateContainer": n, "StartContainer": n, "PodSandboxStatus": n, "ContainerStatus": n,
		} {
			if got := r.startCalls[method]; got > want+n/4 { // a list may come in between, or a call fail
				t.Errorf("%d calls of %s to start %d pods", got, method, n)
			}
		}
		for _, method := range []string{"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"} {
			if got := r.stopCalls[method]; got > n+n/4 {
				t.Errorf("%d calls of %s to stop %d pods", got, method, n)
			}
		}
	}
}

// benchNode is one round.
func benchNode(t *testing.T, containerd *containerdtest.Instance, round, n int) (out nodeRound) {
	client, err := cri.Dial(t.Context(), containerd.Endpoint, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	rt, times, root := newCallRecorder(client), &runningTimes{at: map[types.UID]time.Time{}}, t.TempDir()
	pods := source.NewChannel(source.ChannelOptions{NodeName: "n1", MaxPods: -1})
	engine, err := podwright.New(podwright.Config{
		Runtime: rt, Images: rt, Sources: []syncloop.Source{pods}, RootDir: root, Node: podwright.Node{Name: "n1"},
		Storage: podwright.Storage{LogDir: filepath.Join(root, "logs")},
		Observe: podwright.Observe{Sinks: []status.StatusSink{times}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	defer stop()
	set := func(list []*v1.Pod) {
		if err := pods.Set(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	set(nil)
	<-engine.Ready()
	rt.take()

	wanted := benchPodsOf(round, n, containerd.Image)
	began, cpu := time.Now(), processCPU(t)
	set(wanted)
	until(t, "all pods to run", func() bool { return len(times.since(began)) == n })
	ran := times.since(began)
	out.start, out.startCPU, out.startCalls = ran[n-1], processCPU(t)-cpu, rt.take()
	for i := range out.quarters {
		out.quarters[i] = ran[max((i+1)*n/4, 1)-1]
	}
	saved := t.TempDir() // mounts of the containers come from the pods' folders
	for _, folder := range []string{"pods", "logs"} {
		copyTree(t, filepath.Join(root, folder), saved)
	}
	<-time.After(3 * time.Second) // what the start led to has come to an end
	rt.take()

	began, cpu = time.Now(), processCPU(t)
	set(nil)
	removed := 0
	until(t, "no sandbox", func() bool {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		removed = rt.calls["RemovePodSandbox"]
		return removed >= n
	})
	out.gone, out.stopCPU, out.stopCalls = time.Since(began), processCPU(t)-cpu, rt.take()
	until(t, "the pods' folders to go", func() bool {
		left, _ := os.ReadDir(filepath.Join(root, "pods"))
		return len(left) == 0
	})
	for _, folder := range []string{"pods", "logs"} {
		copyTree(t, filepath.Join(saved, folder), root)
	}
	stop() // it would take the pods for left over
	out.floorStart, out.floorGone = replayCalls(t, client, rt)
	return out
}

// replayCalls has the runtime do what the engine asked for, and returns what that took.
func replayCalls(t *testing.T, client *cri.Client, rt *callRecorder) (start, gone time.Duration) {
	ctx := t.Context()
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	turns := make(chan struct{}, max(4, 2*goruntime.GOMAXPROCS(0))) // as Pods.MaxRuntimeWork
	var all sync.WaitGroup
	began := time.Now()
	for _, uid := range rt.order {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			m, err := rt.made[uid], error(nil)
			m.sandboxID, err = client.RunPodSandbox(ctx, m.sandbox, m.handler)
			check(err)
			m.containerID, err = client.CreateContainer(ctx, m.sandboxID, m.container, m.sandbox)
			check(err)
			check(client.StartContainer(ctx, m.containerID))
		})
	}
	all.Wait()
	start = time.Since(began)
	<-time.After(3 * time.Second)
	began = time.Now()
	for _, uid := range rt.order { // stops have no limit in the engine
		all.Go(func() {
			m := rt.made[uid]
			check(client.StopContainer(ctx, m.containerID, m.timeout))
			check(client.StopPodSandbox(ctx, m.sandboxID))
			check(client.RemoveContainer(ctx, m.containerID))
			check(client.RemovePodSandbox(ctx, m.sandboxID))
		})
	}
	all.Wait()
	return start, time.Since(began)
}

func benchPodsOf(round, n int, image string) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("bench-%d-%03d", round, i)
		pods[i] = &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
			Spec: v1.PodSpec{
				TerminationGracePeriodSeconds: ptr.To[int64](10),
				Containers: []v1.Container{{
					Name: "main", Image: image, ImagePullPolicy: v1.PullIfNotPresent,
					Command: []string{"/bin/sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"},
				}},
			},
		}
	}
	return pods
}

// until waits for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); !done(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// processCPU is the CPU time of this process, in user and kernel mode.
func processCPU(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// printRounds prints the medians as a table.
func printRounds(t *testing.T, rounds []nodeRound, n int) {
	median := func(of func(r nodeRound) float64) float64 {
		var all []float64
		for _, r := range rounds {
			all = append(all, of(r))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	row := func(what, format string, values ...any) { t.Logf("| %s | %s |", what, fmt.Sprintf(format, values...)) }
	seconds := func(of func(r nodeRound) time.Duration) float64 {
		return median(func(r nodeRound) float64 { return of(r).Seconds() })
	}
	calls := func(method string, stops bool) float64 {
		return median(func(r nodeRound) float64 {
			if stops {
				return float64(r.stopCalls[method]) / float64(n)
			}
			return float64(r.startCalls[method]) / float64(n)
		})
	}
	t.Logf("%d pods of one container, medians of %d rounds:", n, len(rounds))
	row("all running, floor", "%.2f s, %.2f s", seconds(func(r nodeRound) time.Duration { return r.start }), seconds(func(r nodeRound) time.Duration { return r.floorStart }))
	row("all running / floor", "%.2f", median(func(r nodeRound) float64 { return r.start.Seconds() / r.floorStart.Seconds() }))
	row("sandboxes gone, floor", "%.2f s, %.2f s", seconds(func(r nodeRound) time.Duration { return r.gone }), seconds(func(r nodeRound) time.Duration { return r.floorGone }))
	row("sandboxes gone / floor", "%.2f", median(func(r nodeRound) float64 { return r.gone.Seconds() / r.floorGone.Seconds() }))
	row("25, 50, 75, 100 % run", "%.2f, %.2f, %.2f, %.2f s", seconds(func(r nodeRound) time.Duration { return r.quarters[0] }), seconds(func(r nodeRound) time.Duration { return r.quarters[1] }),
		seconds(func(r nodeRound) time.Duration { return r.quarters[2] }), seconds(func(r nodeRound) time.Duration { return r.quarters[3] }))
	row("list calls per start, per stop", "%.2f, %.2f", calls("lists", false), calls("lists", true))
	for _, m := range []string{"PodSandboxStatus", "ContainerStatus", "ImageStatus", "StopContainer", "StopPodSandbox"} {
		row(m+" per start, per stop", "%.2f, %.2f", calls(m, false), calls(m, true))
	}
	row("agent CPU to start, to stop", "%.2f s, %.2f s", seconds(func(r nodeRound) time.Duration { return r.startCPU }), seconds(func(r nodeRound) time.Duration { return r.stopCPU }))
}
