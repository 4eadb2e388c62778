package status

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
)

// generate runs Generate and checks what holds for every call (spec/status.md
// 1.3): no argument is changed, and feeding the result back in gives the same status again.
func generate(t *testing.T, in Input) v1.PodStatus {
	t.Helper()
	if in.Now.IsZero() {
		in.Now = t2
	}
	pod, old := in.Pod.DeepCopy(), in.Old.DeepCopy()
	got := Generate(in)
	if d := cmp.Diff(pod, in.Pod); d != "" {
		t.Errorf("Generate changed the pod (-before +after):\n%s", d)
	}
	if d := cmp.Diff(old, in.Old); d != "" {
		t.Errorf("Generate changed the old status (-before +after):\n%s", d)
	}
	again := in
	again.Old, again.Now = &got, in.Now.Add(1e9)
	if d := cmp.Diff(got, Generate(again)); d != "" {
		t.Errorf("Generate is not stable (-first +second):\n%s", d)
	}
	return got
}

// Spec/status.md 2.4, 2.5.
func TestTerminalPhaseSticks(t *testing.T) {
	evicted := &override{Reason: "Evicted", Message: "low on disk"}
	for _, test := range []struct {
		rule     string
		old, api v1.PodPhase
		forced   *override
		want     v1.PodPhase
		reason   string
	}{
		{rule: "2.4 computed", old: v1.PodPending, api: v1.PodPending, want: v1.PodRunning},
		{rule: "2.4 unchanged keeps reason", old: v1.PodRunning, api: v1.PodPending, want: v1.PodRunning, reason: "old"},
		{rule: "2.4 cached terminal wins", old: v1.PodFailed, api: v1.PodRunning, want: v1.PodFailed, reason: "old"},
		{rule: "2.4 API terminal wins, edge 6", old: v1.PodRunning, api: v1.PodFailed, want: v1.PodFailed, reason: "api"},
		{rule: "2.4 API forced, edge 5", old: v1.PodFailed, api: v1.PodSucceeded, want: v1.PodSucceeded, reason: "api"},
		{rule: "2.5 forced", old: v1.PodRunning, api: v1.PodRunning, forced: evicted, want: v1.PodFailed, reason: "Evicted"},
		{rule: "2.5 API Succeeded is stronger", old: v1.PodRunning, api: v1.PodSucceeded, forced: evicted, want: v1.PodSucceeded, reason: "api"},
	} {
		t.Run(test.rule, func(t *testing.T) {
			pod := newPod(apps("a"))
			pod.Status.Phase, pod.Status.Reason = test.api, "api"
			got := generate(t, Input{
				Pod: pod, Runtime: view(record("a", 0, runtime.Running)), override: test.forced,
				Old: &v1.PodStatus{Phase: test.old, Reason: "old", Message: "old message"},
			})
			if got.Phase != test.want || got.Reason != test.reason {
				t.Errorf("%s (%q), want %s (%q)", got.Phase, got.Reason, test.want, test.reason)
			}
		})
	}
}

// Spec/status.md 2.4, 5.2: a pod that was evicted has failed, and its conditions say so, although its containers end
// with 0.
func TestTerminalPhaseWinsOverAnotherEnd(t *testing.T) {
	for _, c := range []struct {
		old, want v1.PodPhase
		code      int32
		condition string
	}{
		{v1.PodFailed, v1.PodFailed, 0, "PodFailed"},
		{v1.PodSucceeded, v1.PodSucceeded, 1, "PodCompleted"},
		{v1.PodRunning, v1.PodSucceeded, 0, "PodCompleted"},
	} {
		end := record("a", 0, runtime.Exited)
		end.ExitCode = c.code
		got := generate(t, Input{
			Pod: newPod(apps("a")), Runtime: view(end), Terminal: true, Old: &v1.PodStatus{Phase: c.old, Reason: "Evicted", Message: "low on disk"},
		})
		if got.Phase != c.want || got.Phase == c.old && got.Reason != "Evicted" {
			t.Errorf("after %s: %s (%q), want %s", c.old, got.Phase, got.Reason, c.want)
		}
		if ready := conditionOf(got.Conditions, v1.PodReady); ready == nil || ready.Reason != c.condition {
			t.Errorf("after %s: %+v, want %s", c.old, ready, c.condition)
		}
	}
	in := Input{Pod: newPod(apps("a")), Runtime: view(record("a", 0, runtime.Exited)), Terminal: true, Old: &v1.PodStatus{Phase: v1.PodSucceeded}}
	in.Amend = func(s *v1.PodStatus) {
		s.Phase, s.Reason, s.Message = v1.PodFailed, "Evicted", "low on disk"
		s.Conditions = append(s.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue})
	}
	got := generate(t, in)
	if ready := conditionOf(got.Conditions, v1.PodReady); got.Phase != v1.PodSucceeded || got.Reason != "" || ready.Reason != "PodCompleted" || conditionOf(got.Conditions, v1.DisruptionTarget) != nil {
		t.Errorf("evicted after it had succeeded: %+v", got)
	}
}

