package statussink

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
)

// feed is the watch of a server as a source of an engine: the full set after each change,
// as late as lag. It also is what a sink looks pods up in.
type feed struct {
	link   *link
	server *server
	lag    time.Duration
	shown  watched
}

func (f *feed) Name() string                    { return syncloop.SourceAPI }
func (f *feed) Precedence() syncloop.Precedence { return syncloop.PrecedenceAPI }

func (f *feed) Run(ctx context.Context, deliver func(context.Context, []*v1.Pod) error) error {
	last := -1
	for lag := time.Duration(0); ; lag = f.lag {
		if err := timing.Sleep(ctx, clock.RealClock{}, lag); err != nil {
			return err
		}
		if f.link.cut.Load() {
			return errCut // the loop runs the source again
		}
		pods, version := f.server.list()
		if version == last {
			continue
		}
		last = version
		f.shown.replace(pods)
		if err := deliver(ctx, pods); err != nil {
			return err
		}
	}
}

func (w *watched) replace(pods []*v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods = map[types.UID]*v1.Pod{}
	for _, pod := range pods {
		w.pods[pod.UID] = pod
	}
}

// list returns all pods and the version of the last change.
func (s *server) list() ([]*v1.Pod, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.pods)), s.version
}

// link is the way of one agent to its server.
type link struct {
	next http.RoundTripper
	cut  atomic.Bool
}

func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.cut.Load() {
		return nil, errCut
	}
	return l.next.RoundTrip(r)
}

var errCut = errors.New("no route to the API server")

// agent is an engine before a server, which can be ended and started again.
type agent struct {
	t *testing.T
	// connect makes a client, and a source with what it shows, for a new process.
	connect func(l *link) (kubernetes.Interface, syncloop.Source, func(types.UID) *v1.Pod)
	rt      *fake.Runtime
	root    string
	edit    func(*podwright.Config)
	// still waits until all that can be done at this moment is done, so that a kill finds
	// disk and runtime of one moment. Nil in real time.
	still func()
	// link is the way of the present process to the server; down outlives processes.
	link *link
	down bool

	cancel context.CancelFunc
	ended  chan error
}

func newAgent(t *testing.T, s *server, rt *fake.Runtime, edit func(*podwright.Config)) *agent {
	t.Helper()
	connect := func(l *link) (kubernetes.Interface, syncloop.Source, func(types.UID) *v1.Pod) {
		l.next = s
		f := &feed{link: l, server: s, lag: 50 * time.Millisecond}
		return clientOf(t, l), f, f.shown.lookup
	}
	return &agent{t: t, connect: connect, rt: rt, root: t.TempDir(), edit: edit, still: synctest.Wait}
}

func (a *agent) start() {
	a.t.Helper()
	a.link = &link{}
	a.link.cut.Store(a.down)
	client, source, lookup := a.connect(a.link)
	sink, err := New(Options{Client: client, Lookup: lookup})
	if err != nil {
		a.t.Fatal(err)
	}
	config := podwright.Config{
		Runtime: a.rt, Images: a.rt, Sources: []syncloop.Source{source}, RootDir: a.root,
		Node:    podwright.Node{Name: "n1", BootID: "boot"},
		Observe: podwright.Observe{Sinks: []status.StatusSink{sink}},
	}
	if a.edit != nil {
		a.edit(&config)
	}
	engine, err := podwright.New(config)
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(a.t.Context())
	a.cancel, a.ended = cancel, make(chan error, 1)
	go func() { a.ended <- engine.Run(ctx) }()
}

func (a *agent) stop() {
	a.t.Helper()
	a.cancel()
	if err := <-a.ended; err != nil {
		a.t.Error(err)
	}
}

// outage cuts the way to the server, or opens it.
func (a *agent) outage(down bool) {
	a.down = down
	a.link.cut.Store(down)
}

// kill ends the process as kill -9 does: what it does from now on reaches neither the
// server nor the disk.
func (a *agent) kill() {
	a.t.Helper()
	if a.still != nil {
		a.still()
	}
	a.link.cut.Store(true)
	disk := a.t.TempDir()
	if err := os.CopyFS(disk, os.DirFS(a.root)); err != nil {
		a.t.Fatal(err)
	}
	a.stop()
	a.root = disk
}

// within waits until f is true.
func (a *agent) within(d time.Duration, what string, f func() bool) {
	a.t.Helper()
	d = patience.Of(d)
	deadline := time.Now().Add(d)
	for !f() {
		if time.Now().After(deadline) {
			a.t.Fatalf("not within %v: %s", d, what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func runnable(uid types.UID, name string) *v1.Pod {
	pod := aPod(uid, name)
	pod.CreationTimestamp = metav1.Now()
	pod.Spec = v1.PodSpec{
		NodeName: "n1", RestartPolicy: v1.RestartPolicyNever,
		Containers: []v1.Container{{Name: "main", Image: "nginx:1.29"}},
	}
	return pod
}
