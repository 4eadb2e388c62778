package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func waiting(reason string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
}

func ended(code int32, reason string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
}

func TestPodStatus(t *testing.T) {
	runningState := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	app := func(states ...v1.ContainerState) v1.PodStatus {
		s := v1.PodStatus{Phase: v1.PodRunning}
		for _, state := range states {
			s.ContainerStatuses = append(s.ContainerStatuses, v1.ContainerStatus{State: state, Ready: state.Running != nil})
		}
		return s
	}
	initial := func(states ...v1.ContainerState) v1.PodStatus {
		s := v1.PodStatus{Phase: v1.PodPending}
		for _, state := range states {
			s.InitContainerStatuses = append(s.InitContainerStatuses, v1.ContainerStatus{State: state})
		}
		return s
	}
	now := metav1.Now()
	tests := []struct {
		name string
		pod  v1.Pod
		want string
	}{
		{"running", v1.Pod{Status: app(runningState)}, "Running"},
		{"crash loop", v1.Pod{Status: app(waiting("CrashLoopBackOff"))}, "CrashLoopBackOff"},
		{"exit reason", v1.Pod{Status: app(ended(3, "Error"))}, "Error"},
		{"exit code without a reason", v1.Pod{Status: app(ended(3, ""))}, "ExitCode:3"},
		{"one done, one running", v1.Pod{Status: app(ended(0, "Completed"), runningState)}, "NotReady"},
		{"pod reason", v1.Pod{Status: v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}}, "Evicted"},
		{"leaving", v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: app(runningState)}, "Terminating"},
		{"init runs", v1.Pod{Spec: v1.PodSpec{InitContainers: make([]v1.Container, 2)}, Status: initial(ended(0, "Completed"), runningState)}, "Init:1/2"},
		{"init fails", v1.Pod{Spec: v1.PodSpec{InitContainers: make([]v1.Container, 1)}, Status: initial(ended(1, "Error"))}, "Init:Error"},
		{"init is killed for its memory, code 0", v1.Pod{Spec: v1.PodSpec{InitContainers: make([]v1.Container, 1)}, Status: initial(ended(0, "OOMKilled"))}, "Init:OOMKilled"},
		{"a sidecar is", v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}}}, Status: initial(ended(0, "OOMKilled"))}, "Pending"},
		{"init with a policy of its own runs", v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{RestartPolicy: ptr.To(v1.ContainerRestartPolicyNever)}}}, Status: initial(runningState)}, "Init:0/1"},
		{"init pulls", v1.Pod{Spec: v1.PodSpec{InitContainers: make([]v1.Container, 1)}, Status: initial(waiting("ImagePullBackOff"))}, "Init:ImagePullBackOff"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := podStatus(&test.pod); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	started := metav1.NewTime(now.Add(-5 * time.Minute))
	crashed := ended(1, "Error")
	crashed.Terminated.FinishedAt = metav1.NewTime(now.Add(-30 * time.Second))
	sidecar := v1.Container{Name: "proxy", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}
	pods := []v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-n1"},
		Spec:       v1.PodSpec{InitContainers: []v1.Container{sidecar}, Containers: make([]v1.Container, 1)},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, StartTime: &started,
			InitContainerStatuses: []v1.ContainerStatus{{Name: "proxy", Ready: true, Started: ptr.To(true), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}},
			ContainerStatuses:     []v1.ContainerStatus{{RestartCount: 4, State: waiting("CrashLoopBackOff"), LastTerminationState: crashed}},
		},
	}}
	got := table(pods, now)
	if len(got) != 2 || strings.Join(strings.Fields(got[0]), " ") != "NAMESPACE NAME READY STATUS RESTARTS AGE" {
		t.Fatalf("got %q", got)
	}
	if want := "default web-n1 1/2 CrashLoopBackOff 4 (30s ago) 5m"; strings.Join(strings.Fields(got[1]), " ") != want {
		t.Errorf("got %q, want %q", got[1], want)
	}
	if empty := table(nil, now); len(empty) != 2 || empty[1] != "(no pods)" {
		t.Errorf("no pods: %q", empty)
	}
}

// TestFrame: the table comes first, the log's end fills the rest, and nothing
// wraps or scrolls.
func TestFrame(t *testing.T) {
	lines := []string{"one", "two", "three", "a very long line of the log"}
	got := frame([]string{"TABLE"}, lines, 8, 4)
	plain := strings.NewReplacer("\x1b[H", "", "\x1b[K", "", "\x1b[J", "").Replace(got)
	if want := "TABLE\r\n────────\r\nthree\r\na very l"; plain != want {
		t.Errorf("got %q, want %q", plain, want)
	}
	if got := printable("a\x1b[2Jb\tc"); strings.ContainsAny(got, "\x1b\t") {
		t.Errorf("control characters reach the terminal: %q", got)
	}
}

// TestUsualSize: a terminal that does not know its size, as a serial line, shows the table all the same.
func TestUsualSize(t *testing.T) {
	for _, c := range []struct {
		width, height int
		err           error
		wide, high    int
	}{{120, 50, nil, 120, 50}, {0, 0, nil, 80, 24}, {80, 0, nil, 80, 24}, {0, 0, errors.New("no terminal"), 80, 24}} {
		if wide, high := usualSize(c.width, c.height, c.err); wide != c.wide || high != c.high {
			t.Errorf("%+v: %d x %d", c, wide, high)
		}
	}
}