// Made by an override or a status function, then copied
// from the old status (5.5).
func TestDisruptionTargetIsMadeOnceAndKept(t *testing.T) {
	pod := newPod(apps("a"))
	in := Input{Pod: pod, Runtime: view(record("a", 0, runtime.Running)), override: &override{Reason: "Evicted", DisruptionTarget: "low on disk"}}
	first := generate(t, in)
	c := condition(&first, v1.DisruptionTarget)
	if c.Status != v1.ConditionTrue || c.Reason != "TerminationByKubelet" || c.Message != "low on disk" || !c.LastTransitionTime.Time.Equal(t2) {
		t.Errorf("after the override: %+v", c)
	}
	in.override, in.Old, in.Now = nil, &first, t2.Add(1e10)
	if second := generate(t, in); !cmp.Equal(condition(&second, v1.DisruptionTarget), c) || second.Phase != v1.PodFailed || second.Reason != "Evicted" {
		t.Errorf("not carried over: %+v", second)
	}
	in.Old = nil
	in.Amend = func(s *v1.PodStatus) {
		s.Phase, s.Reason = v1.PodFailed, "Preempting"
		s.Conditions = append(s.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet"})
	}
	if s := generate(t, in); s.Phase != v1.PodFailed || s.Reason != "Preempting" || condition(&s, v1.DisruptionTarget).Status != v1.ConditionTrue {
		t.Errorf("status function not applied: %+v", s)
	}
}

// Spec/status.md 2.6.
func TestRejectedPodHasNoContainers(t *testing.T) {
	pod := newPod(apps("a"), inits("i"))
	s := Rejected(Input{Pod: pod, Now: t1, NodeIPs: []string{"10.1.0.1"}}, "NodePorts", "port 80 is taken")
	if s.Phase != v1.PodFailed || s.Reason != "NodePorts" || s.Message != "port 80 is taken" {
		t.Errorf("phase %s, reason %q, message %q", s.Phase, s.Reason, s.Message)
	}
	if len(s.ContainerStatuses)+len(s.InitContainerStatuses) > 0 {
		t.Error("a rejected pod has container statuses")
	}
	if s.QOSClass != v1.PodQOSBestEffort || !s.StartTime.Time.Equal(t1) || s.HostIP != "10.1.0.1" {
		t.Errorf("QoS %s, start %v, host %s", s.QOSClass, s.StartTime, s.HostIP)
	}
	for _, c := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady, v1.PodInitialized} {
		if got := condition(&s, c); got.Status != v1.ConditionFalse || got.Reason != reasonUnknownStatuses {
			t.Errorf("%s: %+v", c, got)
		}
	}
	pod.Status.Phase = v1.PodSucceeded
	if s := Rejected(Input{Pod: pod, Now: t1}, "NodePorts", ""); s.Phase != v1.PodSucceeded || s.Reason != "" {
		t.Errorf("a finished pod became %s (%s)", s.Phase, s.Reason)
	}
}

// 3.11: what quotes a manifest or a runtime is bounded, and does not change once it is.
func TestMessagesAreBounded(t *testing.T) {
	long := "no image " + strings.Repeat("x", 1<<20) + ": not found"
	bounded := func(what, text string) {
		t.Helper()
		if len(text) > 1024 || !strings.HasSuffix(text, ": not found") {
			t.Errorf("%s has %d bytes", what, len(text))
		}
	}
	pod := newPod(apps("a"))
	s := generate(t, Input{Pod: pod, Waiting: map[string]WaitingReason{"a": {Reason: "ErrImagePull", Message: long}}})
	bounded("waiting", s.ContainerStatuses[0].State.Waiting.Message)
	s = generate(t, Input{Pod: pod, Amend: func(s *v1.PodStatus) { s.Phase, s.Reason, s.Message = v1.PodFailed, "Evicted", long }})
	bounded("amended", s.Message)
	bounded("rejected", Rejected(Input{Pod: pod, Now: t1}, "NodePorts", long).Message)
}

