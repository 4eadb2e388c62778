package node

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cleanup/eviction"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/problem"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/mirror"
)

// MirrorClient wraps a client for mirror pods, or returns nil for nil. A call that ignores the end
// of its context is left behind, and only its mirror pod waits for it.
func (u Users) MirrorClient(client mirror.Client) mirror.Client {
	if client == nil {
		return nil
	}
	return userMirrors{u, client}
}

type userMirrors struct {
	users  Users
	client mirror.Client
}

var _ mirror.Client = userMirrors{}

func (m userMirrors) call(method, namespace, name string) foreign.Call {
	return foreign.Call{Kind: problem.Function, Name: "Mirrors.Client." + method, Object: namespace + "/" + name, Patience: problem.HookLimit}
}

func (m userMirrors) Create(ctx context.Context, pod *v1.Pod) error {
	_, err := foreign.Ask(ctx, m.users.Calls, m.call("Create", pod.Namespace, pod.Name), foreign.Limits{},
		func(ctx context.Context) (struct{}, error) { return struct{}{}, m.client.Create(ctx, pod) })
	return err
}

func (m userMirrors) Get(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	return foreign.Ask(ctx, m.users.Calls, m.call("Get", namespace, name), foreign.Limits{},
		func(ctx context.Context) (*v1.Pod, error) {
			pod, err := m.client.Get(ctx, namespace, name)
			if pod == nil && err == nil {
				err = mirror.ErrNotFound
			}
			return pod, err
		})
}

func (m userMirrors) Delete(ctx context.Context, namespace, name string, uid types.UID) error {
	_, err := foreign.Ask(ctx, m.users.Calls, m.call("Delete", namespace, name), foreign.Limits{},
		func(ctx context.Context) (struct{}, error) {
			return struct{}{}, m.client.Delete(ctx, namespace, name, uid)
		})
	return err
}

// NodeGetter wraps the function that returns the node of mirror pods, or returns nil for nil. While
// the function does not answer, the node is not known.
func (u Users) NodeGetter(get mirror.NodeGetter) mirror.NodeGetter {
	if get == nil {
		return nil
	}
	return func() *v1.Node {
		node, _ := foreign.Quick(u.Calls, foreign.Call{Kind: problem.Function, Name: "Mirrors.Node", Patience: problem.FunctionLimit},
			nil, func() (*v1.Node, error) { return get(), nil })
		return node
	}
}

// Stats wraps what reports how full the node is, or returns nil for nil. A pod that is not reported
// within 10 s counts as using nothing.
func (u Users) Stats(stats eviction.Stats) eviction.Stats {
	if stats == nil {
		return nil
	}
	return userStats{u, stats}
}

// statsLate is how long stats may take to say what they have read once their context has ended; package
// eviction waits a little longer.
const statsLate = 400 * time.Millisecond

type userStats struct {
	users Users
	stats eviction.Stats
}

func (s userStats) Node(ctx context.Context) (map[eviction.Signal]eviction.Observation, error) {
	call := foreign.Call{Kind: problem.Function, Name: "Eviction.Stats.Node", Patience: problem.FunctionLimit}
	return foreign.Ask(ctx, s.users.Calls, call, foreign.Limits{Wait: problem.FunctionLimit, Late: statsLate}, s.stats.Node)
}

func (s userStats) Pod(ctx context.Context, pod *v1.Pod, signal eviction.Signal) (eviction.Usage, error) {
	call := foreign.Call{
		Kind: problem.Function, Name: "Eviction.Stats.Pod", UID: pod.UID, Pod: problem.Of(pod.Namespace, pod.Name, pod.UID), Object: string(signal),
		Patience: problem.FunctionLimit,
	}
	limits := foreign.Limits{Wait: problem.FunctionLimit, Late: statsLate, Bounded: true}
	return foreign.Ask(ctx, s.users.Calls, call, limits, func(ctx context.Context) (eviction.Usage, error) {
		return s.stats.Pod(ctx, pod, signal)
	})
}

// Services wraps a lister of services, or returns nil for nil. Services are unknown until it answers.
func (u Users) Services(lister pods.ServiceLister) pods.ServiceLister {
	if lister == nil {
		return nil
	}
	return userServices{u, lister}
}

type userServices struct {
	users  Users
	lister pods.ServiceLister
}

func (s userServices) Services(namespace string) ([]*v1.Service, bool) {
	type answer struct {
		services []*v1.Service
		synced   bool
	}
	call := foreign.Call{Kind: problem.Function, Name: "Pods.Services", Object: namespace, Patience: problem.FunctionLimit}
	got, _ := foreign.Quick(s.users.Calls, call, nil, func() (a answer, _ error) {
		a.services, a.synced = s.lister.Services(namespace)
		return a, nil
	})
	return got.services, got.synced
}

// RuntimeClasses wraps a getter of runtime classes, or returns nil for nil.
func (u Users) RuntimeClasses(getter pods.RuntimeClassGetter) pods.RuntimeClassGetter {
	if getter == nil {
		return nil
	}
	return userClasses{u, getter}
}

type userClasses struct {
	users  Users
	getter pods.RuntimeClassGetter
}

func (c userClasses) RuntimeClass(name string) (pods.RuntimeClass, error) {
	call := foreign.Call{Kind: problem.Function, Name: "Pods.RuntimeClasses", Object: name, Patience: problem.FunctionLimit}
	return foreign.Quick(c.users.Calls, call, nil, func() (pods.RuntimeClass, error) { return c.getter.RuntimeClass(name) })
}

// SandboxReady returns a function to be called with new sandboxes. It calls show, which must not block (spec/status.md 5.4),
// and then the program's function unless that is nil. The pod waits for the latter as long as its step lasts.
func (u Users) SandboxReady(show func(uid types.UID), ready func(ctx context.Context, uid types.UID, ips []string)) func(ctx context.Context, uid types.UID, ips []string) {
	return func(ctx context.Context, uid types.UID, ips []string) {
		show(uid)
		if ready == nil {
			return
		}
		call := foreign.Call{Kind: problem.Function, Name: "Pods.SandboxReady", UID: uid, Patience: problem.FunctionLimit}
		_, _ = foreign.Ask(ctx, u.Calls, call, foreign.Limits{}, func(ctx context.Context) (struct{}, error) { // a panic is listed
			ready(ctx, uid, ips)
			return struct{}{}, nil
		})
	}
}
