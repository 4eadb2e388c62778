package enginetest_test

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// life is the script of some pods: what their containers do, when they are desired, and when the
// test looks at the runtime.
type life struct {
	name    string
	pods    func() []*v1.Pod
	scripts map[string]func(fake.Launch) fake.Script
	// removed is when nothing is desired any more, and end is when the life is over. looks are
	// quiet moments.
	removed, end time.Duration
	// restarted is when a restart of the pods is requested, 0: never.
	restarted time.Duration
	looks     []time.Duration
}

// always is a script for all runs of a container.
func always(s fake.Script) func(fake.Launch) fake.Script {
	return func(fake.Launch) fake.Script { return s }
}

// firstly is a script in which the first run ends differently.
func firstly(end fake.Exit, s fake.Script) func(fake.Launch) fake.Script {
	return func(l fake.Launch) fake.Script {
		if l.Attempt > 0 {
			return s
		}
		first := s
		first.Exit = &end
		return first
	}
}

// lives are the kinds of life in which agents are killed.
func lives() []life {
	exits := func(after time.Duration, code int32) *fake.Exit { return &fake.Exit{After: after, Code: code} }
	return []life{
		{
			name: "server", removed: 45 * time.Second, end: 75 * time.Second, looks: []time.Duration{42 * time.Second, 74 * time.Second},
			pods: func() []*v1.Pod {
				p := newPod("server", "main")
				p.Spec.InitContainers = []v1.Container{{Name: "setup", Image: "app:1"}}
				p.Spec.Containers[0].ReadinessProbe = check("ready")
				return []*v1.Pod{p}
			},
			scripts: map[string]func(fake.Launch) fake.Script{
				"setup": always(fake.Script{Exit: exits(2*time.Second, 0)}),
				"main":  firstly(*exits(9*time.Second, 3), fake.Script{ReadyAfter: 2500 * time.Millisecond, OnTERM: fake.Exit{After: 3 * time.Second}}),
			},
		},
		{
			name: "never", removed: 25 * time.Second, end: 50 * time.Second, looks: []time.Duration{22 * time.Second, 49 * time.Second},
			pods:    func() []*v1.Pod { return []*v1.Pod{withPolicy(newPod("never", "job"), v1.RestartPolicyNever)} },
			scripts: map[string]func(fake.Launch) fake.Script{"job": always(fake.Script{Exit: exits(5*time.Second, 7)})},
		},
		{
			name: "retry", removed: 50 * time.Second, end: 75 * time.Second, looks: []time.Duration{45 * time.Second, 74 * time.Second},
			pods:    func() []*v1.Pod { return []*v1.Pod{withPolicy(newPod("retry", "job"), v1.RestartPolicyOnFailure)} },
			scripts: map[string]func(fake.Launch) fake.Script{"job": firstly(*exits(4*time.Second, 5), fake.Script{Exit: exits(5*time.Second, 0)})},
		},
		{
			name: "sidecar", removed: 40 * time.Second, end: 65 * time.Second, looks: []time.Duration{35 * time.Second, 64 * time.Second},
			pods: func() []*v1.Pod {
				p := withPolicy(newPod("sidecar", "job"), v1.RestartPolicyNever)
				p.Spec.InitContainers = []v1.Container{{Name: "proxy", Image: "app:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}}
				return []*v1.Pod{p}
			},
			scripts: map[string]func(fake.Launch) fake.Script{
				"proxy": always(fake.Script{OnTERM: fake.Exit{After: 2 * time.Second}}),
				"job":   always(fake.Script{Exit: exits(8*time.Second, 0)}),
			},
		},
		{
			name: "deaf", removed: 10 * time.Second, end: 60 * time.Second, looks: []time.Duration{8 * time.Second, 59 * time.Second},
			pods:    func() []*v1.Pod { return []*v1.Pod{newPod("deaf", "deaf")} },
			scripts: map[string]func(fake.Launch) fake.Script{"deaf": always(fake.Script{IgnoreTERM: true})},
		},
		{
			name: "restarted", restarted: 15 * time.Second, removed: 45 * time.Second, end: 70 * time.Second, looks: []time.Duration{42 * time.Second, 69 * time.Second},
			pods: func() []*v1.Pod { return []*v1.Pod{withPolicy(newPod("restarted", "main"), v1.RestartPolicyOnFailure)} },
			scripts: map[string]func(fake.Launch) fake.Script{
				"main": always(fake.Script{OnTERM: fake.Exit{After: 2 * time.Second}}),
			},
		},
		{
			name: "early", removed: 5 * time.Second, end: 60 * time.Second, looks: []time.Duration{59 * time.Second},
			pods: func() []*v1.Pod {
				p := newPod("early", "main")
				p.Spec.InitContainers = []v1.Container{{Name: "setup", Image: "app:1"}}
				return []*v1.Pod{p}
			},
			scripts: map[string]func(fake.Launch) fake.Script{"setup": always(fake.Script{}), "main": always(fake.Script{})},
		},
	}
}