// Init statuses in the order of the spec, the others by name, and the
// same bytes whatever the order of the runtime's records (3.9).
func TestStatusesKeepTheOrderOfTheSpec(t *testing.T) {
	pod := newPod(inits("z", "b"), apps("y", "x"), debuggers("v", "u"))
	records := []*runtime.ContainerStatus{
		exited("z", 0, 0), exited("b", 0, 0), record("y", 0, runtime.Running), record("x", 0, runtime.Running), record("u", 0, runtime.Running),
	}
	s := generate(t, Input{Pod: pod, Runtime: view(records...)})
	names := func(list []v1.ContainerStatus) (out []string) {
		for i := range list {
			out = append(out, list[i].Name)
		}
		return out
	}
	if got := names(s.InitContainerStatuses); !slices.Equal(got, []string{"z", "b"}) {
		t.Errorf("init %v", got)
	}
	if got := names(s.ContainerStatuses); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("app %v", got)
	}
	if got := names(s.EphemeralContainerStatuses); !slices.Equal(got, []string{"u", "v"}) {
		t.Errorf("ephemeral %v", got)
	}
	want, _ := json.Marshal(s)
	slices.Reverse(records)
	other := generate(t, Input{Pod: pod, Runtime: view(records...)})
	if got, _ := json.Marshal(other); !bytes.Equal(got, want) {
		t.Errorf("other order, other bytes:\n%s\n%s", want, got)
	}
}

// TestFields: start time, generation, QoS (6.4, 6.5, 5.8).
func TestFields(t *testing.T) {
	pod := newPod(apps("a"))
	pod.Generation = 3
	in := Input{Pod: pod, Runtime: view(), Now: t1.Add(1)}
	s := generate(t, in)
	if !s.StartTime.Time.Equal(t1) || s.ObservedGeneration != 3 || s.QOSClass != v1.PodQOSBestEffort {
		t.Errorf("start %v, generation %d, QoS %s", s.StartTime, s.ObservedGeneration, s.QOSClass)
	}
	in.Now, pod.Generation, pod.Status.QOSClass = t2, 2, v1.PodQOSBurstable
	in.Old = &v1.PodStatus{StartTime: &metav1.Time{Time: t0}, ObservedGeneration: 3, QOSClass: v1.PodQOSBestEffort}
	s = generate(t, in)
	if !s.StartTime.Time.Equal(t0) || s.ObservedGeneration != 3 || s.QOSClass != v1.PodQOSBestEffort {
		t.Errorf("start %v, generation %d, QoS %s: all must stay", s.StartTime, s.ObservedGeneration, s.QOSClass)
	}
	pod.Status.StartTime, in.Old = &metav1.Time{Time: t0}, nil
	if s = generate(t, in); !s.StartTime.Time.Equal(t0) {
		t.Errorf("start %v, want that of the API", s.StartTime)
	}
	// Without a remembered time, the oldest sandbox determines it.
	pod.Status.StartTime = nil
	in.Runtime.Sandboxes = []*runtime.SandboxStatus{{ID: "s2", CreatedAt: t1}, {ID: "s1", CreatedAt: t0}}
	if s = generate(t, in); !s.StartTime.Time.Equal(t0) {
		t.Errorf("start %v, want that of the oldest sandbox", s.StartTime)
	}
}

