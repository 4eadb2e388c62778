package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The moments tests speak of, one minute apart.
var (
	t0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	t1 = t0.Add(time.Minute)
	t2 = t0.Add(2 * time.Minute)
)

// podOption changes a pod under construction.
type podOption func(*v1.Pod)

func newPod(options ...podOption) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "uid-1", Generation: 1},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
	for _, o := range options {
		o(pod)
	}
	return pod
}

func uid(u types.UID) podOption           { return func(p *v1.Pod) { p.UID = u } }
func policy(r v1.RestartPolicy) podOption { return func(p *v1.Pod) { p.Spec.RestartPolicy = r } }
func static(p *v1.Pod)                    { p.Annotations = map[string]string{podinfo.AnnotationSource: "file"} }
func deleted(p *v1.Pod)                   { p.DeletionTimestamp = &metav1.Time{Time: t0} }
func hostNetwork(p *v1.Pod)               { p.Spec.HostNetwork = true }

func apps(names ...string) podOption {
	return func(p *v1.Pod) {
		for _, n := range names {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: n, Image: "img/" + n})
		}
	}
}

func inits(names ...string) podOption {
	return func(p *v1.Pod) {
		for _, n := range names {
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: n, Image: "img/" + n})
		}
	}
}

func sidecars(names ...string) podOption {
	return func(p *v1.Pod) {
		for _, n := range names {
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{
				Name: n, Image: "img/" + n, RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways),
			})
		}
	}
}

func debuggers(names ...string) podOption {
	return func(p *v1.Pod) {
		for _, n := range names {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, v1.EphemeralContainer{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: n, Image: "img/" + n},
			})
		}
	}
}

// id is the container ID of run n of a container.
func id(name string, n int) runtime.ContainerID {
	return runtime.ContainerID{Runtime: "fake", ID: fmt.Sprintf("%s-%d", name, n)}
}

// record is run n of a container at the runtime, in sandbox "sb-0".
func record(name string, n int, state runtime.State) *runtime.ContainerStatus {
	r := &runtime.ContainerStatus{
		ID: id(name, n), Name: name, SandboxID: "sb-0", State: state, CreatedAt: t0,
		Image: "img/" + name, ImageRef: "img/" + name + "@sha256:1", ImageID: "sha256:2", RestartCount: n,
	}
	if state != runtime.Created {
		r.StartedAt = t0
	}
	return r
}

// exited is a finished run.
func exited(name string, n int, code int32) *runtime.ContainerStatus {
	r := record(name, n, runtime.Exited)
	r.ExitCode, r.FinishedAt, r.Reason = code, t1, "Completed"
	if code != 0 {
		r.Reason = "Error"
	}
	return r
}

// view is a runtime view with a ready sandbox "sb-0".
func view(records ...*runtime.ContainerStatus) *runtime.PodStatus {
	return &runtime.PodStatus{
		UID: "uid-1", Name: "web", Namespace: "shop", IPs: []string{"10.0.0.7"},
		Sandboxes:  []*runtime.SandboxStatus{{ID: "sb-0", State: runtime.Running}},
		Containers: records,
	}
}

// state makes a container status from shorthand: "-" none, "E" empty state, "W"
// waiting, "W1" waiting after exit 1, "R" running and started, "r" running and
// not started, "T1" terminated with 1; "!" at the end means reason
// RestartingAllContainers.
func state(name, shorthand string) *v1.ContainerStatus {
	shorthand, all := strings.CutSuffix(shorthand, "!")
	end := func(code string) v1.ContainerState {
		var n int32
		_, _ = fmt.Sscan(code, &n)
		t := &v1.ContainerStateTerminated{ExitCode: n, ContainerID: id(name, 0).String()}
		if all {
			t.Reason = reasonRestartAll
		}
		return v1.ContainerState{Terminated: t}
	}
	cs := &v1.ContainerStatus{Name: name, ContainerID: id(name, 0).String()}
	switch {
	case shorthand == "-":
		return nil
	case shorthand == "E":
	case shorthand == "W":
		cs.ContainerID = ""
		cs.State.Waiting = &v1.ContainerStateWaiting{Reason: reasonCreating}
	case shorthand[0] == 'W':
		cs.State.Waiting = &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		cs.LastTerminationState = end(shorthand[1:])
	case shorthand == "R", shorthand == "r":
		cs.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.Time{Time: t0}}
		cs.Started = ptr.To(shorthand == "R")
		cs.Ready = shorthand == "R"
	case shorthand[0] == 'T':
		cs.State = end(shorthand[1:])
	}
	return cs
}

// scene makes a pod and its statuses from shorthand such as "I T0, S r, A W1";
// containers are named i0, s1, a2, … by position.
func scene(pod *v1.Pod, shorthand string) *v1.PodStatus {
	s := &v1.PodStatus{}
	for n, part := range strings.Split(shorthand, ",") {
		kind, how, _ := strings.Cut(strings.TrimSpace(part), " ")
		name := fmt.Sprintf("%s%d", strings.ToLower(kind), n)
		list := &s.ContainerStatuses
		switch kind {
		case "A":
			apps(name)(pod)
		case "I":
			inits(name)(pod)
			list = &s.InitContainerStatuses
		case "S":
			sidecars(name)(pod)
			list = &s.InitContainerStatuses
		}
		if cs := state(name, how); cs != nil {
			*list = append(*list, *cs)
		}
	}
	return s
}

// condition finds a condition or makes an empty one.
func condition(s *v1.PodStatus, t v1.PodConditionType) v1.PodCondition {
	if c := conditionOf(s.Conditions, t); c != nil {
		return *c
	}
	return v1.PodCondition{}
}
