package enginetest_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cleanup"
	"github.com/podwright/podwright/internal/checkpointtest"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/syncloop/admission"
)

// crowdNode is everything that an engine uses: the runtime, the disk, the registry, and the user's
// functions. Each of them looks up the ailment of the pod for which it is called.
type crowdNode struct {
	root   string
	rt     *fake.Runtime
	disk   *checkpointtest.Disk
	ill    map[types.UID]*ailment // never changes
	healed chan struct{}          // closed when all trouble ends

	mu      sync.Mutex
	ready   bool // what the good pods' probes say
	mounted map[types.UID]bool
	told    map[types.UID]*crowdTale
	// filling are the pods that may have data on the disk.
	filling []types.UID
}

// crowdTale is what the sink heard about a pod: when it first ran, and when its readiness changed.
type crowdTale struct {
	running time.Time
	ready   []readyTurn
}

type readyTurn struct {
	at    time.Time
	ready bool
}

func newCrowdNode(root string, ill map[types.UID]*ailment) *crowdNode {
	n := &crowdNode{
		root: root, disk: &checkpointtest.Disk{}, ill: ill, healed: make(chan struct{}),
		ready: true, mounted: map[types.UID]bool{}, told: map[types.UID]*crowdTale{},
	}
	n.rt = fake.New(fake.Options{Script: n.script, Registry: n.pull, Images: []fake.Image{{Ref: "app:1"}, {Ref: "app:2"}}})
	about := func(methods func(*ailment) []fake.Method) fake.Match {
		return fake.Match{Func: func(c fake.Call) bool {
			a := n.of(c.PodUID)
			if a == nil {
				return false
			}
			for _, m := range methods(a) {
				if m == c.Method {
					return true
				}
			}
			return false
		}}
	}
	n.rt.Inject(
		fake.Fault{Match: about(func(a *ailment) []fake.Method { return a.hangs }), Effect: fake.Effect{Hang: true}},
		fake.Fault{Match: about(func(a *ailment) []fake.Method { return a.slow }), Effect: fake.Effect{Delay: 30 * time.Second}},
	)
	return n
}

// of returns the ailment that a pod has now, nil if it has none.
func (n *crowdNode) of(uid types.UID) *ailment {
	a := n.ill[uid]
	if a == nil || n.well() {
		return nil
	}
	return a
}

func (n *crowdNode) well() bool {
	select {
	case <-n.healed:
		return true
	default:
		return false
	}
}

// configure makes the engine use the node.
func (n *crowdNode) configure(c *podwright.Config) {
	c.Checkpoints.Store = checkpoint.NewFiles(&checkpointtest.Points{FS: n.disk, Before: n.write, OnRead: n.read})
	c.Observe.Sinks = []status.StatusSink{n}
	c.Pods.Volumes = n
	c.Outbound.Dial = n.dial
	c.Cleanup.Rates = cleanup.Rates{Containers: -1, Directories: -1} // all pods share these
	c.Cleanup.Veto = n.veto
	c.Admission.Handlers = []admission.Handler{admission.HandlerFunc(n.admit)}
}

// pull answers for an image that is named after its pod, or for one of a good pod.
func (n *crowdNode) pull(ref string, _ *runtimeapi.AuthConfig) fake.Pull {
	name, _, _ := strings.Cut(strings.TrimPrefix(ref, "own/"), ":")
	if a := n.of(types.UID("uid-" + name)); a != nil && a.pull != nil {
		return *a.pull
	}
	return fake.Pull{Took: 100 * time.Millisecond}
}

// record reports how the disk takes the record of the pod that a file is named after.
func (n *crowdNode) record(file string) *ailment {
	uid, _, _ := strings.Cut(file, ".")
	return n.of(types.UID(uid))
}

func (n *crowdNode) write(op checkpointtest.Op) error {
	if a := n.record(op.Name); a != nil && a.write != nil {
		return a.write
	}
	if (op.Kind == "write" || op.Kind == "rename") && n.full() {
		return syscall.ENOSPC
	}
	return nil
}

func (n *crowdNode) read(file string) error {
	if a := n.record(file); a != nil {
		return a.read
	}
	return nil
}

