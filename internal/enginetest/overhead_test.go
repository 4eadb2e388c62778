package enginetest_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// heavyClass is a runtime class with an overhead.
type heavyClass struct{}

func (heavyClass) RuntimeClass(string) (pods.RuntimeClass, error) {
	return pods.RuntimeClass{Overhead: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("64Mi")}}, nil
}

// lateClass is a runtime class that cannot be read until known is true.
type lateClass struct{ known *atomic.Bool }

func (c lateClass) RuntimeClass(name string) (pods.RuntimeClass, error) {
	if !c.known.Load() {
		return pods.RuntimeClass{}, errors.New("the classes cannot be read")
	}
	return heavyClass{}.RuntimeClass(name)
}

// TestOverheadOfALateClassCounts: FD3. If a class cannot be read when its pod is delivered, the engine asks
// for it again, so that the overhead counts without another delivery. The pod does not restart because of it.
func TestOverheadOfALateClassCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		var known atomic.Bool
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) { c.Pods.RuntimeClasses = lateClass{&known} }).start()
		late, plain, dropped := newPod("late"), newPod("plain"), newPod("dropped")
		late.Spec.RuntimeClassName, dropped.Spec.RuntimeClassName = ptr.To("heavy"), ptr.To("heavy")
		r.set(dropped)
		r.set(late, plain)
		r.phase(plain.UID, v1.PodRunning, time.Minute)
		<-time.After(time.Minute)
		if got := r.pod(late.UID).Status.Phase; got != v1.PodPending {
			t.Fatalf("phase %s without the class", got)
		}
		known.Store(true)
		r.phase(late.UID, v1.PodRunning, time.Minute)
		r.within(20*time.Second, "the overhead", func() error {
			if got := r.pod(late.UID).Spec.Overhead.Cpu().String(); got != "500m" {
				return fmt.Errorf("it is %s", got)
			}
			return nil
		})
		<-time.After(time.Minute)
		if n := len(requests[*runtimeapi.RunPodSandboxRequest](rt, fake.RunPodSandbox, dropped.UID)); n != 0 {
			t.Errorf("a pod that its source no longer wants was delivered again: %d sandboxes", n)
		}
		for _, p := range []*v1.Pod{late, plain} {
			if n := len(requests[*runtimeapi.CreateContainerRequest](rt, fake.CreateContainer, p.UID)); n != 1 {
				t.Errorf("%s: %d containers were made", p.Name, n)
			}
		}
	})
}

// TestOverheadOfTheClassCounts: FD3, spec/runtime.md 3.10. The overhead of a pod's runtime class is
// part of the pod's requests and is passed to the runtime, as if an API server had put it into the
// pod. A pod's own overhead stays.
func TestOverheadOfTheClassCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fake.New(fake.Options{})
		r := newRig(t, rt, t.TempDir(), func(c *podwright.Config) {
			c.Pods.RuntimeClasses, c.Admission.FitResources = heavyClass{}, true
			c.Node.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
		}).start()
		fits, own, big := newPod("fits"), newPod("own"), newPod("big")
		for _, p := range []*v1.Pod{fits, own, big} {
			p.Spec.RuntimeClassName = ptr.To("heavy")
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}
		}
		own.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
		big.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1600m")}
		r.set(fits)
		r.phase(fits.UID, v1.PodRunning, time.Minute)
		if got := r.pod(fits.UID).Spec.Overhead.Cpu().String(); got != "500m" {
			t.Errorf("the pod's overhead is %s", got)
		}
		if fits.Spec.Overhead != nil {
			t.Error("the source's own pod was changed")
		}
		r.set(fits, own)
		r.phase(own.UID, v1.PodRunning, time.Minute)
		if got := requests[*runtimeapi.RunPodSandboxRequest](rt, fake.RunPodSandbox, own.UID)[0].GetConfig().GetLinux().GetOverhead().GetCpuShares(); got != 102 {
			t.Errorf("own overhead: %d shares", got)
		}
		r.set(big) // 1600m and 500m do not fit into 2
		r.phase(big.UID, v1.PodFailed, time.Minute)
		if got := r.pod(big.UID).Status.Reason; got != "OutOfcpu" {
			t.Errorf("reason %s", got)
		}
	})
}
