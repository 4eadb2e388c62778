package programs_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/podsync"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/status"
)

// partsAgent is an agent for one pod without an Engine: pleg reads the runtime, the workers decide, podsync and runtime/pods act, and the status manager tells.
type partsAgent struct {
	pleg    *pleg.Generator
	status  *status.Manager
	sink    *status.ChannelSink
	calls   *podsync.Calls
	syncer  *podsync.Syncer
	workers *podworkers.Workers
}

func newPartsAgent(rt *fake.Runtime, root string) (*partsAgent, error) {
	a, sequence := &partsAgent{sink: status.NewChannelSink(0)}, &runtime.Sequence{}
	var unread error
	a.pleg, unread = pleg.New(rt, pleg.Options{Sequence: sequence})
	a.status = status.NewManager(status.Options{Sinks: []status.StatusSink{a.sink}})
	a.calls = podsync.NewCalls(rt, podsync.CallOptions{Cache: a.pleg}) // so that what was done is read again
	manager, unmade := pods.New(a.calls, rt, pods.Options{RootDir: root, LogDir: root + "/logs", Reader: a.calls, Sequence: sequence})
	a.syncer = podsync.New(manager, a.pleg, a.status, podsync.Options{
		Calls: a.calls, Content: manager,
		Removable: func(uid types.UID) bool { return a.workers.ShouldPodContentBeRemoved(uid) },
	})
	a.workers = podworkers.New(a.syncer, podworkers.Options{Views: a.pleg})
	return a, errors.Join(unread, unmade)
}

// run serves until ctx ends, the calls until the workers have ended. When the runtime shows a change, the pod is looked at again.
func (a *partsAgent) run(ctx context.Context, desired *v1.Pod) error {
	changes := a.pleg.Subscribe()
	defer changes.Close()
	var parts, calls sync.WaitGroup
	var ends [4]error
	needed, over := context.WithCancel(context.WithoutCancel(ctx))
	defer func() { over(); calls.Wait() }()
	calls.Go(func() { _ = a.calls.Run(needed) })
	for i, part := range []func(context.Context) error{a.pleg.Run, a.status.Run, a.syncer.Run, a.workers.Run} {
		parts.Go(func() { ends[i] = part(ctx) })
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-changes.Ready():
			if len(changes.Take()) > 0 {
				a.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Sync, Pod: desired})
			}
		}
	}
	parts.Wait()
	return errors.Join(ends[:]...)
}

// await takes statuses until one is as it is waited for.
func (a *partsAgent) await(until func(*v1.PodStatus) bool) status.Update {
	for u := range a.sink.Updates() {
		if until(u.Status) {
			return u
		}
	}
	return status.Update{}
}

// TestParts: a pod runs, crashes, runs again, is deleted and is gone.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{Script: func(fake.Launch) fake.Script {
			return fake.Script{Crashes: 1, Crash: fake.Exit{After: time.Minute, Code: 3}}
		}})
		a, err := newPartsAgent(rt, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		pod, ended := podwrighttest.Pod("web"), make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- a.run(ctx, pod) }()

		a.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Create, Pod: pod})
		a.await(func(s *v1.PodStatus) bool { return s.Phase == v1.PodRunning })
		u := a.await(func(s *v1.PodStatus) bool { c := s.ContainerStatuses[0]; return c.RestartCount == 1 && c.Ready })
		if code := u.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode; code != 3 {
			t.Errorf("it runs again after code %d, want 3", code)
		}
		deleted, now := pod.DeepCopy(), metav1.Now()
		deleted.DeletionTimestamp = &now
		a.workers.UpdatePod(podworkers.UpdateOptions{Type: podworkers.Update, Pod: deleted})
		if u = a.await(func(s *v1.PodStatus) bool { return s.Phase == v1.PodSucceeded }); a.workers.WaitFinished(ctx, pod.UID) != nil {
			t.Errorf("%+v is not the end", u)
		}
		a.workers.SyncKnownPods(nil) // nothing is desired any more
		if left, err := rt.ListContainers(ctx, nil); err != nil || len(left) > 0 || a.workers.IsPodKnown(pod.UID) {
			t.Errorf("left are %v, %v", left, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
