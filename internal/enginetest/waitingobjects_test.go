package enginetest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
)

// objectsLater are config maps and secrets that exist from a certain time on.
type objectsLater struct {
	mu     sync.Mutex
	exist  bool
	misses int
}

func (o *objectsLater) get() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.exist {
		return nil
	}
	o.misses++
	return runtime.ErrNotFound
}

func (o *objectsLater) GetConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	return &v1.ConfigMap{Data: map[string]string{"k": "v"}}, o.get()
}

func (o *objectsLater) GetSecret(context.Context, string, string) (*v1.Secret, error) {
	return &v1.Secret{Data: map[string][]byte{"k": []byte("v")}}, o.get()
}

// waitingPod refers to the config map or secret "late" in one of four ways.
func waitingPod(i int) *v1.Pod {
	pod := newPod(fmt.Sprintf("p%02d", i))
	ref := v1.LocalObjectReference{Name: "late"}
	switch c := &pod.Spec.Containers[0]; i % 4 {
	case 0:
		c.EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ref}}}
	case 1:
		c.Env = []v1.EnvVar{{Name: "K", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: ref, Key: "k"}}}}
	case 2:
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ref}}}}
	default:
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "late"}}}}
	}
	return pod
}

// comes creates the objects for which pods have waited, and tells the engine if told is true. It
// checks that all pods run as soon as that allows.
func (r *rig) comes(o *objectsLater, told bool, pods []*v1.Pod) {
	r.t.Helper()
	o.mu.Lock()
	o.exist = true
	misses := o.misses
	o.mu.Unlock()
	if misses > len(pods)*3600/5 {
		r.t.Errorf("objects were asked for %d times in an hour", misses)
	}
	limit := 16 * time.Second
	if told {
		limit = time.Second
		for _, kind := range []string{"ConfigMap", "Secret"} {
			r.engine.ObjectChanged(podwright.Object{Kind: kind, Namespace: "default", Name: "late"})
		}
	}
	<-time.After(limit)
	synctest.Wait()
	for _, pod := range pods {
		if uid := pod.UID; r.runtime.Running(uid, "main") != 1 {
			r.t.Errorf("%s does not run %v after its object came: %s", uid, limit, r.explain(uid))
		}
	}
}

// TestPodsLookForObjectsSoon: IN15. Pods wait for an hour for an object. When it comes, they run
// within 10 s plus jitter, or at once if the engine hears of it. Another pod is not affected.
func TestPodsLookForObjectsSoon(t *testing.T) {
	t.Parallel()
	const n = 10
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprintf("told %v", told), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects, rt := &objectsLater{}, fake.New(fake.Options{})
				r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.Objects = objects }).start()
				pods := []*v1.Pod{newPod("good")}
				for i := range n {
					pods = append(pods, waitingPod(i))
				}
				r.set(pods...)
				r.phase("uid-good", v1.PodRunning, 5*time.Second)
				<-time.After(time.Hour)
				r.comes(objects, told, pods[1:])
				if f := rt.Facts("uid-good", "main"); f.Started != 1 {
					t.Errorf("the good pod was started %d times", f.Started)
				}
			})
		})
	}
}

// TestCrashingContainerDelaysNoOther: IN15, L5. A container waits for an object while another one of
// its pod crashes again and again. It runs as soon as without the other, and other starts that fail
// are repeated by the pod's own back-off.
func TestCrashingContainerDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects, rt := &objectsLater{}, fake.New(fake.Options{Script: func(l fake.Launch) fake.Script {
			if l.Container == "crashing" {
				return fake.Script{Exit: &fake.Exit{After: time.Second, Code: 1}}
			}
			return fake.Script{}
		}})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.Objects = objects }).start()
		var pods []*v1.Pod
		for i := range 4 {
			pod := waitingPod(i)
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "crashing", Image: "app:1"})
			pods = append(pods, pod)
		}
		r.set(pods...)
		<-time.After(time.Hour)
		if err := r.problems(); err == nil || !strings.Contains(err.Error(), "an object or a path that it refers to") {
			t.Errorf("problems %v", err)
		}
		r.comes(objects, false, pods)
	})
}
