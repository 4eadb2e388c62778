package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/proberesult"
	"github.com/podwright/podwright/runtime"
)

// brief is the part of a container status the table below speaks of.
type brief struct {
	State    string // "W:reason", "R", "T:code:reason"
	Last     string
	Restarts int32
}

func briefState(s v1.ContainerState) string {
	switch {
	case s.Waiting != nil:
		return "W:" + s.Waiting.Reason
	case s.Running != nil:
		return "R"
	case s.Terminated != nil:
		return "T:" + string(rune('0'+s.Terminated.ExitCode/100)) + string(rune('0'+s.Terminated.ExitCode/10%10)) + string(rune('0'+s.Terminated.ExitCode%10)) + ":" + s.Terminated.Reason
	}
	return ""
}

func briefOf(cs *v1.ContainerStatus) brief {
	return brief{State: briefState(cs.State), Last: briefState(cs.LastTerminationState), Restarts: cs.RestartCount}
}

// oldStatus makes the old status of container "c".
func oldStatus(shorthand string, restarts int32) *v1.ContainerStatus {
	cs := state("c", shorthand)
	cs.RestartCount = restarts
	return cs
}

// TestContainerState is spec/status.md 3.1-3.7 row by row, for the app container
// "c" of a pod with policy Always unless said otherwise.
func TestContainerState(t *testing.T) {
	running := func(n int) *runtime.ContainerStatus { return record("c", n, runtime.Running) }
	unknown := record("c", 0, runtime.Unknown)
	backoff := map[string]WaitingReason{"c": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
	stuck := record("c", 0, runtime.Unknown)
	stuck.RestartCount = 4
	lowCount := running(2)
	lowCount.RestartCount = 1
	oldWithLast := oldStatus("W1", 1)
	for _, test := range []struct {
		rule    string
		options []podOption
		old     *v1.ContainerStatus
		records []*runtime.ContainerStatus
		waiting map[string]WaitingReason
		want    brief
	}{
		{rule: "3.1", want: brief{State: "W:ContainerCreating"}},
		{rule: "3.1 with init", options: []podOption{inits("i")}, want: brief{State: "W:PodInitializing"}},
		{rule: "3.2 terminated is the start", old: oldStatus("T1", 3), want: brief{State: "T:001:", Restarts: 3}},
		{rule: "3.2 carried over", old: oldWithLast, want: brief{State: "W:ContainerCreating", Last: "T:001:", Restarts: 1}},
		{rule: "3.3 running", records: []*runtime.ContainerStatus{running(0)}, want: brief{State: "R"}},
		{rule: "3.3 created", records: []*runtime.ContainerStatus{record("c", 0, runtime.Created)}, want: brief{State: "W:"}},
		{rule: "3.3 exited", records: []*runtime.ContainerStatus{exited("c", 0, 3)}, want: brief{State: "T:003:Error"}},
		{rule: "3.3 second is lastState", records: []*runtime.ContainerStatus{running(2), exited("c", 1, 3), exited("c", 0, 4)}, want: brief{State: "R", Last: "T:003:Error", Restarts: 2}},
		{rule: "3.3 unknown, was running", old: oldStatus("R", 3), records: []*runtime.ContainerStatus{unknown}, want: brief{State: "T:137:ContainerStatusUnknown", Restarts: 4}},
		{rule: "3.3 unknown otherwise", old: oldStatus("W", 0), records: []*runtime.ContainerStatus{unknown}, want: brief{State: "W:"}},
		{rule: "3.3 unknown, end known", old: oldStatus("T3", 0), records: []*runtime.ContainerStatus{unknown}, want: brief{State: "T:003:"}},
		{rule: "3.4 edge 3", old: oldStatus("R", 2), want: brief{State: "W:ContainerCreating", Last: "T:137:ContainerStatusUnknown", Restarts: 3}},
		{rule: "3.4 edge 4", options: []podOption{deleted}, old: oldStatus("R", 2), want: brief{State: "W:ContainerCreating", Last: "T:137:ContainerStatusUnknown", Restarts: 2}},
		{rule: "3.4, HI8 it runs once", options: []podOption{policy(never)}, old: oldStatus("R", 0), waiting: backoff, want: brief{State: "T:137:ContainerStatusUnknown"}},
		{rule: "3.4, HI8 it runs once, deleted", options: []podOption{policy(never), deleted}, old: oldStatus("R", 0), want: brief{State: "T:137:ContainerStatusUnknown"}},
		{rule: "3.6 exited", records: []*runtime.ContainerStatus{exited("c", 0, 1)}, waiting: backoff, want: brief{State: "W:CrashLoopBackOff", Last: "T:001:Error"}},
		{rule: "3.6 no entry", records: []*runtime.ContainerStatus{exited("c", 0, 1)}, want: brief{State: "T:001:Error"}},
		{rule: "3.6 never created", waiting: map[string]WaitingReason{"c": {Reason: "ErrImagePull"}}, want: brief{State: "W:ErrImagePull"}},
		{rule: "3.6 created", records: []*runtime.ContainerStatus{record("c", 0, runtime.Created)}, waiting: map[string]WaitingReason{"c": {Reason: "RunContainerError"}}, want: brief{State: "W:RunContainerError"}},
		{rule: "3.6 running", records: []*runtime.ContainerStatus{running(0)}, waiting: backoff, want: brief{State: "R"}},
		{rule: "3.6 not restarted", options: []podOption{policy(never)}, records: []*runtime.ContainerStatus{exited("c", 0, 1)}, waiting: backoff, want: brief{State: "T:001:Error"}},
		{rule: "3.6 deleted", options: []podOption{deleted}, records: []*runtime.ContainerStatus{exited("c", 0, 1)}, waiting: backoff, want: brief{State: "T:001:Error"}},
		{rule: "3.7 never down", old: oldStatus("R", 5), records: []*runtime.ContainerStatus{lowCount}, want: brief{State: "R", Restarts: 5}},
		{rule: "3.7 from the record", old: oldStatus("R", 1), records: []*runtime.ContainerStatus{running(2)}, want: brief{State: "R", Restarts: 2}},
		{rule: "3.7 created has not run", records: []*runtime.ContainerStatus{record("c", 1, runtime.Created), exited("c", 0, 3)}, want: brief{State: "W:", Last: "T:003:Error"}},
		{rule: "3.7 created, the record of the run before removed", old: oldStatus("T3", 1), records: []*runtime.ContainerStatus{record("c", 2, runtime.Created)}, want: brief{State: "W:", Last: "T:003:", Restarts: 1}},
		{rule: "3.7 created after forgotten runs", records: []*runtime.ContainerStatus{record("c", 4, runtime.Created)}, want: brief{State: "W:", Restarts: 4}},
		{rule: "3.7 created never takes the count down", old: oldStatus("W1", 5), records: []*runtime.ContainerStatus{record("c", 1, runtime.Created), exited("c", 0, 1)}, want: brief{State: "W:", Last: "T:001:Error", Restarts: 5}},
		{rule: "9.1 an end once seen is not lost with its record", old: oldStatus("T3", 0), records: []*runtime.ContainerStatus{running(1)}, want: brief{State: "R", Last: "T:003:", Restarts: 1}},
		{rule: "3.3 waiting after this run, no run before", old: oldStatus("W1", 0), records: []*runtime.ContainerStatus{exited("c", 0, 1)}, want: brief{State: "T:001:Error"}},
		{rule: "3.3 unknown keeps the higher count", old: oldStatus("R", 3), records: []*runtime.ContainerStatus{stuck}, want: brief{State: "T:137:ContainerStatusUnknown", Restarts: 4}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			pod := newPod(append(test.options, apps("c"))...)
			old := &v1.PodStatus{Phase: v1.PodPending}
			if test.old != nil {
				old.ContainerStatuses = []v1.ContainerStatus{*test.old}
			}
			s := generate(t, Input{Pod: pod, Old: old, Runtime: view(test.records...), Waiting: test.waiting})
			if d := cmp.Diff(test.want, briefOf(&s.ContainerStatuses[0])); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestLostContainerIsNotPending: 3.4, edge 3: the pod does not fall back.
func TestLostContainerIsNotPending(t *testing.T) {
	s := generate(t, Input{
		Pod: newPod(apps("c")), Runtime: view(),
		Old: &v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{*oldStatus("R", 0)}},
	})
	if s.Phase != v1.PodRunning {
		t.Errorf("phase %s, want Running", s.Phase)
	}
}

// TestInitStates: spec/status.md 3.5.
func TestInitStates(t *testing.T) {
	backoff := map[string]WaitingReason{"i": {Reason: "CrashLoopBackOff"}}
	old := func(shorthand string) *v1.PodStatus {
		cs := state("i", shorthand)
		return &v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{*cs}}
	}
	elsewhere := exited("a", 0, 1)
	elsewhere.SandboxID = "sb-old"
	killed := exited("i", 0, 0)
	killed.Reason = "OOMKilled"
	forgotten := old("T0")
	forgotten.InitContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
	own := func(policy v1.ContainerRestartPolicy) podOption {
		return func(p *v1.Pod) {
			inits("i")(p)
			p.Spec.InitContainers[0].RestartPolicy = &policy
		}
	}
	for _, test := range []struct {
		rule    string
		init    podOption
		old     *v1.PodStatus
		records []*runtime.ContainerStatus
		waiting map[string]WaitingReason
		want    string
	}{
		{rule: "3.5 succeeded is left alone", init: inits("i"), records: []*runtime.ContainerStatus{exited("i", 0, 0)}, waiting: backoff, want: "T:000:Completed"},
		{rule: "3.5 sidecar too", init: sidecars("i"), records: []*runtime.ContainerStatus{exited("i", 0, 0)}, waiting: backoff, want: "T:000:Completed"},
		{rule: "3.6 failed", init: inits("i"), records: []*runtime.ContainerStatus{exited("i", 0, 1)}, waiting: backoff, want: "W:CrashLoopBackOff"},
		{rule: "3.6 killed for memory", init: inits("i"), records: []*runtime.ContainerStatus{killed}, waiting: backoff, want: "W:CrashLoopBackOff"},
		{rule: "3.6 under OnFailure", init: own("OnFailure"), records: []*runtime.ContainerStatus{killed}, waiting: backoff, want: "W:CrashLoopBackOff"},
		{rule: "3.6 under Never", init: own("Never"), records: []*runtime.ContainerStatus{killed}, waiting: backoff, want: "T:000:OOMKilled"},
		{rule: "3.6 its record is lost", init: own("OnFailure"), old: forgotten, waiting: backoff, want: "W:CrashLoopBackOff"},
		{rule: "3.5 lost record", init: inits("i"), records: []*runtime.ContainerStatus{record("a", 0, runtime.Running)}, want: "T:000:Completed"},
		{rule: "3.5 lost record, was running", init: inits("i"), old: old("R"), records: []*runtime.ContainerStatus{record("a", 0, runtime.Running)}, want: "T:000:Completed"},
		{rule: "3.5 lost record of a sidecar", init: sidecars("i"), records: []*runtime.ContainerStatus{record("a", 0, runtime.Running)}, want: "W:PodInitializing"},
		{rule: "3.5 app of an older sandbox", init: inits("i"), records: []*runtime.ContainerStatus{elsewhere}, want: "W:PodInitializing"},
	} {
		t.Run(test.rule, func(t *testing.T) {
			s := generate(t, Input{Pod: newPod(test.init, apps("a")), Old: test.old, Runtime: view(test.records...), Waiting: test.waiting})
			if got := briefState(s.InitContainerStatuses[0].State); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestEphemeralStates: they follow 3.1-3.3, never run twice and never count as
// ready (4.3).
func TestEphemeralStates(t *testing.T) {
	in := Input{
		Pod: newPod(apps("a"), debuggers("d")), Runtime: view(exited("d", 0, 1)),
		Waiting: map[string]WaitingReason{"d": {Reason: "CrashLoopBackOff"}},
	}
	s := generate(t, in)
	if got := briefState(s.EphemeralContainerStatuses[0].State); got != "T:001:Error" {
		t.Errorf("exited: %s", got)
	}
	in.Runtime = view(record("d", 0, runtime.Running))
	s = generate(t, in)
	if cs := s.EphemeralContainerStatuses[0]; cs.State.Running == nil || cs.Started != nil || cs.Ready {
		t.Errorf("running: %+v", cs)
	}
}

// TestContainerFields: the table under spec/status.md 3.9, and 6.6.
func TestContainerFields(t *testing.T) {
	pod := newPod(apps("a"))
	c := &pod.Spec.Containers[0]
	c.Resources = v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")},
		Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")},
	}
	c.VolumeMounts = []v1.VolumeMount{
		{Name: "rw", MountPath: "/rw"},
		{Name: "ro", MountPath: "/ro", ReadOnly: true},
		{Name: "rro", MountPath: "/rro", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyEnabled)},
		{Name: "maybe", MountPath: "/maybe", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyIfPossible)},
	}
	r := exited("a", 2, 7)
	r.Message = "out of luck"
	s := generate(t, Input{Pod: pod, Runtime: view(r)})
	want := v1.ContainerStatus{
		Name: "a", Image: "img/a", ImageID: "img/a@sha256:1", ContainerID: "fake://a-2", RestartCount: 2, Started: ptr.To(false),
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: 7, Reason: "Error", Message: "out of luck", ContainerID: "fake://a-2",
			StartedAt: metav1.Time{Time: t0}, FinishedAt: metav1.Time{Time: t1},
		}},
		AllocatedResources: c.Resources.Requests,
		Resources:          &c.Resources,
		VolumeMounts: []v1.VolumeMountStatus{
			{Name: "rw", MountPath: "/rw"},
			{Name: "ro", MountPath: "/ro", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyDisabled)},
			{Name: "rro", MountPath: "/rro", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyEnabled)},
			{Name: "maybe", MountPath: "/maybe", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyDisabled)},
		},
	}
	if d := cmp.Diff(want, s.ContainerStatuses[0]); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}

	t.Run("never created", func(t *testing.T) {
		s := generate(t, Input{Pod: pod, Runtime: view()})
		if cs := s.ContainerStatuses[0]; cs.ContainerID != "" || cs.AllocatedResources != nil || cs.Resources != nil || cs.Image != "img/a" {
			t.Errorf("%+v", cs)
		}
	})
	t.Run("IfPossible where it is possible", func(t *testing.T) {
		r := *r
		r.RecursiveReadOnly = []string{"/rro", "/maybe"}
		s := generate(t, Input{Pod: pod, Runtime: view(&r)})
		if got := *s.ContainerStatuses[0].VolumeMounts[3].RecursiveReadOnly; got != v1.RecursiveReadOnlyEnabled {
			t.Errorf("%s", got)
		}
	})
	t.Run("user and stop signal", func(t *testing.T) {
		r := record("a", 0, runtime.Running)
		r.User, r.StopSignal = &runtime.User{UID: 7, GID: 8, Groups: []int64{8, 9}}, "SIGUSR1"
		s := generate(t, Input{Pod: pod, Runtime: view(r)})
		cs := s.ContainerStatuses[0]
		want := &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: 7, GID: 8, SupplementalGroups: []int64{8, 9}}}
		if d := cmp.Diff(want, cs.User); d != "" || cs.StopSignal == nil || *cs.StopSignal != v1.SIGUSR1 {
			t.Errorf("stop signal %v, user -want +got:\n%s", cs.StopSignal, d)
		}
		again := generate(t, Input{Pod: pod, Runtime: view(r), Old: &s}).ContainerStatuses[0]
		if again.User != cs.User || again.StopSignal != cs.StopSignal {
			t.Error("what did not change was made again")
		}
	})
	t.Run("6.6 no resources are {}", func(t *testing.T) {
		for _, r := range []*runtime.ContainerStatus{record("a", 0, runtime.Running), exited("a", 0, 0)} {
			cs := generate(t, Input{Pod: newPod(apps("a")), Runtime: view(r)}).ContainerStatuses[0]
			if d := cmp.Diff(&v1.ResourceRequirements{}, cs.Resources); d != "" || cs.AllocatedResources != nil {
				t.Errorf("allocated %v, -want +got:\n%s", cs.AllocatedResources, d)
			}
		}
	})
	t.Run("6.6 a running container keeps what it was reported with", func(t *testing.T) {
		in := Input{Pod: pod, Runtime: view(record("a", 0, runtime.Running))}
		old := generate(t, in)
		in.Old, in.Pod = &old, pod.DeepCopy()
		in.Pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
		s := generate(t, in)
		if got := s.ContainerStatuses[0].Resources.Requests.Cpu().String(); got != "100m" {
			t.Errorf("same run: %s", got)
		}
		in.Runtime = view(record("a", 1, runtime.Running))
		s = generate(t, in)
		if got := s.ContainerStatuses[0].Resources.Requests.Cpu().String(); got != "2" {
			t.Errorf("next run: %s", got)
		}
	})
	t.Run("unknown names are ignored", func(t *testing.T) {
		s := generate(t, Input{Pod: pod, Runtime: view(record("stranger", 0, runtime.Running))})
		if len(s.ContainerStatuses) != 1 {
			t.Errorf("%d statuses", len(s.ContainerStatuses))
		}
	})
}

