//go:build containerd

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
)

// bystanders are pods that what happens to other pods must not touch.
type bystanders struct {
	t      *testing.T
	before map[string]*v1.Pod
}

// runBystanders starts n pods and waits until they are ready. Each has an emptyDir.
func runBystanders(t *testing.T, runtime *containerdtest.Instance, a *testAgent, manifests string, n int) bystanders {
	t.Helper()
	b := bystanders{t: t, before: map[string]*v1.Pod{}}
	for i := range n {
		name := fmt.Sprintf("bystander-%d", i)
		writeManifest(t, manifests, name+".yaml", pod(name, runtime.Image, "date > /data/started; sleep 100000",
			"    volumeMounts: [{name: data, mountPath: /data}]",
			"  hostNetwork: true", "  terminationGracePeriodSeconds: 1", "  volumes: [{name: data, emptyDir: {}}]"))
		b.before[name] = nil
	}
	for name := range b.before {
		b.before[name] = a.awaitPod(name, "Ready", func(p *v1.Pod) bool { return condition(p, v1.PodReady).Status == v1.ConditionTrue })
	}
	return b
}

// condition returns a pod's condition, or an empty one.
func condition(p *v1.Pod, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{}
}

// check compares all that the agent says of them, as soon as it knows them, with what was
// said at first: the same containers, never restarted, and ready all the time.
func (b bystanders) check(a *testAgent) {
	b.t.Helper()
	for name, before := range b.before {
		p := a.awaitPod(name, "shown with its container", func(p *v1.Pod) bool { return len(p.Status.ContainerStatuses) > 0 })
		got, want := p.Status.ContainerStatuses[0], before.Status.ContainerStatuses[0]
		if got.ContainerID != want.ContainerID || got.RestartCount != 0 {
			b.t.Errorf("%s has container %s after %d restarts, before %s", name, got.ContainerID, got.RestartCount, want.ContainerID)
		}
		ready, was := condition(p, v1.PodReady), condition(before, v1.PodReady)
		if ready.Status != v1.ConditionTrue || !ready.LastTransitionTime.Equal(&was.LastTransitionTime) {
			b.t.Errorf("%s was not ready all the time: %s since %s, at first since %s", name, ready.Status, ready.LastTransitionTime, was.LastTransitionTime)
		}
	}
}

// marked waits until a container has made a file, and returns when it was made.
func marked(t *testing.T, limit time.Duration, marks, name string) time.Time {
	t.Helper()
	var at time.Time
	awaitWithin(t, limit, name, func() error {
		info, err := os.Stat(filepath.Join(marks, name))
		if err == nil {
			at = info.ModTime()
		}
		return err
	})
	return at
}

// marking are the lines of a manifest that give its container the folder at /marks.
func marking(marks string, more ...string) []string {
	return append([]string{
		"    volumeMounts: [{name: marks, mountPath: /marks}]", "  hostNetwork: true",
		"  volumes: [{name: marks, hostPath: {path: " + marks + "}}]",
	}, more...)
}

// restartsInTime makes a pod whose container ends when it is told to, and returns the
// check that each end is followed by a start at its back-off: at once, then after 10 s.
func restartsInTime(t *testing.T, runtime *containerdtest.Instance, a *testAgent, manifests, marks string) (check func()) {
	t.Helper()
	writeManifest(t, manifests, "again.yaml", pod("again", runtime.Image,
		"for run in 1 2 3; do [ -e /marks/start-$run ] || break; done; touch /marks/start-$run; until [ -e /marks/end-$run ]; do sleep 0.1; done; touch /marks/ended-$run; exit 1",
		marking(marks, "  terminationGracePeriodSeconds: 1")...))
	a.awaitPhase("again", v1.PodRunning)
	marked(t, longest, marks, "start-1")
	return func() {
		t.Helper()
		for run, wait := range []time.Duration{0, 10 * time.Second} {
			if err := os.WriteFile(filepath.Join(marks, fmt.Sprintf("end-%d", run+1)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			ended := marked(t, longest, marks, fmt.Sprintf("ended-%d", run+1))
			took := marked(t, longest, marks, fmt.Sprintf("start-%d", run+2)).Sub(ended)
			t.Logf("the start after end %d came after %v", run+1, took.Round(time.Millisecond))
			if took < wait-time.Second || took > wait+patience.Of(3*time.Second) {
				t.Errorf("the start after end %d came after %v, want %v", run+1, took, wait)
			}
		}
		a.awaitPod("again", "two restarts told", func(p *v1.Pod) bool {
			return p.Status.ContainerStatuses[0].RestartCount == 2 && p.Status.ContainerStatuses[0].State.Running != nil
		})
	}
}

// startsInTime makes a pod and checks that it runs soon.
func startsInTime(t *testing.T, runtime *containerdtest.Instance, a *testAgent, manifests, name string, limit time.Duration) {
	t.Helper()
	began := time.Now()
	writeManifest(t, manifests, name+".yaml", pod(name, runtime.Image, "sleep 100000", "  hostNetwork: true", "  terminationGracePeriodSeconds: 1"))
	a.awaitPhase(name, v1.PodRunning)
	took := time.Since(began)
	t.Logf("%s runs after %v", name, took.Round(time.Millisecond))
	if took > limit {
		t.Errorf("%s runs after %v, want %v at most", name, took, limit)
	}
}
