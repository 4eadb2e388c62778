package programs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/examples/toyruntime"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime/pods/containerlog"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/source"
)

// toyPod runs a script of the host.
func toyPod(name, script string) *v1.Pod {
	pod := podwrighttest.Pod(name)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](30)
	pod.Spec.HostNetwork = true // there is no other
	pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = toyruntime.Image, v1.PullIfNotPresent
	pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", script}
	return pod
}

// toyNode is an agent on the toy runtime.
type toyNode struct {
	*podwright.Engine
	desired *source.Channel
}

// startToyNode starts an agent, which ends with the test.
func startToyNode(ctx context.Context, t *testing.T) toyNode {
	runtime := toyruntime.New()
	n := toyNode{desired: source.NewChannel(source.ChannelOptions{})}
	engine, err := podwright.New(podwright.Config{
		Runtime: runtime, Images: runtime, Sources: []syncloop.Source{n.desired}, RootDir: t.TempDir() + "/node", Node: podwright.Node{Name: "toy"},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Engine = engine
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return n
}

// await returns once the pod is as wanted; every change of it is looked at.
func (n toyNode) await(ctx context.Context, t *testing.T, what string, pod *v1.Pod, is func(status.Change) bool) {
	t.Helper()
	for change, err := range n.Watch(ctx) {
		if err == nil && change.UID == pod.UID && is(change) {
			return
		}
	}
	t.Fatalf("%s is not %s:\n%s", pod.Name, what, fmt.Sprint(n.Explain(pod.UID)))
}

func isReady(c status.Change) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(p v1.PodCondition) bool { return p.Type == v1.PodReady && p.Status == v1.ConditionTrue })
}

// TestPodsOnAToy: a service is ready when a command in it says so, a job is tried until it succeeds, and both go when
// they are not desired any more, the service in its own time.
func TestPodsOnAToy(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir, n := t.TempDir(), startToyNode(ctx, t)
	web := toyPod("web", "trap 'touch "+dir+"/bye; exit 0' TERM; echo hello; touch "+dir+"/up; while :; do sleep 0.1; done")
	web.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-e", dir + "/up"}}}}
	job := toyPod("job", "mkdir "+dir+"/once && exit 7; echo again")
	job.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	if err := n.desired.Set(ctx, []*v1.Pod{web, job}); err != nil {
		t.Fatal(err)
	}
	n.await(ctx, t, "ready", web, isReady)
	n.await(ctx, t, "done", job, func(c status.Change) bool {
		return c.Status.Phase == v1.PodSucceeded && c.Status.ContainerStatuses[0].RestartCount == 1
	})
	var log bytes.Buffer
	if err := n.ContainerLog(ctx, web.UID, "main", containerlog.Options{}, &log); err != nil || log.String() != "hello\n" {
		t.Errorf("the log of web is %q, %v", log.String(), err)
	}
	if err := n.desired.Set(ctx, nil); err != nil {
		t.Fatal(err)
	}
	n.await(ctx, t, "gone", web, func(c status.Change) bool { return c.Forgotten })
	if _, err := os.Stat(dir + "/bye"); err != nil {
		t.Errorf("web was not asked to end: %v", err)
	}
}
