package resize_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods/internal/resize"
)

// list reads "cpu=1 memory=2Gi".
func list(text string) v1.ResourceList {
	var out v1.ResourceList
	for field := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(field, "=")
		if out == nil {
			out = v1.ResourceList{}
		}
		out[v1.ResourceName(name)] = resource.MustParse(value)
	}
	return out
}

func needs(requests, limits string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

// pod has one container "a" with these resources.
func pod(requests, limits string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a", Resources: needs(requests, limits)}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func restart(name v1.ResourceName) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: name, RestartPolicy: v1.RestartContainer}}
	}
}

// level gives the pod as a whole resources.
func level(requests, limits string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Resources = ptr.To(needs(requests, limits)) }
}

// spec/runtime.md 21.4: what is admitted, deferred and infeasible; 21.3: only CPU and
// memory.
func TestResizesAreAdmittedDeferredOrInfeasible(t *testing.T) {
	node := func(change ...func(*resize.Node)) resize.Node {
		n := resize.Node{Allocatable: list("cpu=4 memory=8Gi")}
		for _, c := range change {
			c(&n)
		}
		return n
	}
	static := node(func(n *resize.Node) { n.StaticCPU, n.StaticMemory = true, true })
	swap := node(func(n *resize.Node) { n.Swap = true })
	dumb := node(func(n *resize.Node) { n.NoUpdate = true })
	const none = ""
	for _, row := range []struct {
		name     string
		from, to *v1.Pod
		others   string
		node     resize.Node
		want     string
		says     string
	}{
		{"21.4 fits", pod("cpu=1", ""), pod("cpu=2", ""), "cpu=2", node(), none, ""},
		{"21.4 does not fit now", pod("cpu=1", ""), pod("cpu=2", ""), "cpu=3", node(), v1.PodReasonDeferred, "not enough cpu"},
		{"21.4 memory does not fit now", pod("memory=1Gi", ""), pod("memory=4Gi", ""), "memory=5Gi", node(), v1.PodReasonDeferred, "not enough memory"},
		{"21.4 never fits", pod("cpu=1", ""), pod("cpu=5", ""), "", node(), v1.PodReasonInfeasible, "the node has 4 cpu"},
		{"21.4 less always fits", pod("cpu=3", ""), pod("cpu=2", ""), "cpu=9", node(), none, ""},
		{"21.4 a limit alone takes no room", pod("cpu=1", "cpu=2"), pod("cpu=1", "cpu=9"), "cpu=9", node(), none, ""},
		{"21.4 overhead counts", pod("cpu=1", ""), pod("cpu=4", "", func(p *v1.Pod) { p.Spec.Overhead = list("cpu=1") }), "", node(), v1.PodReasonInfeasible, "asks for 5"},
		{"21.4 unknown room is not checked", pod("cpu=1", ""), pod("cpu=99", ""), "", resize.Node{}, none, ""},
		{"21.4 Guaranteed with static CPUs", pod("", "cpu=1 memory=1Gi"), pod("", "cpu=2 memory=1Gi"), "", static, v1.PodReasonInfeasible, "cpu of their own"},
		{"21.4 Guaranteed with static memory", pod("", "cpu=1 memory=1Gi"), pod("", "cpu=1 memory=2Gi"), "", static, v1.PodReasonInfeasible, "memory of their own"},
		{"21.4 Burstable beside static CPUs", pod("cpu=1", ""), pod("cpu=2", ""), "", static, none, ""},
		{"21.4 memory request under swap", pod("memory=1Gi", ""), pod("memory=2Gi", ""), "", swap, v1.PodReasonInfeasible, "swap"},
		{"21.4 memory request under swap, restarted", pod("memory=1Gi", "", restart(v1.ResourceMemory)), pod("memory=2Gi", "", restart(v1.ResourceMemory)), "", swap, none, ""},
		{"21.4 CPU under swap", pod("cpu=1", ""), pod("cpu=2", ""), "", swap, none, ""},
		{"21.4 a runtime that cannot", pod("cpu=1", ""), pod("cpu=2", ""), "", dumb, v1.PodReasonInfeasible, "the runtime cannot"},
		{"21.4 a runtime that cannot, restarted", pod("cpu=1", "", restart(v1.ResourceCPU)), pod("cpu=2", "", restart(v1.ResourceCPU)), "", dumb, none, ""},
		{"21.10 a runtime that cannot, pod level", pod("cpu=1", "", level("cpu=1", "")), pod("cpu=1", "", level("cpu=2", "")), "", dumb, v1.PodReasonInfeasible, "as a whole"},
		{"13.3 another class", pod("cpu=1", ""), pod("", "cpu=1 memory=1Gi"), "", node(), v1.PodReasonInfeasible, "from Burstable to Guaranteed"},
		{"13.3 from BestEffort", pod("", ""), pod("cpu=1", ""), "", node(), v1.PodReasonInfeasible, "from BestEffort to Burstable"},
		{"21.7 a limit goes", pod("cpu=1", "cpu=2"), pod("cpu=1", ""), "", node(), v1.PodReasonInfeasible, "cpu limit cannot be removed"},
		{"21.7 a request goes", pod("cpu=1 memory=1Gi", ""), pod("cpu=1", ""), "", node(), v1.PodReasonInfeasible, "memory request cannot be removed"},
		{"21.7 a limit comes", pod("cpu=1", ""), pod("cpu=1", "cpu=2"), "", node(), none, ""},
		{"21.10 pod level grows", pod("cpu=1", "", level("cpu=1", "")), pod("cpu=1", "", level("cpu=2", "")), "cpu=1", node(), none, ""},
		{"21.10 pod level does not fit", pod("cpu=1", "", level("cpu=1", "")), pod("cpu=1", "", level("cpu=2", "")), "cpu=3", node(), v1.PodReasonDeferred, "cpu"},
		{"21.10 pod level goes", pod("cpu=1", "", level("cpu=1", "")), pod("cpu=1", ""), "", node(), v1.PodReasonInfeasible, "added or removed"},
		{"21.10 a pod-level limit goes", pod("cpu=1", "", level("cpu=1", "cpu=2")), pod("cpu=1", "", level("cpu=1", "")), "", node(), v1.PodReasonInfeasible, "the pod's cpu limit"},
		{"21.3 other resources do not count", pod("cpu=1", ""), pod("cpu=1 ephemeral-storage=1Ti", ""), "", node(), none, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := resize.Admit(row.from, row.to, list(row.others), row.node)
			if got.Reason != row.want || !strings.Contains(got.Message, row.says) || (row.want == "") != (got.Message == "") {
				t.Errorf("%+v, want %q saying %q", got, row.want, row.says)
			}
		})
	}
}

