package runonce

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// RO1: what the run waits for in a pod depends on the restart policies of its containers.
func TestContainersPoliciesDecide(t *testing.T) {
	never, always, onFailure := v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	ended := func(code int32) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}}
	}
	type container struct {
		policy *v1.ContainerRestartPolicy
		state  v1.ContainerState
		ready  bool
	}
	for name, c := range map[string]struct {
		policy  v1.RestartPolicy
		sidecar *container
		main    []container
		want    Outcome
	}{
		"all serve":                        {policy: "Always", main: []container{{state: running, ready: true}, {state: running, ready: true}}, want: Running},
		"one is not ready":                 {policy: "Always", main: []container{{state: running, ready: true}, {state: running}}, want: Unfinished},
		"no policy is Always":              {main: []container{{state: running, ready: true}}, want: Running},
		"its sidecar is not ready":         {policy: "Always", sidecar: &container{policy: &always, state: running}, main: []container{{state: running, ready: true}}, want: Unfinished},
		"its sidecar is ready":             {policy: "Always", sidecar: &container{policy: &always, state: running, ready: true}, main: []container{{state: running, ready: true}}, want: Running},
		"a job that runs":                  {policy: "Never", main: []container{{state: running, ready: true}}, want: Unfinished},
		"one serves beside a job":          {policy: "Never", main: []container{{policy: &always, state: running, ready: true}, {state: running, ready: true}}, want: Unfinished},
		"one serves, the job is done":      {policy: "Never", main: []container{{policy: &always, state: running, ready: true}, {state: ended(0)}}, want: Running},
		"one serves, the job has failed":   {policy: "Always", main: []container{{state: running, ready: true}, {policy: &never, state: ended(3)}}, want: CannotRun},
		"one serves, the job starts again": {policy: "Always", main: []container{{state: running, ready: true}, {policy: &onFailure, state: ended(3)}}, want: Unfinished},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: c.policy}, Status: v1.PodStatus{Phase: v1.PodRunning}}
			if s := c.sidecar; s != nil {
				pod.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: s.policy}}
				pod.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "side", State: s.state, Ready: s.ready}}
			}
			for i, m := range c.main {
				name := string(rune('a' + i))
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, RestartPolicy: m.policy})
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{Name: name, State: m.state, Ready: m.ready})
			}
			o, s, now := Options{}, &subject{handed: true}, time.Unix(1000, 0)
			if err := o.complete(); err != nil {
				t.Fatal(err)
			}
			s.note(pod, false, now)
			if first := o.judge(s, now); c.want == Running && (first.outcome != Unfinished || !first.look.Equal(now.Add(5*time.Second))) {
				t.Errorf("ready for no time is %+v", first)
			}
			if got := o.judge(s, now.Add(5*time.Second)); got.outcome != c.want {
				t.Errorf("%+v, want %s", got, c.want)
			}
		})
	}
}

// RO4: restarts before the run do not count, and a restart makes the time of readiness start
// over.
func TestRestartsCountFromTheBeginOfTheRun(t *testing.T) {
	o, s, now := Options{MaxRestarts: 2}, &subject{handed: true}, time.Unix(1000, 0)
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	look := func(restarts int32, waiting bool) verdict {
		now = now.Add(4 * time.Second)
		c := v1.ContainerStatus{Name: "a", RestartCount: restarts, Ready: !waiting, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
		if waiting {
			c.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		}
		s.note(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}, Status: v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{c}}}, false, now)
		return o.judge(s, now)
	}
	for i, step := range []struct {
		restarts int32
		waiting  bool
		want     Outcome
	}{{40, true, Unfinished}, {40, false, Unfinished}, {41, false, Unfinished}, {41, true, Unfinished}, {42, false, Unfinished}, {42, false, Unfinished}, {42, false, Running}, {42, true, CannotRun}, {43, false, CannotRun}} {
		if got := look(step.restarts, step.waiting); got.outcome != step.want {
			t.Errorf("look %d (%d restarts): %+v, want %s", i, step.restarts, got, step.want)
		}
	}
}

