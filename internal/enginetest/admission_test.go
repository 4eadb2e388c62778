package enginetest_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/syncloop/admission"
)

// asking returns the pod with a CPU request.
func asking(p *v1.Pod, cpu string) *v1.Pod {
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	return p
}

// roomFor gives the node room for pods with this number of CPUs in total.
func roomFor(cpus string) func(*podwright.Config) {
	return func(c *podwright.Config) {
		c.Node.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus)}
		c.Admission.FitResources = true
	}
}

// rejected waits until a pod is refused for this reason.
func (r *rig) rejected(uid types.UID, reason string) {
	r.t.Helper()
	r.phase(uid, v1.PodFailed, 10*time.Second)
	if s := r.pod(uid).Status; s.Reason != reason || len(s.ContainerStatuses) != 0 || !strings.HasPrefix(s.Message, "Pod was rejected: ") {
		r.t.Errorf("%s: reason %q, message %q, containers %v", uid, s.Reason, s.Message, s.ContainerStatuses)
	}
}

// TestRefusedPodNeverReachesRuntime: AD1-AD4, SI5, edge cases 18, 19 and 20. Of three pods the oldest two
// get the room; the third is refused with the reason and never reaches the runtime.
// After a restart on a smaller node no pod is judged again, but a new pod is; a
// refused pod that is deleted finishes without any setup.
func TestRefusedPodNeverReachesRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, root, counted := fake.New(fake.Options{}), t.TempDir(), &counters{}
		pods := []*v1.Pod{asking(newPod("a"), "1"), asking(newPod("b"), "1"), asking(newPod("c"), "1")}
		for i, p := range pods { // c is the youngest
			p.CreationTimestamp = metav1.NewTime(time.Unix(int64(1000+i), 0))
		}
		r := newRig(t, rt, root, roomFor("2"), func(c *podwright.Config) { c.Observe.MeterProvider = counted }).start()
		r.set(pods[2], pods[1], pods[0])
		r.phase("uid-a", v1.PodRunning, 10*time.Second)
		r.phase("uid-b", v1.PodRunning, 10*time.Second)
		r.rejected("uid-c", "OutOfcpu")
		if said := r.events.said("c OutOfcpu"); len(said) != 1 || "Pod was rejected: "+said[0] != r.pod("uid-c").Status.Message {
			t.Errorf("events %q, status %q", said, r.pod("uid-c").Status.Message)
		}
		if n := counted.get("kubelet_admission_rejections_total", "reason=OutOfcpu"); n != 1 {
			t.Errorf("counted %d times", n)
		}
		// The next batch sees only two (AD1): a refused pod takes no room.
		r.set(append(pods, asking(newPod("tiny"), "0"), asking(newPod("d"), "1"))...)
		r.phase("uid-tiny", v1.PodRunning, 10*time.Second)
		r.rejected("uid-d", "OutOfcpu")
		<-time.After(3 * time.Minute) // housekeeping and re-syncs change nothing
		if starts(rt, "uid-c")+starts(rt, "uid-d") != 0 {
			t.Error("a refused pod was started")
		}
		if e, known := r.engine.Explain("uid-c"); !known || e.Worker != nil {
			t.Errorf("a refused pod reached a worker: %+v", e.Worker)
		}
		r.stop()

		again := newRig(t, rt, root, roomFor("1")).start()
		again.set(append(pods, asking(newPod("new"), "1"))...)
		again.rejected("uid-new", "OutOfcpu")
		again.rejected("uid-c", "OutOfcpu")
		<-time.After(3 * time.Minute)
		for _, uid := range []types.UID{"uid-a", "uid-b"} {
			if again.pod(uid).Status.Phase != v1.PodRunning || starts(rt, uid) != 1 {
				t.Errorf("%s: %s, %d starts", uid, again.pod(uid).Status.Phase, starts(rt, uid))
			}
		}
		if again.events.count("c OutOfcpu") != 0 {
			t.Error("a refusal was told again")
		}

		gone := pods[2].DeepCopy()
		now := metav1.Now()
		gone.DeletionTimestamp = &now
		if again.sink.finished("uid-c") {
			t.Error("a refused pod is finished before it is deleted")
		}
		again.set(pods[0], pods[1], gone)
		again.within(10*time.Second, "edge case 20: finished", func() error {
			if !again.sink.finished("uid-c") {
				return errors.New("the sink has not heard of it")
			}
			return nil
		})
		again.set(pods[0], pods[1])
		again.within(10*time.Second, "the refused pod gone", func() error {
			if again.pod("uid-c") != nil || again.pod("uid-new") != nil {
				return errors.New("still known")
			}
			return nil
		})
		if len(rt.Calls(fake.Match{Method: fake.RunPodSandbox, PodUID: "uid-c"})) != 0 {
			t.Error("a refused pod got a sandbox")
		}
	})
}

// TestZeroAdmissionRefusesOnlyWhatCannotWork: the zero value refuses a port that is taken and a kernel
// parameter that is not safe, and nothing else.
func TestZeroAdmissionRefusesOnlyWhatCannotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) {
			c.Node.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		}).start()
		port := func(p *v1.Pod) *v1.Pod {
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}
			return p
		}
		sysctl := func(p *v1.Pod, name string) *v1.Pod {
			p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}}
			return p
		}
		r.set(port(newPod("p1")), port(newPod("p2")), asking(newPod("big"), "100"),
			sysctl(newPod("safe"), "net.ipv4.tcp_syncookies"), sysctl(newPod("unsafe"), "kernel.msgmax"))
		r.rejected("uid-p2", "NodePorts")
		r.rejected("uid-unsafe", "SysctlForbidden")
		for _, uid := range []types.UID{"uid-p1", "uid-big", "uid-safe"} {
			r.phase(uid, v1.PodRunning, 10*time.Second)
		}
		// A pod that replaces another gets its port: a pod that is gone from the sources does not
		// count (AD1).
		r.set(port(newPod("p3")))
		r.phase("uid-p3", v1.PodRunning, 30*time.Second)
	})
}

// TestSoftRefusalBlocksAndStops: AD6. While a soft handler refuses a pod, the pod is Pending, its
// containers wait with the reason Blocked, and running ones are stopped. Afterwards the pod runs.
func TestSoftRefusalBlocksAndStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Bool
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Workers.SyncFrequency = 10 * time.Second
			c.Admission.Soft = []admission.Handler{admission.HandlerFunc(func(admission.Request) admission.Verdict {
				if open.Load() {
					return admission.Verdict{}
				}
				return admission.Refuse("NoLicense", "the license server does not answer")
			})}
		}).start()
		blocked := func() error {
			p := r.pod("uid-web")
			if p == nil || p.Status.Phase != v1.PodPending || len(p.Status.ContainerStatuses) != 1 {
				return fmt.Errorf("%+v", p)
			}
			if w := p.Status.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "Blocked" {
				return fmt.Errorf("%+v", p.Status.ContainerStatuses[0].State)
			}
			return nil
		}
		r.set(newPod("web"))
		r.within(10*time.Second, "blocked", blocked)
		<-time.After(2 * time.Minute)
		if err := blocked(); err != nil || starts(rt, "uid-web") != 0 {
			t.Errorf("%v, %d starts", err, starts(rt, "uid-web"))
		}
		open.Store(true)
		r.phase("uid-web", v1.PodRunning, 15*time.Second)
		open.Store(false)
		r.within(time.Minute, "blocked again", blocked)
		if n := starts(rt, "uid-web"); n != 1 {
			t.Errorf("%d starts", n)
		}
		open.Store(true)
		r.phase("uid-web", v1.PodRunning, time.Minute)
	})
}
