//go:build containerd

package main

import (
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Scripts of the torture's containers. Each adds a line to a file of its own when
// it starts, see [tortureContainer].
const (
	runForEver   = "trap 'exit 0' TERM; sleep 100000 & wait $!; exit 9"
	ignoreTERM   = "trap '' TERM; while :; do sleep 0.2; done"
	succeed      = "sleep 0.3; exit 0"
	fail         = "sleep 0.3; exit 3"
	failAtFirst  = "[ -e /data/again ] && exit 0; touch /data/again; exit 1"
	writeStartup = "echo up > /data/up"
	needsStartup = "[ -e /data/up ] || exit 8; " + runForEver
)

// outcome is what a pod's manifest promises in the end.
type outcome int

const (
	runs outcome = iota
	succeeds
	fails
	crashLoops
)

// tortureKind is a kind of pod.
type tortureKind struct {
	name    string
	outcome outcome
	spec    func() v1.PodSpec
}

func tortureKinds() []tortureKind {
	one := func(script string, policy v1.RestartPolicy) func() v1.PodSpec {
		return func() v1.PodSpec {
			return v1.PodSpec{RestartPolicy: policy, Containers: []v1.Container{tortureContainer("main", script)}}
		}
	}
	return []tortureKind{
		{"steady", runs, one(runForEver, v1.RestartPolicyAlways)},
		{"ok", succeeds, one(succeed, v1.RestartPolicyNever)},
		{"broken", fails, one(fail, v1.RestartPolicyNever)},
		{"retried", succeeds, one(failAtFirst, v1.RestartPolicyOnFailure)},
		{"crash", crashLoops, one(fail, v1.RestartPolicyAlways)},
		{"stubborn", runs, one(ignoreTERM, v1.RestartPolicyAlways)},
		{"prestop", runs, func() v1.PodSpec {
			c := tortureContainer("main", runForEver)
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "sleep 0.5"}}}}
			return v1.PodSpec{Containers: []v1.Container{c}}
		}},
		{"pair", runs, func() v1.PodSpec {
			return v1.PodSpec{Containers: []v1.Container{tortureContainer("left", runForEver), tortureContainer("right", runForEver)}}
		}},
		{"init", runs, func() v1.PodSpec {
			return v1.PodSpec{
				InitContainers: []v1.Container{tortureContainer("first", "sleep 0.2"), tortureContainer("second", writeStartup)},
				Containers:     []v1.Container{tortureContainer("main", needsStartup)},
			}
		}},
		{"sidecar", runs, func() v1.PodSpec {
			return v1.PodSpec{
				InitContainers: []v1.Container{tortureSidecar(), tortureContainer("second", writeStartup)},
				Containers:     []v1.Container{tortureContainer("main", needsStartup)},
			}
		}},
		{"sidecarjob", succeeds, func() v1.PodSpec {
			return v1.PodSpec{
				RestartPolicy:  v1.RestartPolicyNever,
				InitContainers: []v1.Container{tortureSidecar()},
				Containers:     []v1.Container{tortureContainer("main", succeed)},
			}
		}},
	}
}

func tortureSidecar() v1.Container {
	c := tortureContainer("helper", runForEver)
	c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	return c
}

// tortureContainer counts its starts in a file below /starts.
func tortureContainer(name, script string) v1.Container {
	return v1.Container{
		Name:            name,
		ImagePullPolicy: v1.PullIfNotPresent,
		Command:         []string{"sh", "-c", "echo start >> /starts/$LIFE." + name + "; " + script},
		VolumeMounts:    []v1.VolumeMount{{Name: "starts", MountPath: "/starts"}, {Name: "data", MountPath: "/data"}},
	}
}

// torturePod is a pod of the torture, desired or not.
type torturePod struct {
	name string
	kind tortureKind
	// generation grows with each edit; each has a UID of its own.
	generation int
	text       string
	present    bool
	// lives counts how often this generation came to be desired.
	lives int
	// kills counts what was done to this generation's containers.
	kills int
	// runtimeKilled: the runtime was killed in this generation's time, so ends of
	// containers may have been lost.
	runtimeKilled bool
	// cutOff: the agent was killed in this generation's time, and with it the
	// calls it had made.
	cutOff bool
}

func (p *torturePod) file() string { return p.name + ".json" }

// life names the generation in the files of starts.
func (p *torturePod) life() string { return fmt.Sprintf("%s-%d", p.name, p.generation) }

// renew makes a new generation and its manifest.
func (p *torturePod) renew(kind tortureKind, image, starts string) {
	p.kind, p.generation, p.lives, p.kills, p.runtimeKilled, p.cutOff = kind, p.generation+1, 1, 0, false, false
	spec := kind.spec()
	spec.TerminationGracePeriodSeconds = ptr.To(int64(2))
	spec.Volumes = []v1.Volume{
		{Name: "starts", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: starts}}},
		{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
	}
	for _, c := range slices.Concat(each(spec.InitContainers), each(spec.Containers)) {
		c.Image = image
		c.Env = []v1.EnvVar{{Name: "LIFE", Value: p.life()}}
	}
	text, err := json.Marshal(v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: p.name},
		Spec:       spec,
	})
	if err != nil {
		panic(err) // a pod always encodes
	}
	p.text = string(text)
}

func each(containers []v1.Container) []*v1.Container {
	var out []*v1.Container
	for i := range containers {
		out = append(out, &containers[i])
	}
	return out
}

// check says how the pod's status differs from what its manifest promises.
func (p *torturePod) check(pod *v1.Pod) error {
	if pod == nil {
		return fmt.Errorf("%s (%s) is missing", p.name, p.kind.name)
	}
	differs := func(want string) error {
		text, err := json.Marshal(pod.Status)
		return fmt.Errorf("%s (%s, generation %d, %d kills): want %s, status %s %v", p.name, p.kind.name, p.generation, p.kills, want, text, err)
	}
	if pod.DeletionTimestamp != nil {
		return differs("the newest generation, not one that ends")
	}
	phase := pod.Status.Phase
	switch p.kind.outcome {
	case succeeds:
		if phase == v1.PodFailed && (p.kills > 0 || p.runtimeKilled || p.cutOff && startFailed(pod)) {
			return nil
		}
		if phase != v1.PodSucceeded {
			return differs("Succeeded")
		}
	case fails:
		if phase != v1.PodFailed {
			return differs("Failed")
		}
	case runs, crashLoops:
		if phase != v1.PodRunning {
			return differs("Running")
		}
		statuses := pod.Status.ContainerStatuses
		if len(statuses) != len(pod.Spec.Containers) {
			return differs("a status for each container")
		}
		for i := range statuses {
			if p.kind.outcome == crashLoops && statuses[i].RestartCount == 0 {
				return differs("restarts")
			}
			if p.kind.outcome == runs && (statuses[i].State.Running == nil || !statuses[i].Ready) {
				return differs("all containers ready")
			}
		}
	}
	return nil
}

// startFailed reports whether the runtime gave up the start of a container, as it
// does if the one who asked for it goes away.
func startFailed(pod *v1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(c v1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.Reason == "StartError"
	})
}