// TestStartedAndReady: spec/status.md 4.
func TestStartedAndReady(t *testing.T) {
	facts := func(startup, readiness proberesult.Result) *ProbeFacts { return &ProbeFacts{startup, readiness} }
	for _, test := range []struct {
		rule           string
		old            *v1.ContainerStatus
		record         *runtime.ContainerStatus
		facts          *ProbeFacts
		started, ready bool
	}{
		{rule: "4.1 not running", record: exited("c", 0, 0), facts: facts(proberesult.Success, proberesult.Success)},
		{rule: "4.1 no probes at all", record: record("c", 0, runtime.Running), started: true, ready: true},
		{rule: "4.1 no probe of this container", record: record("c", 0, runtime.Running), facts: facts(proberesult.None, proberesult.None), started: true, ready: true},
		{rule: "4.1 startup failed", record: record("c", 0, runtime.Running), facts: facts(proberesult.Failure, proberesult.Success)},
		{rule: "4.1 startup pending", record: record("c", 0, runtime.Running), facts: facts(proberesult.Unknown, proberesult.Success)},
		{rule: "4.1 startup pending, was started", old: oldStatus("R", 0), record: record("c", 0, runtime.Running), facts: facts(proberesult.Unknown, proberesult.Success), started: true, ready: true},
		{rule: "4.1 was started, but another run", old: oldStatus("R", 0), record: record("c", 1, runtime.Running), facts: facts(proberesult.Unknown, proberesult.Success)},
		{rule: "4.1 result beats what was", old: oldStatus("R", 0), record: record("c", 0, runtime.Running), facts: facts(proberesult.Failure, proberesult.Success)},
		{rule: "4.2 ready", record: record("c", 0, runtime.Running), facts: facts(proberesult.Success, proberesult.Success), started: true, ready: true},
		{rule: "4.2 readiness pending", record: record("c", 0, runtime.Running), facts: facts(proberesult.Success, proberesult.Unknown), started: true},
		{rule: "4.2 readiness failed", record: record("c", 0, runtime.Running), facts: facts(proberesult.None, proberesult.Failure), started: true},
	} {
		t.Run(test.rule, func(t *testing.T) {
			in := Input{Pod: newPod(apps("c")), Runtime: view(test.record), Old: &v1.PodStatus{}}
			if test.old != nil {
				in.Old.ContainerStatuses = []v1.ContainerStatus{*test.old}
			}
			if test.facts != nil {
				in.Probes = func(name string, of runtime.ContainerID) ProbeFacts {
					if name != "c" || of != test.record.ID {
						t.Errorf("asked for %s %s", name, of)
					}
					return *test.facts
				}
			}
			cs := generate(t, in).ContainerStatuses[0]
			if *cs.Started != test.started || cs.Ready != test.ready {
				t.Errorf("started %t, ready %t; want %t, %t", *cs.Started, cs.Ready, test.started, test.ready)
			}
		})
	}
	t.Run("4.3 regular init", func(t *testing.T) {
		for code, want := range map[int32]bool{0: true, 1: false} {
			s := generate(t, Input{Pod: newPod(inits("i"), apps("a")), Runtime: view(exited("i", 0, code))})
			if s.InitContainerStatuses[0].Ready != want {
				t.Errorf("exit %d: ready %t", code, !want)
			}
		}
		s := generate(t, Input{Pod: newPod(inits("i"), apps("a")), Runtime: view(record("i", 0, runtime.Running))})
		if s.InitContainerStatuses[0].Ready {
			t.Error("running init container is ready")
		}
		killed := exited("i", 0, 0)
		killed.Reason = "OOMKilled"
		s = generate(t, Input{Pod: newPod(inits("i"), apps("a"), policy(v1.RestartPolicyOnFailure)), Runtime: view(killed)})
		if s.InitContainerStatuses[0].Ready || condition(&s, v1.PodInitialized).Status != v1.ConditionFalse {
			t.Errorf("after a kill for memory: ready %t, %+v", s.InitContainerStatuses[0].Ready, condition(&s, v1.PodInitialized))
		}
	})
	t.Run("4.2 sidecar", func(t *testing.T) {
		s := generate(t, Input{Pod: newPod(sidecars("s"), apps("a")), Runtime: view(record("s", 0, runtime.Running))})
		if !s.InitContainerStatuses[0].Ready {
			t.Error("running sidecar is not ready")
		}
	})
}
