package enginetest_test

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// ailment is the trouble of a bad pod in a crowd, from the beginning until the crowd is healed.
// Fields that are not set do no harm.
type ailment struct {
	name string
	// spoil changes its manifest.
	spoil func(*v1.Pod)
	// script is what its containers do.
	script fake.Script
	// hangs are the calls about it that do not answer, slow those that answer after 30 s.
	hangs, slow []fake.Method
	// pull is the outcome of a pull of its own image; nil: its image is present.
	pull *fake.Pull
	// mount and unmount: this call of the volume manager does not answer.
	mount, unmount bool
	// files is the number of files that the bad pods of a cell have in their folders, all together.
	files int
	// drips: its HTTP probe answers a byte per second.
	drips bool
	// sink, write and read are the answers of the sink to its status and of the disk to its record.
	sink, write, read error
	sinkHangs         bool
	// panics and undecided: the user's admission handler panics, or does not return. vetoing: the
	// user's veto does not return.
	panics, undecided, vetoing bool
	// fills: it fills the disk until its emptyDir is gone.
	fills bool
	// flips: its manifest changes every 100 ms.
	flips bool
	// told is what Explain says about it while it is ill.
	told string
	// lingers is what Explain says about it after its removal; empty: it goes as soon as a good
	// pod.
	lingers string
	// listed: Problems names it while it is ill and desired; stuck: after its removal.
	listed, stuck bool
}

const forever = 1000 * time.Hour

// ailments are the kinds of bad pods (IN2).
func ailments() []ailment {
	all := []ailment{
		{name: "pull hangs", pull: &fake.Pull{Took: forever}, told: `"pull":`, listed: true},
		{name: "pull trickles", pull: &fake.Pull{Took: 3 * time.Hour}, told: `"pull":`, listed: true},
		{name: "image missing", pull: &fake.Pull{Err: runtime.ErrNotFound}, told: "ImagePullBackOff|ErrImagePull"},
		{name: "postStart hangs", spoil: hooks(&v1.Lifecycle{PostStart: command("hang")}, 10), script: hangingCommand(), told: "SyncPod to return", listed: true},
		{
			name: "preStop hangs", spoil: hooks(&v1.Lifecycle{PreStop: command("hang")}, 3600), script: hangingCommand(),
			lingers: "SyncTerminatingPod to return", stuck: true,
		},
		{name: "deaf", spoil: func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600) }, script: fake.Script{IgnoreTERM: true}, lingers: "SyncTerminatingPod to return"},
		{name: "mount hangs", spoil: withFarVolume, mount: true, told: "SyncPod to return", listed: true},
		{name: "unmount hangs", spoil: withFarVolume, unmount: true, lingers: "SyncTerminatedPod to return|volume", stuck: true},
		{name: "folder with many files", spoil: func(p *v1.Pod) { withScratch(p) }, files: 2_000},
		{name: "exec probe hangs", spoil: probed(v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"hang"}}}), hangs: []fake.Method{fake.ExecSync}, told: `"ready":false`},
		{name: "HTTP probe drips", spoil: probed(v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}), drips: true, told: `"ready":false`},
		{name: "sink fails", sink: errors.New("no such tenant")},
		{name: "sink hangs", sinkHangs: true},
		{name: "record cannot be written", write: errors.New("input/output error"), told: "input/output error"},
		{name: "record cannot be read", read: errors.New("input/output error")},
		{name: "admission panics", panics: true, told: `"held":".*panicked`, listed: true},
		{name: "admission hangs", undecided: true, told: `"held":".*Handlers`, listed: true},
		{name: "veto hangs", vetoing: true},
		{name: "disk filled", spoil: func(p *v1.Pod) { withScratch(p) }, fills: true},
		{name: "crashes", script: fake.Script{Exit: &fake.Exit{Code: 1}}, told: "CrashLoopBackOff|terminated"},
		{name: "manifest flips", flips: true},
	}
	for _, m := range []struct {
		method        fake.Method
		told, lingers string
		listed, stuck bool
	}{
		{fake.RunPodSandbox, "SyncPod to return|has not been answered", "", true, false},
		{fake.CreateContainer, "SyncPod to return|has not been answered", "", true, false},
		{fake.StartContainer, "SyncPod to return|has not been answered", "", true, false},
		{fake.StopContainer, "", "SyncTerminatingPod to return", false, true},
		{fake.StopPodSandbox, "", "SyncTerminatingPod to return", false, true},
		{fake.RemovePodSandbox, "", "", false, true},
		{fake.ContainerStatus, "unreadable", "unreadable", true, true},
		{fake.PodSandboxStatus, "unreadable|SyncPod to return", "unreadable", true, true},
	} {
		all = append(all,
			ailment{name: string(m.method) + " hangs", hangs: []fake.Method{m.method}, told: m.told, lingers: m.lingers, listed: m.listed, stuck: m.stuck},
			ailment{name: string(m.method) + " answers after 30 s", slow: []fake.Method{m.method}})
	}
	return all
}

func command(name string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{name}}}
}

// hooks gives the pod's container hooks, and the pod a grace.
func hooks(l *v1.Lifecycle, grace int64) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Lifecycle, p.Spec.TerminationGracePeriodSeconds = l, &grace
	}
}

// hangingCommand is a container in which no command ends.
func hangingCommand() fake.Script {
	return fake.Script{Exec: func(fake.Exec) fake.ExecResult { return fake.ExecResult{Took: forever} }}
}

// probed gives the pod's container a readiness probe.
func probed(h v1.ProbeHandler) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: h, PeriodSeconds: probePeriod, TimeoutSeconds: probePeriod, FailureThreshold: 1}
	}
}

// probePeriod of a crowd's probes, in seconds.
const probePeriod = 2

// withFarVolume gives the pod a volume of the volume manager.
func withFarVolume(p *v1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "far", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "far", Path: "/"}}})
	p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "far", MountPath: "/far"})
}
