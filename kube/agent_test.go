package kube

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/kube/node"
	"github.com/podwright/podwright/kube/objects"
	"github.com/podwright/podwright/kube/server"
	runtimefake "github.com/podwright/podwright/runtime/fake"
)

func newConfig(t *testing.T) podwright.Config {
	runtime := runtimefake.New(runtimefake.Options{})
	return podwright.Config{Runtime: runtime, Images: runtime, RootDir: filepath.Join(t.TempDir(), "root"), Node: podwright.Node{Name: "edge-1"}}
}

// TestFillsWhatIsEmpty: fields that an agent set stay, the others are filled.
func TestFillsWhatIsEmpty(t *testing.T) {
	own, err := objects.New(objects.Options{Client: fake.NewClientset()})
	if err != nil {
		t.Fatal(err)
	}
	c := newConfig(t)
	c.Pods.Objects = own
	if _, err := New(Options{Config: &rest.Config{Host: "https://api.example"}, Local: true}, &c); err != nil {
		t.Fatal(err)
	}
	if c.Pods.Objects != any(own) || c.Mirrors.Client != nil {
		t.Error("a field of the agent's own was replaced")
	}
	if len(c.Sources) != 1 || len(c.Observe.Sinks) != 1 || c.Observe.Events == nil || c.NodeHooks.Register == nil || c.Node.Object == nil ||
		c.Pods.Services == nil || c.Pods.RuntimeClasses == nil || c.Pods.Projections.Token == nil {
		t.Errorf("not everything was filled: %+v", c)
	}
}

// TestBadOptions: every problem is named.
func TestBadOptions(t *testing.T) {
	c := newConfig(t)
	c.Node.Name = ""
	_, err := New(Options{WhenGone: "Dance", Node: node.Options{Reconnect: func() {}}}, &c)
	for _, want := range []string{"no Config", "Dance", "Node.Reconnect", "Node.Name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// engine is one that runs until it is told to stop.
type engine struct {
	server.Engine
	drained bool
	ran     chan struct{}
}

func (e *engine) Run(ctx context.Context) error {
	close(e.ran)
	<-ctx.Done()
	return nil
}
func (e *engine) Drain(context.Context) error    { e.drained = true; return nil }
func (e *engine) Pods() []v1.Pod                 { return nil }
func (e *engine) ObjectChanged(podwright.Object) {}

// TestRunLeavesNothing (KW2): with an API server that cannot be reached, Run ends with its
// context and leaves no goroutine.
func TestRunLeavesNothing(t *testing.T) {
	c := newConfig(t)
	a, err := New(Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}}, &c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e := &engine{ran: make(chan struct{})}
	ended := make(chan error)
	go func() { ended <- a.Run(ctx, e) }()
	<-e.ran
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLeave (KN7): with the policies Drain and Exit a Node that is gone ends Run.
func TestLeave(t *testing.T) {
	for _, policy := range []Policy{Drain, Exit} {
		e := &engine{}
		a := &Agent{options: Options{WhenGone: policy}}
		if err := a.leave(t.Context(), e); !errors.Is(err, ErrNodeGone) || e.drained != (policy == Drain) {
			t.Errorf("%s: drained %t, %v", policy, e.drained, err)
		}
	}
}
