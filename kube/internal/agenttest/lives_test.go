package agenttest

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// life is the script of a cluster: what containers do, and what an operator does while agents
// live and die.
type life struct {
	name    string
	scripts map[string]func(fake.Launch) fake.Script
	// live is the operator. It lets time pass, and looks.
	live func(w *world)
}

// always is a script for all runs of a container.
func always(s fake.Script) func(fake.Launch) fake.Script {
	return func(fake.Launch) fake.Script { return s }
}

// firstly is a script whose first run ends otherwise.
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

var (
	serves = always(fake.Script{OnTERM: fake.Exit{After: 3 * time.Second}})
	ends7  = always(fake.Script{Exit: &fake.Exit{After: 5 * time.Second, Code: 7}})
)

// newPod returns one of the API server, as a scheduler has bound it.
func newPod(name string, uid types.UID, containers ...string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uid},
		Spec:       v1.PodSpec{NodeName: nodeName, ServiceAccountName: "default", RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: ptr.To[int64](10)},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c, Image: "app:1", ImagePullPolicy: v1.PullIfNotPresent})
	}
	return p
}

// withVolumes gives a pod the config map app, the secret app and a token.
func withVolumes(p *v1.Pod) *v1.Pod {
	p.Spec.Volumes = []v1.Volume{
		{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "app"}}}},
		{Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "app"}}},
		{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To[int64](3600), Path: "token"}},
		}}}},
	}
	for _, v := range p.Spec.Volumes {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	return p
}

// newStatic returns a pod of the node's own.
func newStatic(name string, uid types.UID, containers ...string) *v1.Pod {
	p := newPod(name, uid, containers...)
	p.Spec.NodeName, p.Spec.ServiceAccountName = "", ""
	return p
}

func never(p *v1.Pod) *v1.Pod {
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	return p
}

// lives are the kinds of life that agents are killed in. What has to have happened before the next step has time
// for it after two deaths.
func lives() []life {
	return []life{
		{
			// Objects and a token, a crash, a change of the config map, a graceful deletion.
			name:    "server",
			scripts: map[string]func(fake.Launch) fake.Script{"main": firstly(fake.Exit{After: 9 * time.Second, Code: 3}, fake.Script{OnTERM: fake.Exit{After: 3 * time.Second}})},
			live: func(w *world) {
				w.setConfig("one")
				w.pass(3 * time.Second)
				w.create(withVolumes(newPod("server", "uid-server", "main")))
				w.pass(50 * time.Second)
				w.look("uid-server")
				w.setConfig("two")
				w.pass(20 * time.Second)
				w.look("uid-server")
				w.remove("server", -1)
				w.pass(30 * time.Second)
				w.look("uid-server")
			},
		},
		{
			// A job ends, and is deleted when it has.
			name:    "job",
			scripts: map[string]func(fake.Launch) fake.Script{"job": ends7},
			live: func(w *world) {
				w.pass(3 * time.Second)
				w.create(never(newPod("job", "uid-job", "job")))
				w.pass(40 * time.Second)
				w.look("uid-job")
				w.remove("job", -1)
				w.pass(20 * time.Second)
				w.look("uid-job")
			},
		},
		{
			// Forced deletion, and a successor of the same name at once.
			name:    "successor",
			scripts: map[string]func(fake.Launch) fake.Script{"main": serves},
			live: func(w *world) {
				w.pass(3 * time.Second)
				w.create(newPod("web", "uid-web-1", "main"))
				w.pass(45 * time.Second)
				w.remove("web", 0)
				w.create(newPod("web", "uid-web-2", "main"))
				w.pass(40 * time.Second)
				w.look("uid-web-1", "uid-web-2")
			},
		},
		{
			// Deleted before it runs; a job that is deleted while it runs; one that the node refuses.
			name:    "early",
			scripts: map[string]func(fake.Launch) fake.Script{"main": serves, "job": always(fake.Script{OnTERM: fake.Exit{After: 2 * time.Second, Code: 143}})},
			live: func(w *world) {
				w.pass(3 * time.Second)
				w.create(newPod("early", "uid-early", "main"))
				w.create(never(newPod("job", "uid-job", "job")))
				misplaced := newPod("misplaced", "uid-misplaced", "main")
				misplaced.Spec.NodeSelector = map[string]string{"disk": "ssd"}
				w.create(misplaced)
				w.pass(500 * time.Millisecond)
				w.remove("early", -1)
				w.pass(45 * time.Second)
				w.remove("job", -1)
				w.pass(20 * time.Second)
				w.look("uid-early", "uid-job", "uid-misplaced")
				w.remove("misplaced", -1)
				w.pass(20 * time.Second)
				w.look("uid-early", "uid-job", "uid-misplaced")
			},
		},
		{
			// A static pod, whose mirror is deleted; then its Node is, and comes back.
			name:    "static",
			scripts: map[string]func(fake.Launch) fake.Script{"main": serves},
			live: func(w *world) {
				w.static = []*v1.Pod{newStatic("static", "uid-static", "main")}
				w.tell()
				w.create(newPod("web", "uid-web", "main"))
				w.pass(30 * time.Second)
				w.look("uid-static", "uid-web")
				w.remove("static", 0)
				w.pass(30 * time.Second)
				w.look("uid-static", "uid-web")
				w.removeNode()
				w.pass(40 * time.Second)
				w.look("uid-static", "uid-web")
				w.static = nil
				w.tell()
				w.pass(30 * time.Second)
				w.look("uid-static", "uid-web")
			},
		},
	}
}