// spec/runtime.md 21.4: the order of the queue.
func TestQueueOrdersByNeedPriorityAndAge(t *testing.T) {
	now := time.Unix(1000, 0)
	request := func(uid string, from, to *v1.Pod, priority int32, waits time.Duration) resize.Request {
		to.Spec.Priority = &priority
		to.UID = types.UID(uid)
		return resize.NewRequest(from, to, now.Add(-waits))
	}
	up, down := func(limits string) *v1.Pod { return pod("", limits) }, pod("cpu=1", "")
	queue := []resize.Request{
		request("e young", pod("cpu=1", ""), pod("cpu=2", ""), 0, time.Second),
		request("d old", pod("cpu=1", ""), pod("cpu=2", ""), 0, time.Minute),
		request("c guaranteed", up("cpu=1 memory=1Gi"), up("cpu=2 memory=1Gi"), 0, 0),
		request("b important", pod("cpu=1", ""), pod("cpu=2", ""), 7, 0),
		request("a shrinks", pod("cpu=2", ""), down, -5, 0),
	}
	resize.Sort(queue)
	var got []string
	for _, r := range queue {
		got = append(got, string(r.UID[:1]))
	}
	if s := strings.Join(got, ""); s != "abcde" {
		t.Errorf("21.4: order %s", s)
	}
}

