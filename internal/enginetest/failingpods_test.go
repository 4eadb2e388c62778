package enginetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/fake"
)

// TestFailingPodsAreQuiet: the engine tries again and again, with pauses, to set up a pod that
// cannot be set up. Whatever is wrong with the pod, ten minutes bring several attempts and few
// runtime calls.
func TestFailingPodsAreQuiet(t *testing.T) {
	t.Parallel()
	refuse := func(m fake.Method) func(*fake.Runtime) {
		return func(rt *fake.Runtime) {
			rt.Inject(fake.Fault{Match: fake.Match{Method: m, Pod: "bad"}, Effect: fake.Effect{Err: errors.New("refused")}})
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func(*v1.Pod)
		fault func(*fake.Runtime)
		// tried is a call that each attempt makes, at least 5 in ten minutes; empty: an attempt makes no call and is seen by its event,
		// which becomes less and less frequent. calls is the maximum number of calls of any kind.
		tried fake.Method
		calls int
	}{
		{name: "config", tried: fake.ImageStatus, calls: 150, spoil: func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](0)}
		}},
		{name: "volume", calls: 10, spoil: func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "far", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "x", Path: "/x"}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "far", MountPath: "/far"}}
		}},
		{name: "image never", tried: fake.ImageStatus, calls: 150, spoil: func(p *v1.Pod) {
			p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "absent/image:1", v1.PullNever
		}},
		{name: "image name", tried: fake.PodSandboxStatus, calls: 150, spoil: func(p *v1.Pod) { p.Spec.Containers[0].Image = "No/Image Name" }},
		{name: "pull", tried: fake.PullImage, calls: 150, fault: refuse(fake.PullImage), spoil: func(p *v1.Pod) { p.Spec.Containers[0].ImagePullPolicy = v1.PullAlways }},
		{name: "sandbox", tried: fake.RunPodSandbox, calls: 150, fault: refuse(fake.RunPodSandbox)},
		{name: "create", tried: fake.CreateContainer, calls: 300, fault: refuse(fake.CreateContainer)},
		{name: "start", tried: fake.StartContainer, calls: 300, fault: refuse(fake.StartContainer)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := fake.New(fake.Options{})
				if tc.fault != nil {
					tc.fault(rt)
				}
				r := newRig(t, rt, t.TempDir()).start()
				pod := newPod("bad")
				if tc.spoil != nil {
					tc.spoil(pod)
				}
				r.set(pod)
				<-time.After(10 * time.Minute)
				synctest.Wait()
				calls := map[fake.Method]int{}
				for _, c := range rt.Calls(fake.Match{Func: func(c fake.Call) bool { return c.Method != fake.Status && !wholeList(c) }}) {
					calls[c.Method]++
				}
				all := 0
				for _, n := range calls {
					all += n
				}
				if p := r.pod(pod.UID); p == nil || p.Status.Phase != v1.PodPending {
					t.Errorf("the pod is %+v", p)
				}
				if n := calls[tc.tried]; tc.tried != "" && n < 5 || tc.tried == "" && r.events.count("bad FailedMount") < 3 {
					t.Errorf("%d calls of %q in 10 min, want at least 5, or 3 events: %v", n, tc.tried, calls)
				}
				if all > tc.calls {
					t.Errorf("%d calls in 10 min, want at most %d: %v", all, tc.calls, calls)
				}
				t.Logf("%d calls: %v", all, calls)
			})
		})
	}
}