// TestAddresses: spec/status.md 6.1-6.3, 1.4.
func TestAddresses(t *testing.T) {
	v4, v6, other4 := "10.0.0.7", "fd00::7", "10.0.0.8"
	host4, host6 := "192.168.0.1", "fd01::1"
	terminal := func(in *Input) { in.Terminal = true }
	for _, test := range []struct {
		rule    string
		options []podOption
		runtime []string
		node    []string
		old     []string
		change  func(*Input)
		want    []string
		hosts   []string
	}{
		{rule: "6.1 edge 26 dual stack on a v4 node", runtime: []string{v6, v4, other4}, node: []string{host4}, want: []string{v4, v6}, hosts: []string{host4}},
		{rule: "6.1 v6 node", runtime: []string{v4, v6}, node: []string{host6, host4}, want: []string{v6, v4}, hosts: []string{host6, host4}},
		{rule: "6.1 node unknown: v4 first", runtime: []string{v6, v4}, want: []string{v4, v6}},
		{rule: "6.1 canonical text", runtime: []string{"FD00:0:0::7"}, node: []string{host4}, want: []string{v6}, hosts: []string{host4}},
		{rule: "6.1 sandbox gone: no address", old: []string{v4}, want: nil},
		{rule: "6.2 at most two", node: []string{host4, "192.168.0.2", host6}, hosts: []string{host4, host6}},
		{rule: "6.3 host network", options: []podOption{hostNetwork}, node: []string{host4}, want: []string{host4}, hosts: []string{host4}},
		{rule: "6.3 edge 27 node becomes dual-stack", options: []podOption{hostNetwork}, old: []string{host4}, node: []string{host6, host4}, want: []string{host4, host6}, hosts: []string{host6, host4}},
		{rule: "6.3 once set they stay", options: []podOption{hostNetwork}, old: []string{host4}, node: []string{"192.168.0.9"}, want: []string{host4}, hosts: []string{"192.168.0.9"}},
		{rule: "1.4 stopped pod", old: []string{v4}, change: terminal, want: []string{v4}},
		{rule: "1.4 deleted pod", options: []podOption{deleted}, old: []string{v4, v6}, want: []string{v4, v6}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			r := view()
			r.IPs = test.runtime
			old := &v1.PodStatus{}
			for _, ip := range test.old {
				old.PodIP = test.old[0]
				old.PodIPs = append(old.PodIPs, v1.PodIP{IP: ip})
			}
			in := Input{Pod: newPod(append(test.options, apps("a"))...), Runtime: r, NodeIPs: test.node, Old: old}
			if test.change != nil {
				test.change(&in)
			}
			s := generate(t, in)
			var got, hosts []string
			for _, ip := range s.PodIPs {
				got = append(got, ip.IP)
			}
			for _, ip := range s.HostIPs {
				hosts = append(hosts, ip.IP)
			}
			if !slices.Equal(got, test.want) || !slices.Equal(hosts, test.hosts) {
				t.Errorf("pod %v, host %v; want %v, %v", got, hosts, test.want, test.hosts)
			}
			if len(got) > 0 && s.PodIP != got[0] || len(hosts) > 0 && s.HostIP != hosts[0] {
				t.Errorf("podIP %q, hostIP %q are not the first of %v, %v", s.PodIP, s.HostIP, got, hosts)
			}
		})
	}
}

// Without an own last status, that of the API counts (1.1, 1.2).
func TestStatusOfTheAPICountsWithoutAnOwn(t *testing.T) {
	pod := newPod(apps("c"))
	pod.Status = v1.PodStatus{
		Phase: v1.PodRunning, Reason: "kept", PodIPs: []v1.PodIP{{IP: "10.0.0.9"}},
		ContainerStatuses: []v1.ContainerStatus{*oldStatus("T3", 4)},
	}
	s := generate(t, Input{Pod: pod, Terminal: true})
	if got := briefOf(&s.ContainerStatuses[0]); got != (brief{"T:003:", "", 4}) || s.PodIPs[0].IP != "10.0.0.9" {
		t.Errorf("%+v, %v", got, s.PodIPs)
	}
	if s.Phase != v1.PodFailed || s.Reason != "" { // all stopped, and the reason belonged to Running
		t.Errorf("%s (%s)", s.Phase, s.Reason)
	}
	s = generate(t, Input{Pod: pod, Old: &v1.PodStatus{}})
	if got := briefOf(&s.ContainerStatuses[0]); got.Restarts != 0 {
		t.Errorf("the API status was used beside an own one: %+v", got)
	}
}

// What others write is copied from the API (6.8, 5.1).
func TestForeignFieldsAreCopied(t *testing.T) {
	pod := newPod(apps("a"))
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("claim-1")}}
	pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/mesh", Status: v1.ConditionTrue, Reason: "Injected"}}
	s := generate(t, Input{Pod: pod, Runtime: view()})
	if !cmp.Equal(s.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses) {
		t.Error("resource claims not copied")
	}
	if !cmp.Equal(s.Conditions[0], pod.Status.Conditions[0]) {
		t.Errorf("foreign condition changed: %+v", s.Conditions[0])
	}
}
