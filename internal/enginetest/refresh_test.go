package enginetest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// settings are config maps that all have the same value, which changes.
type settings struct {
	mu    sync.Mutex
	value string
	delay time.Duration
}

// slow delays every answer; the answer is the value at the time of the question.
func (s *settings) slow(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

func (s *settings) set(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = value
}

func (s *settings) GetConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	s.mu.Lock()
	value, delay := s.value, s.delay
	s.mu.Unlock()
	<-time.After(delay)
	return &v1.ConfigMap{Data: map[string]string{"k": value}}, nil
}

func (s *settings) GetSecret(context.Context, string, string) (*v1.Secret, error) {
	return nil, runtime.ErrNotFound
}

// settingsPod mounts a config map into each of its containers.
func settingsPod(name string, containers ...string) *v1.Pod {
	pod := newPod(name, containers...)
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
		ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}},
	}}}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
	return pod
}

// mounts waits until the volume of a pod has the value.
func (r *rig) mounts(uid types.UID, want string, limit time.Duration) {
	r.t.Helper()
	path := filepath.Join(r.root, "pods", string(uid), "volumes", "kubernetes.io~configmap", "v", "k")
	r.within(limit, fmt.Sprintf("%s in the volume of %s", want, uid), func() error {
		got, err := os.ReadFile(path)
		if err == nil && string(got) != want {
			err = unmet(func() string { return fmt.Sprintf("it has %q", got) })
		}
		return err
	})
}

// TestRefreshWritesVolumesAgain: IN15. A named pod has the new content at once, others have it with
// their next sync. Unknown UIDs have no effect.
func TestRefreshWritesVolumesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := &settings{value: "old"}
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) { c.Pods.Objects = objects }).start()
		r.set(settingsPod("a"), settingsPod("b"))
		for _, uid := range []types.UID{"uid-a", "uid-b"} {
			r.phase(uid, v1.PodRunning, 5*time.Second)
			r.mounts(uid, "old", 0)
		}
		<-time.After(5 * time.Second)
		objects.set("new")
		uids := []types.UID{"", "uid-c", "uid-a"}
		for i := range 1000 {
			uids = append(uids, types.UID(fmt.Sprintf("unknown-%d", i)))
		}
		r.engine.Refresh(uids...)
		r.engine.Refresh()
		r.mounts("uid-a", "new", 10*time.Millisecond)
		r.mounts("uid-b", "old", 0)
		r.mounts("uid-b", "new", 90*time.Second)
		if n := len(r.engine.Pods()); n != 2 {
			t.Errorf("%d pods", n)
		}
	})
}

// TestRefreshDuringAStep: IN15. If a change is announced during a step of the pod (here one that
// reads the old content), the new content is written as soon as the step has ended.
func TestRefreshDuringAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := &settings{value: "first"}
		r := newRig(t, fake.New(fake.Options{}), t.TempDir(), func(c *podwright.Config) { c.Pods.Objects = objects }).start()
		r.set(settingsPod("a"))
		r.phase("uid-a", v1.PodRunning, 5*time.Second)
		<-time.After(5 * time.Second)
		objects.slow(5 * time.Second)
		objects.set("second")
		r.engine.Refresh("uid-a")
		<-time.After(2 * time.Second)
		objects.set("third")
		r.engine.Refresh("uid-a")
		r.mounts("uid-a", "first", 0)
		r.mounts("uid-a", "second", 3100*time.Millisecond)
		r.mounts("uid-a", "third", 5100*time.Millisecond)
	})
}

// TestRefreshDuringAPull: IN15. A pull may take an hour. Meanwhile the running containers of the pod get new
// content at once, every time it changes, and the pull goes on.
func TestRefreshDuringAPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects, rt := &settings{value: "0"}, fake.New(fake.Options{})
		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage, Func: func(c fake.Call) bool {
			return c.Request.(*runtimeapi.PullImageRequest).Image.Image == "docker.io/library/slow:1"
		}}, Effect: fake.Effect{Delay: time.Hour}})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.Objects = objects }).start()
		pod := settingsPod("a", "main", "late")
		pod.Spec.Containers[1].Image = "docker.io/library/slow:1"
		r.set(pod)
		<-time.After(5 * time.Second)
		if rt.Running("uid-a", "main") != 1 {
			t.Fatal(r.explain("uid-a"))
		}
		r.mounts("uid-a", "0", 0)
		for i := range 3 {
			value := fmt.Sprint(i + 1)
			objects.set(value)
			if i == 1 {
				r.engine.ObjectChanged(podwright.Object{Kind: "ConfigMap", Namespace: "default", Name: "settings"})
			} else {
				r.engine.Refresh("uid-a")
			}
			r.mounts("uid-a", value, 10*time.Millisecond)
			<-time.After(10 * time.Minute)
		}
		r.phase("uid-a", v1.PodRunning, time.Hour)
		if n := rt.CallCount(fake.PullImage); n != 2 {
			t.Errorf("%d pulls of two images", n)
		}
	})
}

// TestPodIsShownWithItsStatus: servers of logs and exec find a pod by its UID and by its name, with
// its newest status, as long as the engine knows it. The copy belongs to the caller. A name means
// the desired pod, not its predecessor.
func TestPodIsShownWithItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir()).start()
		r.set(newPod("a"))
		r.phase("uid-a", v1.PodRunning, 5*time.Second)
		pod, ok := r.engine.Pod("uid-a")
		if !ok || pod.Name != "a" || pod.Status.Phase != v1.PodRunning {
			t.Fatalf("pod %v, %+v", ok, pod)
		}
		pod.Labels = map[string]string{"mine": ""}
		if named, ok := r.engine.PodNamed("default", "a"); !ok || named.UID != "uid-a" || named.Labels != nil || named.Status.Phase != v1.PodRunning {
			t.Errorf("by name: %v, %+v", ok, named)
		}
		for _, name := range []string{"b", ""} {
			if _, ok := r.engine.PodNamed("default", name); ok {
				t.Errorf("there is a pod %q", name)
			}
		}
		if _, ok := r.engine.PodNamed("other", "a"); ok {
			t.Error("a pod of another namespace was found")
		}
		if _, ok := r.engine.Pod("uid-b"); ok {
			t.Error("an unknown UID was found")
		}

		rt.Inject(fake.Fault{Match: fake.Match{Method: fake.StopContainer}, Effect: fake.Effect{Delay: 5 * time.Second}})
		next := newPod("a")
		next.UID = "uid-next"
		r.set(next)
		r.within(time.Second, "the old pod to stop", func() error {
			if old, ok := r.engine.Pod("uid-a"); !ok || old.DeletionTimestamp == nil {
				return fmt.Errorf("it does not: %v", ok)
			}
			return nil
		})
		if named, ok := r.engine.PodNamed("default", "a"); !ok || named.UID != "uid-next" {
			t.Errorf("the name leads to %v", named)
		}
		r.phase("uid-next", v1.PodRunning, 20*time.Second)
		r.within(20*time.Second, "the old pod to be gone", func() error {
			if _, ok := r.engine.Pod("uid-a"); ok {
				return fmt.Errorf("it is known")
			}
			return nil
		})
	})
}
