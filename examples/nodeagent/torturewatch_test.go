//go:build containerd

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// watcher looks all the time at what must hold at every moment.
type watcher struct {
	t      *testing.T
	client *cri.Client
	agent  atomic.Pointer[apiClient] // asks the agent, nil while none runs
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	restarts map[string]restartCount // by UID and container
	// forgiven pods got another life with the same UID.
	forgiven map[string]bool
	said     map[string]bool
}

type restartCount struct {
	count int32
	id    string
}

func newWatcher(t *testing.T, client *cri.Client) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{
		t: t, client: client, cancel: cancel, done: make(chan struct{}),
		restarts: map[string]restartCount{}, forgiven: map[string]bool{}, said: map[string]bool{},
	}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				w.lookAtRuntime(ctx)
				w.lookAtAgent(ctx)
			}
		}
	}()
	t.Cleanup(w.stop)
	return w
}

// stop ends the watch. It may be called again.
func (w *watcher) stop() {
	w.cancel()
	<-w.done
}

// forgive lets the restart counts of a pod start again.
func (w *watcher) forgive(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgiven[name+"-n1"] = true
}

// complain reports something once.
func (w *watcher) complain(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !w.said[text] {
		w.said[text] = true
		w.t.Errorf("%s %s", time.Now().UTC().Format("15:04:05.000"), text)
	}
}

// lookAtRuntime: no container runs twice, no pod has two sandboxes. A runtime that
// does not answer is not looked at.
func (w *watcher) lookAtRuntime(ctx context.Context) {
	containers, err := w.client.ListContainers(ctx, &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		return
	}
	running := map[string]string{}
	for _, c := range containers {
		key := c.Labels[runtime.LabelPodName] + "/" + c.Labels[runtime.LabelContainerName]
		if other, twice := running[key]; twice {
			w.complain("container %s runs twice, as %.12s and %.12s", key, c.Id, other)
		}
		running[key] = c.Id
	}
	sandboxes, err := w.client.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err != nil {
		return
	}
	ready := map[string]string{}
	for _, s := range sandboxes {
		key := s.Labels[runtime.LabelPodUID]
		if other, twice := ready[key]; twice {
			w.complain("pod %s (%s) has two ready sandboxes, %.12s and %.12s", s.Labels[runtime.LabelPodName], key, s.Id, other)
		}
		ready[key] = s.Id
	}
}

// lookAtAgent: restart counts never fall.
func (w *watcher) lookAtAgent(ctx context.Context) {
	agent := w.agent.Load()
	if agent == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience.Of(10*time.Second))
	defer cancel()
	response, err := agent.get(ctx, "/pods")
	if err != nil {
		return // it may just have ended
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return
	}
	var list v1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		w.complain("/pods: %v", err)
		return
	}
	for i := range list.Items {
		w.lookAtPod(&list.Items[i])
	}
}

func (w *watcher) lookAtPod(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.forgiven[pod.Name] {
		return
	}
	for _, c := range pod.Status.ContainerStatuses {
		key := string(pod.UID) + "/" + c.Name
		if c.ContainerID == "" && c.RestartCount == 0 {
			continue // nothing is known yet
		}
		now := restartCount{count: c.RestartCount, id: criID(c.ContainerID)}
		if before := w.restarts[key]; now.count < before.count {
			w.complain("%s %s: restart count fell from %d (%.12s) to %d (%.12s)", pod.Name, c.Name, before.count, before.id, now.count, now.id)
		}
		w.restarts[key] = now
	}
}
