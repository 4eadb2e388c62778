package enginetest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/syncloop/mirror"
)

// lateServices are services that are unknown until they have been read.
type lateServices struct{ read atomic.Bool }

func (l *lateServices) Services(namespace string) ([]*v1.Service, bool) {
	if !l.read.Load() {
		return nil, false
	}
	if namespace != v1.NamespaceDefault {
		return nil, true
	}
	s := &v1.Service{}
	s.Name, s.Namespace = "kubernetes", namespace
	s.Spec.ClusterIP, s.Spec.Ports = "10.96.0.1", []v1.ServicePort{{Port: 443, Protocol: v1.ProtocolTCP}}
	return []*v1.Service{s}, true
}

// waits returns why a container of the pod waits, according to its status and Explain.
func (r *rig) waits(pod *v1.Pod) (reason, message string, err error) {
	shown, ok := r.engine.Pod(pod.UID)
	e, _ := r.engine.Explain(pod.UID)
	if !ok || len(shown.Status.ContainerStatuses) == 0 || len(e.Containers) == 0 {
		return "", "", errors.New("no container")
	}
	w := shown.Status.ContainerStatuses[0].State.Waiting
	if w == nil || e.Containers[0].Reason != w.Reason || e.Containers[0].Message != w.Message {
		return "", "", fmt.Errorf("status %+v, Explain %+v", shown.Status.ContainerStatuses[0].State, e.Containers[0])
	}
	return w.Reason, w.Message, nil
}

// TestUnreadServicesHoldPodsOfTheAPI: KO10, runtime.md 11.8. Before services have been read, pods of the
// API wait, here for an hour, and say so; static pods start without the variables of services. Once the
// engine hears of services, the pods start at once and see them.
func TestUnreadServicesHoldPodsOfTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		services, api, rt := &lateServices{}, &mirror.FakeClient{}, fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Sources = append(c.Sources, apiSource{api: api})
			c.Pods.Services = services
		}).start()
		pod := newPod("web")
		api.Put(pod)
		r.set(newPod("static"))
		r.phase("uid-static", v1.PodRunning, 5*time.Second)
		for _, pause := range []time.Duration{5 * time.Second, time.Hour} {
			<-time.After(pause)
			reason, message, err := r.waits(pod)
			if err != nil || reason != "CreateContainerConfigError" || !strings.HasPrefix(message, "services have not yet been read at least once") {
				t.Errorf("reason %q, message %q, %v", reason, message, err)
			}
			if n := rt.CallCount(fake.CreateContainer); n != 1 {
				t.Errorf("%d containers were created", n)
			}
		}
		services.read.Store(true)
		r.engine.ObjectChanged(podwright.Object{Kind: "Service", Namespace: v1.NamespaceDefault})
		r.phase(pod.UID, v1.PodRunning, time.Second)
		request := rt.Calls(fake.Match{Method: fake.CreateContainer, PodUID: pod.UID})[0].Request.(*runtimeapi.CreateContainerRequest)
		if !slices.ContainsFunc(request.Config.Envs, func(e *runtimeapi.KeyValue) bool {
			return e.Key == "KUBERNETES_SERVICE_HOST" && string(e.Value) == "10.96.0.1"
		}) {
			t.Errorf("environment %v", request.Config.Envs)
		}
	})
}

// sandboxed is a runtime class with a handler and an overhead, which cannot be read unless known.
type sandboxed struct{ known *atomic.Bool }

func (s sandboxed) RuntimeClass(name string) (pods.RuntimeClass, error) {
	class, err := lateClass(s).RuntimeClass(name)
	if err == nil {
		class.Handler = "kata"
	}
	return class, err
}

// TestLostRuntimeClassHoldsNewPods: KO11, runtime.md 3.8. Once a runtime class is gone, new pods
// that use it wait and say so. A running pod of the class continues: its container restarts in its
// sandbox, even after a restart of the agent, with the overhead that it was admitted with and the
// abilities of its sandbox's handler. When the class is back, the new pods start.
func TestLostRuntimeClassHoldsNewPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known atomic.Bool
		known.Store(true)
		h := newHost(t, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			if l.PodUID == "uid-old" && l.Attempt < 2 {
				return fake.Script{Exit: &fake.Exit{After: time.Duration(l.Attempt+1) * 6 * time.Minute, Code: 1}}
			}
			return fake.Script{}
		}, Handlers: []*runtimeapi.RuntimeHandler{
			{}, {Name: "kata", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}},
		}}))
		classes := func(c *podwright.Config) { c.Pods.RuntimeClasses = sandboxed{&known} }
		r := h.agent(classes)
		old, next := newPod("old"), newPod("new")
		old.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		old.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{
			Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyEnabled),
		}}
		old.Spec.RuntimeClassName, next.Spec.RuntimeClassName = ptr.To("heavy"), ptr.To("heavy")
		r.set(old)
		r.phase("uid-old", v1.PodRunning, 5*time.Second)
		known.Store(false)
		r.set(old, next)
		<-time.After(10 * time.Minute)
		lives := func(started int) {
			t.Helper()
			if n := h.rt.CallCount(fake.RunPodSandbox); n != 1 || h.rt.Running("uid-old", "main") != 1 || starts(h.rt, "uid-old") != started {
				t.Errorf("%d sandboxes, the old pod's container was started %d times: %s", n, starts(h.rt, "uid-old"), r.explain("uid-old"))
			}
			if got := r.pod("uid-old").Spec.Overhead.Cpu().String(); got != "500m" {
				t.Errorf("the old pod's overhead is %s", got)
			}
		}
		lives(2)
		if said := r.events.said("new FailedCreatePodSandBox"); len(said) == 0 || !strings.Contains(said[0], `runtime class "heavy"`) {
			t.Errorf("events %q", said)
		}
		if e, _ := r.engine.Explain("uid-new"); e.Worker == nil || !strings.Contains(e.Worker.LastError, `runtime class "heavy"`) {
			t.Errorf("the new pod does not say what it waits for: %+v", e)
		}
		h.kill(r)
		r = h.agent(classes)
		r.set(old, next)
		<-time.After(10 * time.Minute)
		lives(3)
		known.Store(true)
		r.engine.ObjectChanged(podwright.Object{Kind: "RuntimeClass", Name: "heavy"})
		r.phase("uid-new", v1.PodRunning, time.Second)
	})
}
