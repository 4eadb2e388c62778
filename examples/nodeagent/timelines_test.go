package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status"
)

var lifeBegin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(lifeBegin.Add(time.Duration(seconds) * time.Second))
}

func termination(id string, from, to int, code int32) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{ContainerID: id, StartedAt: at(from), FinishedAt: at(to), ExitCode: code, Reason: "Error"}
}

// lane is what is told of a lane, as STATE@SECOND.
func (t *timelines) lane(uid types.UID, name string) string {
	var out []string
	steps, _ := t.steps(uid)
	for _, s := range steps {
		if s.Lane == name {
			out = append(out, fmt.Sprintf("%s@%d", s.State, int(s.At.Sub(lifeBegin).Seconds())))
		}
	}
	return strings.Join(out, " ")
}

// TestTimelineHasEveryRun: each run is told once, at the runtime's times, also one that came and went between two statuses.
func TestTimelineHasEveryRun(t *testing.T) {
	lives := newTimelines()
	tell := func(second int, c v1.ContainerStatus) {
		c.Name = "main"
		lives.change(status.Change{UID: "u", Status: &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{c}}}, at(second).Time)
	}
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	first, second, third := termination("a", 1, 3, 1), termination("b", 5, 5, 1), termination("c", 5, 6, 0)
	tell(0, v1.ContainerStatus{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}})
	tell(2, v1.ContainerStatus{State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(1)}}})
	tell(3, v1.ContainerStatus{Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(1)}}})
	tell(4, v1.ContainerStatus{State: v1.ContainerState{Terminated: first}})
	tell(4, v1.ContainerStatus{State: waiting, LastTerminationState: v1.ContainerState{Terminated: first}})
	tell(6, v1.ContainerStatus{State: v1.ContainerState{Terminated: third}, LastTerminationState: v1.ContainerState{Terminated: second}})
	tell(7, v1.ContainerStatus{State: v1.ContainerState{Terminated: third}, LastTerminationState: v1.ContainerState{Terminated: second}})
	want := "waiting@0 running@1 ready@3 failed@3 waiting@4 running@5 failed@5 running@5 done@6"
	if got := lives.lane("u", "main"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := lives.lane("u", ""); got != "Running@0" {
		t.Errorf("the pod: %s", got)
	}
	lives.change(status.Change{UID: "u", Forgotten: true, Status: &v1.PodStatus{}}, at(8).Time)
	if steps, _ := lives.steps("u"); len(steps) != 0 {
		t.Errorf("a pod that is gone has %v", steps)
	}
}

// TestTimelineOfAnInitContainerWithoutMemory: the kernel's kill is a failure of an init container, even with code 0.
func TestTimelineOfAnInitContainerWithoutMemory(t *testing.T) {
	lives := newTimelines()
	killed := termination("a", 1, 3, 0)
	killed.Reason = "OOMKilled"
	of := func(name string) []v1.ContainerStatus {
		return []v1.ContainerStatus{{Name: name, State: v1.ContainerState{Terminated: killed}}}
	}
	lives.change(status.Change{UID: "u", Status: &v1.PodStatus{InitContainerStatuses: of("init"), ContainerStatuses: of("main")}}, at(4).Time)
	if init, app := lives.lane("u", "init"), lives.lane("u", "main"); init != "running@1 failed@3" || app != "running@1 done@3" {
		t.Errorf("init: %s; main: %s", init, app)
	}
}

// TestTimelinesAreBounded: steps, texts, containers and pods are as few as promised, and the newest stay.
func TestTimelinesAreBounded(t *testing.T) {
	lives := newTimelines()
	long := strings.Repeat("ä", 5000)
	for i := range keptSteps + 10 {
		lives.event(&event{Time: at(i).Time, Type: v1.EventTypeWarning, Reason: fmt.Sprint("r", i), Part: "spec.containers{main}", Message: long, uid: "u"})
	}
	for range 3 {
		lives.event(&event{Time: at(500).Time, Reason: "Pulled", Message: "x", uid: "u"})
	}
	steps, dropped := lives.steps("u")
	last := steps[len(steps)-1]
	if len(steps) != keptSteps || dropped != 11 || last.Count != 3 || steps[0].Reason != "r11" || steps[0].Lane != "main" {
		t.Errorf("%d steps, %d dropped, the last %+v, the first %s of %s", len(steps), dropped, last, steps[0].Reason, steps[0].Lane)
	}
	if text := steps[0].Message; len(text) > keptMessage || strings.ContainsRune(text, '\uFFFD') || !strings.HasSuffix(text, "ä…") {
		t.Errorf("a text of %d bytes: %s", len(text), text)
	}
	var many []v1.ContainerStatus
	for i := range 10 * keptLanes {
		many = append(many, v1.ContainerStatus{Name: fmt.Sprint("c", i), State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}})
	}
	lives.change(status.Change{UID: "u", Status: &v1.PodStatus{ContainerStatuses: many}}, at(600).Time)
	if n := len(lives.pods["u"].now); n > keptLanes+1 {
		t.Errorf("%d lanes", n)
	}
	for i := range keptLives {
		lives.change(status.Change{UID: types.UID(fmt.Sprint("p", i)), Status: &v1.PodStatus{Phase: v1.PodPending}}, at(1000+i).Time)
	}
	if steps, _ := lives.steps("u"); len(lives.pods) != keptLives || len(steps) != 0 {
		t.Errorf("%d pods, %d steps of the oldest", len(lives.pods), len(steps))
	}
	lives.event(&event{Kind: "node", Message: "of no pod"})
	if len(lives.pods) != keptLives {
		t.Error("an event of the node counts as a pod's")
	}
}
