package pods_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
)

// wordy makes a pod as large as manifests may be, in what a runtime shows of it.
func wordy(p *v1.Pod) {
	p.Annotations = map[string]string{"example.com/one": strings.Repeat("x", 200<<10), "example.com/short": "kept"}
	p.Spec.Containers = nil
	for i := range 8 {
		c := container(fmt.Sprint("c", i))
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", strings.Repeat("x", 500<<10)}}}}
		for port := range int32(10_000) {
			c.Ports = append(c.Ports, v1.ContainerPort{ContainerPort: port + 1, Protocol: v1.ProtocolTCP})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
}

// TestListsHaveRoomForEveryPod is 2.10: what the runtime keeps for one pod leaves room in its
// lists, which are one message for all pods.
func TestListsHaveRoomForEveryPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod(wordy)
		if r := w.syncAll(pod); r.Err != nil {
			t.Fatal(r.Err)
		}
		sandboxes, err := w.fake.ListPodSandbox(t.Context(), nil)
		if err != nil || len(sandboxes) != 1 {
			t.Fatal(len(sandboxes), err)
		}
		if size := proto.Size(sandboxes[0]); size > 64<<10 || sandboxes[0].Annotations["example.com/short"] != "kept" {
			t.Errorf("2.10: a sandbox of %d bytes, with %d annotations", size, len(sandboxes[0].Annotations))
		}
		containers, err := w.fake.ListContainers(t.Context(), nil)
		if err != nil || len(containers) != 8 {
			t.Fatal(len(containers), err)
		}
		all := 0
		for _, c := range containers {
			all += proto.Size(c)
		}
		if all > 64<<10 {
			t.Errorf("2.10: containers of %d bytes", all)
		}
		if n := len(w.config("c0").GetImage().GetAnnotations()); n > 0 {
			t.Errorf("2.10: the image of a container, which runtimes list with it, has %d annotations", n)
		}
	})
}

// TestPodWithTooManyLabelsWaits is 2.10: its sandbox is not made, and the pod says why. One that
// exists keeps its containers.
func TestPodWithTooManyLabelsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod(func(p *v1.Pod) {
			p.Labels = map[string]string{}
			for i := range 2000 {
				p.Labels[fmt.Sprintf("example.com/%040d", i)] = "v"
			}
		})
		r := w.sync(pod)
		if r.Err == nil || !strings.Contains(r.Err.Error(), "bytes, and a runtime keeps 65536 for all pods to be listed") || !w.events.has("Warning FailedCreatePodSandBox") {
			t.Errorf("2.10: %v, events %q", r.Err, w.events.list())
		}
		if list, err := w.fake.ListPodSandbox(t.Context(), nil); err != nil || len(list) > 0 {
			t.Errorf("2.10: sandboxes %v, %v", list, err)
		}
		labels := pod.Labels
		pod.Labels = nil
		if r := w.syncAll(pod); r.Err != nil {
			t.Fatal(r.Err)
		}
		pod.Labels = labels
		if r := w.syncAll(pod); r.Err != nil || w.state(pod) != "app:running" {
			t.Errorf("2.10: %v, %s", r.Err, w.state(pod))
		}
	})
}

// TestLongMessagePathIsRefused is 2.10: it is shown in lists too, and cannot be left out.
func TestLongMessagePathIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod(func(p *v1.Pod) {
			p.Spec.Containers = []v1.Container{container("long"), container("fits")}
			p.Spec.Containers[0].TerminationMessagePath = "/" + strings.Repeat("x", 1024)
			p.Spec.Containers[1].TerminationMessagePath = "/" + strings.Repeat("x", 1023)
		})
		w.sync(pod)
		got := w.m.WaitingReasons(pod.UID)
		if got["long"].Reason != "CreateContainerConfigError" || !strings.Contains(got["long"].Message, "1024 at most") || len(got) != 1 {
			t.Errorf("2.10: %v", got)
		}
	})
}

// TestPodWithTooManyContainersWaits is 2.10: what they are listed with would not fit a message of its own.
func TestPodWithTooManyContainersWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		pod := newPod(func(p *v1.Pod) {
			for i := range 1000 {
				p.Spec.InitContainers = append(p.Spec.InitContainers, container(fmt.Sprint("c", i)))
			}
		})
		if r := w.sync(pod); r.Err == nil || !strings.Contains(r.Err.Error(), "1001 containers") {
			t.Errorf("2.10: %v", r.Err)
		}
		pod.Spec.InitContainers = pod.Spec.InitContainers[:999]
		if r := w.sync(pod); r.Err != nil {
			t.Errorf("2.10: %v", r.Err)
		}
	})
}