// spec/runtime.md 21.5: the policy of each resource; 21.2: nothing known is zero.
func TestPolicyOfEachResourceDecidesOnARestart(t *testing.T) {
	was := runtime.Resources{MilliCPURequest: 100, MilliCPULimit: 200, MemoryRequest: 10, MemoryLimit: 20}
	change := func(f func(*runtime.Resources)) runtime.Resources { r := was; f(&r); return r }
	cpu := change(func(r *runtime.Resources) { r.MilliCPULimit++ })
	memory := change(func(r *runtime.Resources) { r.MemoryRequest++ })
	for _, row := range []struct {
		name       string
		policy     v1.ResourceName
		want, have runtime.Resources
		action     resize.Action
	}{
		{"21.5 nothing changed", v1.ResourceCPU, was, was, resize.None},
		{"21.5 default", "", cpu, was, resize.InPlace},
		{"21.5 cpu restarts", v1.ResourceCPU, cpu, was, resize.Restart},
		{"21.5 memory is not cpu", v1.ResourceCPU, memory, was, resize.InPlace},
		{"21.5 memory restarts", v1.ResourceMemory, memory, was, resize.Restart},
		{"21.2 unknown is zero", "", was, runtime.Resources{}, resize.InPlace},
		{"21.2 nothing wanted, nothing known", "", runtime.Resources{}, runtime.Resources{}, resize.None},
	} {
		p := pod("", "")
		if row.policy != "" {
			restart(row.policy)(p)
		}
		if got := resize.Decide(&p.Spec.Containers[0], row.want, row.have); got != row.action {
			t.Errorf("%s: %v, want %v", row.name, got, row.action)
		}
	}
}

// spec/runtime.md 21.3: small reported amounts are equal.
func TestSmallestReportedAmountsAreEqual(t *testing.T) {
	r := func(request, limit, memory int64) runtime.Resources {
		return runtime.Resources{MilliCPURequest: request, MilliCPULimit: limit, MemoryRequest: 7, MemoryLimit: memory}
	}
	for _, row := range []struct {
		want, reported runtime.Resources
		equal          bool
	}{
		{r(100, 200, 1), r(100, 200, 1), true},
		{r(1, 1, 1), r(2, 10, 1), true},
		{r(0, 5, 1), r(2, 10, 1), true},
		{r(3, 5, 1), r(2, 10, 1), false},
		{r(1, 11, 1), r(2, 10, 1), false},
		{r(100, 200, 2), r(100, 200, 1), false},
		{runtime.Resources{}, runtime.Resources{}, false},
	} {
		if got := resize.Reported(row.want, row.reported); got != row.equal {
			t.Errorf("21.3: %+v reported as %+v: %v, want %v", row.want, row.reported, got, row.equal)
		}
	}
}

// spec/runtime.md 21.6: the order of the calls.
func TestPodMakesRoomBeforeItsContainersGrow(t *testing.T) {
	r := func(cpu, memory int64) runtime.Resources {
		return runtime.Resources{MilliCPURequest: cpu, MilliCPULimit: cpu, MemoryRequest: memory, MemoryLimit: memory}
	}
	limits := func(shares, quota, memory int64) *resize.Limits {
		return &resize.Limits{Shares: shares, Quota: quota, Memory: memory}
	}
	for _, row := range []struct {
		name       string
		changes    []resize.Change
		have, want *resize.Limits
		steps      string
	}{
		{
			"21.6 growth: the pod first",
			[]resize.Change{{"a", r(1, 1), r(2, 2)}},
			limits(10, 10, 10), limits(20, 20, 20),
			"pod memory 20, a cpu 1 memory 2, pod quota 20, pod shares 20, a cpu 2 memory 2",
		},
		{
			"21.6 shrinking: the pod last",
			[]resize.Change{{"a", r(2, 2), r(1, 1)}},
			limits(20, 20, 20), limits(10, 10, 10),
			"a cpu 2 memory 1, pod memory 10, a cpu 1 memory 1, pod shares 10, pod quota 10",
		},
		{
			"21.6 decreases before increases",
			[]resize.Change{{"up", r(1, 1), r(3, 3)}, {"down", r(5, 5), r(2, 2)}, {"more", r(1, 1), r(9, 9)}},
			nil, nil,
			"down cpu 5 memory 2, up cpu 1 memory 3, more cpu 1 memory 9, down cpu 2 memory 2, up cpu 3 memory 3, more cpu 9 memory 9",
		},
		{"21.6 one resource carries the other", []resize.Change{{"a", r(1, 1), r(1, 2)}}, nil, nil, "a cpu 1 memory 2"},
		{"21.6 a new limit is a decrease", []resize.Change{{"up", r(1, 1), r(1, 2)}, {"new", r(1, 0), r(1, 9)}}, nil, nil, "new cpu 1 memory 9, up cpu 1 memory 2"},
		{"21.7 an unset limit of the pod stays", nil, limits(10, 10, 10), limits(10, 0, 0), ""},
		{"21.6 a first limit of the pod", nil, limits(10, -1, -1), limits(10, 5, 5), "pod memory 5, pod quota 5"},
		{"21.6 nothing", nil, limits(1, 1, 1), limits(1, 1, 1), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for _, s := range resize.Steps(row.changes, row.have, row.want) {
				switch {
				case s.Container != "":
					got = append(got, fmt.Sprintf("%s cpu %d memory %d", s.Container, s.Resources.MilliCPULimit, s.Resources.MemoryLimit))
				case s.Pod.Memory != 0:
					got = append(got, fmt.Sprintf("pod memory %d", s.Pod.Memory))
				case s.Pod.Quota != 0:
					got = append(got, fmt.Sprintf("pod quota %d", s.Pod.Quota))
				default:
					got = append(got, fmt.Sprintf("pod shares %d", s.Pod.Shares))
				}
			}
			if s := strings.Join(got, ", "); s != row.steps {
				t.Errorf("%s\nwant %s", s, row.steps)
			}
		})
	}
}

