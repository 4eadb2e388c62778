package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	enginenode "github.com/podwright/podwright/internal/node"
)

// rig is an API server, a registrar, and the engine's caller of its hooks.
type rig struct {
	t       *testing.T
	api     *fake.Clientset
	state   engineState
	runtime *cri

	mu sync.Mutex
	// uids counts the Nodes that were created.
	uids int
	// reconnects counts calls of Options.Reconnect.
	reconnects int
	events     []string
	// away is what the API server's calls fail with while it is away.
	away error
}

// engineState is a node that is ready, as the engine sees it.
type engineState struct{ made time.Time }

func (engineState) Ready() error { return nil }

func (s engineState) Conditions(last []v1.NodeCondition) []v1.NodeCondition {
	now := metav1.Now()
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}
	for _, l := range last {
		ready.LastTransitionTime = l.LastTransitionTime
	}
	return []v1.NodeCondition{ready}
}

// cri is a runtime with some images.
type cri struct {
	mu     sync.Mutex
	images []*runtimeapi.Image
	deaf   bool
}

func (c *cri) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "2.1.4"}, nil
}

func (c *cri) Status(context.Context, bool) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{RuntimeHandlers: []*runtimeapi.RuntimeHandler{
		{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}},
		{Name: ""},
	}}, nil
}

func (c *cri) ListImages(ctx context.Context, _ *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	c.mu.Lock()
	deaf, images := c.deaf, c.images
	c.mu.Unlock()
	if deaf {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return images, nil
}

func (c *cri) add(image *runtimeapi.Image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images = append(c.images[:len(c.images):len(c.images)], image)
}

// Eventf implements [EventRecorder].
func (r *rig) Eventf(_ apiruntime.Object, _, reason, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, reason+": "+fmt.Sprintf(format, args...))
}

var errAway = errors.New("connection refused")

// newRig returns an API server with objects, which gives each Node that is created a UID.
func newRig(t *testing.T, objects ...apiruntime.Object) *rig {
	r := &rig{t: t, api: fake.NewClientset(objects...), runtime: &cri{}, state: engineState{time.Now()}}
	r.api.PrependReactor("create", "nodes", func(a clienttesting.Action) (bool, apiruntime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.uids++
		a.(clienttesting.CreateAction).GetObject().(*v1.Node).UID = types.UID(fmt.Sprintf("node-%d", r.uids))
		return false, nil, nil
	})
	r.api.PrependReactor("*", "*", func(clienttesting.Action) (bool, apiruntime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.away != nil, nil, r.away
	})
	return r
}

// start runs a registrar and the engine's caller until the test ends, or stop is called.
func (r *rig) start(set func(o *Options)) (registrar *Registrar, stop func()) {
	o := Options{
		Name: "edge-1", Client: r.api, Runtime: r.runtime, Images: r.runtime, Events: r,
		Info: v1.NodeSystemInfo{MachineID: "this", SystemUUID: "this"},
		Reconnect: func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reconnects++
		},
	}
	if set != nil {
		set(&o)
	}
	registrar, err := New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	hooks := registrar.Hooks()
	hooks.Rand = func() float64 { return 0 }
	caller := enginenode.NewHooks(enginenode.HookOptions{Hooks: hooks, State: r.state, Clock: clock.RealClock{}})
	ctx, cancel := context.WithCancel(r.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = registrar.Run(ctx) })
	wg.Go(func() { _ = caller.Run(ctx) })
	stop = func() { cancel(); wg.Wait() }
	r.t.Cleanup(stop)
	return registrar, stop
}

// node reads the Node as the API server has it, past every fault.
func (r *rig) node() *v1.Node {
	r.t.Helper()
	object, err := r.api.Tracker().Get(v1.SchemeGroupVersion.WithResource("nodes"), "", "edge-1")
	if err != nil {
		r.t.Fatal(err)
	}
	return object.(*v1.Node)
}

func (r *rig) deleteNode() {
	r.t.Helper()
	if err := r.api.Tracker().Delete(v1.SchemeGroupVersion.WithResource("nodes"), "", "edge-1"); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) setAway(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = err
}

// count counts the calls so far of a verb on a resource, such as "patch nodes/status".
func (r *rig) count(call string) (n int) {
	for _, a := range r.api.Actions() {
		resource := a.GetResource().Resource
		if sub := a.GetSubresource(); sub != "" {
			resource += "/" + sub
		}
		if a.GetVerb()+" "+resource == call {
			n++
		}
	}
	return n
}

// after lets time pass.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
