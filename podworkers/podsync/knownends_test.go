package podsync

import (
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/runtime"
)

// TestKnownEndIsNoUnknownOne: status.md 9.4: an end that the status knows takes the place of one that the runtime has not
// seen, for the same run only, and nothing else changes.
func TestKnownEndIsNoUnknownOne(t *testing.T) {
	id := runtime.ContainerID{Runtime: "rt", ID: "1"}
	end := func(id string, code int32, reason string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ContainerID: id, ExitCode: code, Reason: reason, Message: "m",
			StartedAt: metav1.NewTime(time.Unix(10, 0)), FinishedAt: metav1.NewTime(time.Unix(20, 0)),
		}}
	}
	all := []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
	lost := runtime.ContainerStatus{ID: id, Name: "c", State: runtime.Exited, ExitCode: 255, Reason: "Unknown", FinishedAt: time.Unix(99, 0)}
	for _, tc := range []struct {
		name        string
		state, last v1.ContainerState
		change      func(c *runtime.ContainerStatus)
		rules       []v1.ContainerRestartRule
		want        bool
	}{
		{name: "known", state: end("rt://1", 0, "Completed"), want: true},
		{name: "known as the last", last: end("rt://1", 3, "Error"), want: true},
		{name: "of another run", state: end("rt://2", 0, "Completed")},
		{name: "of another runtime", state: end("other://1", 0, "Completed")},
		{name: "a guess", state: end("rt://1", 137, "ContainerStatusUnknown")},
		{name: "as unknown", state: end("rt://1", 255, "Unknown")},
		{name: "not known"},
		{name: "the runtime saw it", state: end("rt://1", 0, "Completed"), change: func(c *runtime.ContainerStatus) { c.Reason = "Error" }},
		{name: "another code", state: end("rt://1", 0, "Completed"), change: func(c *runtime.ContainerStatus) { c.ExitCode = 1 }},
		{name: "it runs", state: end("rt://1", 0, "Completed"), change: func(c *runtime.ContainerStatus) { c.State = runtime.Running }},
		{name: "the pod may have been reset", state: end("rt://1", 0, "Completed"), rules: all},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", RestartPolicyRules: tc.rules}}}}
		shown := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", State: tc.state, LastTerminationState: tc.last}}}
		c := lost
		if tc.change != nil {
			tc.change(&c)
		}
		before := c
		view := &runtime.PodStatus{Containers: []*runtime.ContainerStatus{&c, {Name: "other"}}}
		got := showKnownEnds(pod, view, shown)
		if !reflect.DeepEqual(c, before) || view.Containers[0] != &c {
			t.Errorf("%s: the shared view was changed", tc.name)
		}
		if !tc.want {
			if got != view {
				t.Errorf("%s: %+v", tc.name, got.Containers[0])
			}
			continue
		}
		known := got.Containers[0]
		if known.ExitCode == 255 || known.Message != "m" || known.ID != id || !known.StartedAt.Equal(time.Unix(10, 0)) || !known.FinishedAt.Equal(time.Unix(20, 0)) {
			t.Errorf("%s: %+v", tc.name, known)
		}
	}
	view := &runtime.PodStatus{Containers: []*runtime.ContainerStatus{&lost}}
	if showKnownEnds(&v1.Pod{}, view, nil) != view {
		t.Error("without a status")
	}
}

// TestEndThatOnlyTheAPIKnows: status.md 9.4, 9.5: the record of the pod is lost together with the runtime's. What its API has of the
// run still counts.
func TestEndThatOnlyTheAPIKnows(t *testing.T) {
	n := newNode(t)
	lost := runtime.ContainerStatus{ID: runtime.ContainerID{Runtime: "rt", ID: "1"}, Name: "main", State: runtime.Exited, ExitCode: 255, Reason: "Unknown"}
	pod := web()
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "main", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "rt://1", ExitCode: 0, Reason: "Completed"}},
	}}
	got := n.syncer().withKnownEnds(pod, &runtime.PodStatus{Containers: []*runtime.ContainerStatus{&lost}})
	if c := got.Containers[0]; c.ExitCode != 0 || c.Reason != "Completed" {
		t.Errorf("ended with %d, %s", c.ExitCode, c.Reason)
	}
}
