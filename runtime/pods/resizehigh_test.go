package pods_test

import (
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// spec/runtime.md 13.6, 21.9: a resize to a request that equals the limit throttles the container no more; one between them still does.
func TestResizeLiftsTheThrottle(t *testing.T) {
	for request, want := range map[string]string{"1Gi": "9223372036854775807", "512Mi": "1020051456"} {
		synctest.Test(t, func(t *testing.T) {
			w := newResizeWorld(t, true)
			w.opts.Machine = &pods.Machine{CgroupV2: true}
			w.opts.MemoryQoS.Enabled = true
			w.restart()
			pod := apps("1 100Mi", "1 1Gi")
			w.to(pod)
			if high := w.config("a").GetLinux().GetResources().GetUnified()["memory.high"]; high == "" || high == want {
				t.Fatalf("13.6: created with memory.high %q", high)
			}
			pod = pod.DeepCopy()
			pod.Generation++
			r := &pod.Spec.Containers[0].Resources
			r.Requests[v1.ResourceMemory], r.Limits[v1.ResourceMemory] = resource.MustParse(request), resource.MustParse("1Gi")
			w.to(pod)
			calls := w.fake.Calls(fake.Match{Method: fake.UpdateContainerResources})
			if len(calls) == 0 {
				t.Fatal("21.6: nothing was updated")
			}
			last := calls[len(calls)-1].Request.(*runtimeapi.UpdateContainerResourcesRequest)
			if high := last.GetLinux().GetUnified()["memory.high"]; high != want {
				t.Errorf("13.6: memory.high %q, want %s", high, want)
			}
		})
	}
}