// spec/runtime.md 21.1: the allocated pod; 21.3: not ephemeral containers, not other
// resources.
func TestApplyTouchesOnlyResizableResources(t *testing.T) {
	desired := pod("cpu=2 ephemeral-storage=1Gi", "memory=2Gi", level("cpu=3", ""), func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Name: "i", Resources: needs("cpu=2", "")}}
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}}
	})
	if got := resize.Apply(desired, resize.Of(desired)); got != desired {
		t.Error("21.1: a pod that has what it asks for was copied")
	}
	allocated := resize.Of(pod("cpu=1", "memory=1Gi cpu=1", level("cpu=1", "cpu=1")))
	before := desired.DeepCopy()
	got := resize.Apply(desired, allocated)
	a := got.Spec.Containers[0].Resources
	if !resize.Of(got).Equal(allocated.Follow(resize.Of(desired))) || a.Limits.Cpu().String() != "1" || a.Requests.StorageEphemeral().String() != "1Gi" {
		t.Errorf("21.1: %+v", got.Spec)
	}
	if got.Spec.InitContainers[0].Resources.Requests.Cpu().String() != "2" {
		t.Error("a container that is new does not have what it asks for")
	}
	if !resize.Of(desired).Equal(resize.Of(before)) {
		t.Error("the desired pod was changed")
	}
	if _, ok := resize.Of(desired).Containers["e"]; ok {
		t.Error("21.3: an ephemeral container has an allocation")
	}
	back := resize.Apply(got, resize.Of(pod("cpu=1", "memory=1Gi")))
	if back.Spec.Resources != nil || len(back.Spec.Containers[0].Resources.Limits) != 1 {
		t.Errorf("what was not allocated stays: %+v", back.Spec)
	}
	if !resize.Of(pod("", "")).None() || resize.Of(pod("", "cpu=1")).None() || resize.Of(pod("", "", level("cpu=1", ""))).None() {
		t.Error("None")
	}
}

// spec/runtime.md 13.2, 21.10: a container without limits of its own takes the pod's.
func TestContainerWithoutLimitTakesThePods(t *testing.T) {
	for _, row := range []struct {
		pod  *v1.Pod
		want runtime.Resources
	}{
		{pod("cpu=100m memory=1", "cpu=1 memory=2"), runtime.Resources{MilliCPURequest: 100, MilliCPULimit: 1000, MemoryRequest: 1, MemoryLimit: 2}},
		{pod("", "cpu=1"), runtime.Resources{MilliCPURequest: 1000, MilliCPULimit: 1000}},
		{pod("cpu=100m", "", level("", "cpu=2 memory=3")), runtime.Resources{MilliCPURequest: 100, MilliCPULimit: 2000, MemoryRequest: 3, MemoryLimit: 3}},
		{pod("cpu=100m", "cpu=0", level("", "cpu=2")), runtime.Resources{MilliCPURequest: 100, MilliCPULimit: 2000}}, // FD3: as when it was created
		{pod("", "cpu=0"), runtime.Resources{}},
		{pod("cpu=-1", "memory=9E"), runtime.Resources{MemoryRequest: 9e18, MemoryLimit: 9e18}},
		{pod("", "memory=99999999999E"), runtime.Resources{MemoryRequest: 1<<63 - 1, MemoryLimit: 1<<63 - 1}},
	} {
		if got := resize.Wanted(row.pod, &row.pod.Spec.Containers[0]); got != row.want {
			t.Errorf("21.10: %+v, want %+v", got, row.want)
		}
	}
}