// full reports whether a pod's data fills the disk.
func (n *crowdNode) full() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.filling) > 0 {
		if _, err := os.Stat(scratchFile(n.root, n.filling[0])); err == nil {
			return true
		}
		n.filling = n.filling[1:] // data that is gone does not come back
	}
	return false
}

// fills records that a pod's data fills the disk from now on.
func (n *crowdNode) fills(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.filling = append(n.filling, uid)
}

// Store implements [status.StatusSink].
func (n *crowdNode) Store(ctx context.Context, u status.Update) (status.StoreResult, error) {
	if a := n.of(u.UID); a != nil && a.sinkHangs {
		return 0, n.hang(ctx)
	} else if a != nil && a.sink != nil {
		return 0, a.sink
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.told[u.UID]
	if t == nil {
		t = &crowdTale{}
		n.told[u.UID] = t
	}
	if u.Status.Phase == v1.PodRunning && t.running.IsZero() {
		t.running = time.Now()
	}
	if now := podReady(u.Status); len(t.ready) == 0 && now || len(t.ready) > 0 && t.ready[len(t.ready)-1].ready != now {
		t.ready = append(t.ready, readyTurn{time.Now(), now})
	}
	return status.Stored, nil
}

func podReady(s *v1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// taleOf returns what the sink heard about a pod.
func (n *crowdNode) taleOf(uid types.UID) crowdTale {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.told[uid]; t != nil {
		return *t
	}
	return crowdTale{}
}

// Handles implements [pods.VolumeManager].
func (n *crowdNode) Handles(_ *v1.Pod, volume *v1.Volume) bool { return volume.Name == "far" }

// SetUp implements [pods.VolumeManager].
func (n *crowdNode) SetUp(ctx context.Context, pod *v1.Pod, _ *v1.Volume) (pods.MountedVolume, error) {
	if a := n.of(pod.UID); a != nil && a.mount {
		return pods.MountedVolume{}, n.hang(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mounted[pod.UID] = true
	return pods.MountedVolume{HostPath: n.root}, nil
}

// TearDown implements [pods.VolumeManager].
func (n *crowdNode) TearDown(ctx context.Context, uid types.UID) error {
	if a := n.of(uid); a != nil && a.unmount {
		return n.hang(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mounted, uid)
	return nil
}

// Mounted implements [pods.VolumeManager].
func (n *crowdNode) Mounted(_ context.Context, uid types.UID) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mounted[uid] {
		return []string{"far"}, nil
	}
	return nil, nil
}

// hang waits until a context ends or all is well.
func (n *crowdNode) hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-n.healed:
		return errors.New("it took too long")
	}
}

// admit is a user's admission handler: it has no context.
func (n *crowdNode) admit(r admission.Request) admission.Verdict {
	switch a := n.of(r.Pod.UID); {
	case a == nil:
	case a.panics:
		panic("no policy for " + r.Pod.Name)
	case a.undecided:
		<-n.healed
	}
	return admission.Verdict{}
}

// veto is a user's veto: it has no context either.
func (n *crowdNode) veto(action cleanup.Action) error {
	if a := n.of(action.PodUID); a != nil && a.vetoing {
		<-n.healed
	}
	return nil
}

// dial connects an HTTP probe to its pod.
func (n *crowdNode) dial(_ context.Context, uid types.UID, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	go n.answer(server, uid)
	return client, nil
}

// answer is a pod's HTTP server. It ends with the connection.
func (n *crowdNode) answer(conn net.Conn, uid types.UID) {
	defer conn.Close() //nolint:errcheck // a pipe
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		return
	}
	text := "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nOK"
	if !n.probes() {
		text = strings.Replace(text, "200 OK", "503 No", 1)
	}
	if a := n.of(uid); a == nil || !a.drips {
		_, _ = conn.Write([]byte(text)) // the caller may have left
		return
	}
	for i := range text {
		if _, err := conn.Write([]byte{text[i]}); err != nil {
			return
		}
		<-time.After(time.Second)
	}
}

// probes returns what the good pods' probes say.
func (n *crowdNode) probes() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready
}

func (n *crowdNode) setProbes(ready bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready = ready
}