// RO4: time in which an init container runs does not count, time after it does.
func TestWorkIsNoWait(t *testing.T) {
	o, s, now := Options{StartLimit: time.Minute}, &subject{handed: true}, time.Unix(1000, 0)
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	pod := func(state v1.ContainerState) *v1.Pod {
		return &v1.Pod{
			Spec:   v1.PodSpec{InitContainers: []v1.Container{{Name: "init"}}, Containers: []v1.Container{{Name: "a"}}},
			Status: v1.PodStatus{Phase: v1.PodPending, InitContainerStatuses: []v1.ContainerStatus{{Name: "init", State: state}}},
		}
	}
	s.note(pod(v1.ContainerState{Running: &v1.ContainerStateRunning{}}), false, now)
	now = now.Add(time.Hour)
	if v := o.judge(s, now); v.outcome != Unfinished || !v.look.IsZero() {
		t.Errorf("init for an hour: %+v", v)
	}
	s.note(pod(v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}), false, now)
	if v := o.judge(s, now.Add(time.Minute-1)); v.outcome != Unfinished || !v.look.Equal(now.Add(time.Minute)) {
		t.Errorf("just before the limit: %+v", v)
	}
	if v := o.judge(s, now.Add(time.Minute)); v.outcome != CannotRun || v.reason != reasonStartLimit {
		t.Errorf("at the limit: %+v", v)
	}
}

// RO4: options that make no sense are refused.
func TestOptions(t *testing.T) {
	if _, err := New(Options{Limit: -1}); err == nil {
		t.Error("a negative limit is taken")
	}
	r, err := New(Options{})
	if err != nil || r.o.StartLimit != 10*time.Minute || r.o.MinReady != 5*time.Second || r.o.MaxRestarts != 6 {
		t.Errorf("defaults %+v, %v", r.o, err)
	}
}

// RO4: the report names the container that failed the pod: an init container that the kernel killed for its memory is
// one even with code 0 (spec/runtime.md 6.4), a sidecar is none.
func TestTheReportNamesTheContainerThatFailed(t *testing.T) {
	ended := func(name string, code int32, reason string) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}
	}
	always := v1.ContainerRestartPolicyAlways
	for name, c := range map[string]struct {
		init, main      []v1.ContainerStatus
		reason, message string
	}{
		"killed init, code 0":    {init: []v1.ContainerStatus{ended("i", 0, "OOMKilled")}, reason: "OOMKilled", message: "container i was killed for lack of memory"},
		"killed init, code 137":  {init: []v1.ContainerStatus{ended("i", 137, "OOMKilled")}, reason: "OOMKilled", message: "container i ended with code 137"},
		"init before the others": {init: []v1.ContainerStatus{ended("i", 0, "OOMKilled")}, main: []v1.ContainerStatus{ended("a", 137, "ContainerStatusUnknown")}, reason: "OOMKilled", message: "container i was killed for lack of memory"},
		"no sidecar":             {init: []v1.ContainerStatus{ended("side", 137, "Error"), ended("i", 0, "Completed")}, main: []v1.ContainerStatus{ended("a", 3, "Error")}, reason: "Error", message: "container a ended with code 3"},
		"main, code 0":           {main: []v1.ContainerStatus{ended("a", 0, "OOMKilled"), ended("b", 1, "Error")}, reason: "Error", message: "container b ended with code 1"},
		"none":                   {init: []v1.ContainerStatus{ended("i", 0, "Completed")}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{
				Spec:   v1.PodSpec{InitContainers: []v1.Container{{Name: "side", RestartPolicy: &always}, {Name: "i"}}, Containers: []v1.Container{{Name: "a"}, {Name: "b"}}},
				Status: v1.PodStatus{Phase: v1.PodFailed, InitContainerStatuses: c.init, ContainerStatuses: c.main},
			}
			s := &subject{pod: pod, released: true}
			if got := s.end(time.Unix(1000, 0)); got.outcome != Failed || got.reason != c.reason || got.message != c.message {
				t.Errorf("%+v, want %s: %s", got, c.reason, c.message)
			}
		})
	}
}
