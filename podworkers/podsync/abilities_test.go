package podsync_test

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/podworkers/podsync"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// spec/runtime.md 21.5: a container is resized in place by the runtime behind Calls.
func TestManagerResizesThroughCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		allocations := must(pods.NewAllocations(pods.AllocationOptions{Store: pods.ResourceFiles{Dir: t.TempDir()}}))
		manager := must(pods.New(podsync.NewCalls(rt, podsync.CallOptions{}), rt, pods.Options{
			RootDir: t.TempDir(), LogDir: t.TempDir(), NoResolvConf: true, Allocations: allocations,
		}))
		view := cri.NewView(rt, cri.ViewOptions{})
		for _, memory := range []string{"128Mi", "256Mi"} {
			pod := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-1"},
				Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "app:1", Resources: v1.ResourceRequirements{
					Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}, Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Mi")},
				}}}},
			}
			allocated, _, err := allocations.Allocate(pod)
			if err != nil {
				t.Fatal(err)
			}
			for acted := true; acted; {
				r := manager.SyncPod(t.Context(), allocated, must(view.Read(t.Context(), pod.UID)))
				if acted = r.Acted; r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			want := resource.MustParse(memory)
			if c := must(view.Read(t.Context(), pod.UID)).Container("app"); c.RestartCount != 0 || c.Resources.MemoryLimit != want.Value() {
				t.Errorf("the container has %d bytes and %d restarts, want %d and 0", c.Resources.MemoryLimit, c.RestartCount, want.Value())
			}
		}
		if c := allocations.Conditions("web-1"); len(c) != 0 {
			t.Errorf("21.9: conditions %v", c)
		}
	})
}
