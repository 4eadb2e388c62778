package podwrighttest_test

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/podwrighttest"
	"github.com/podwright/podwright/runtime/fake"
)

const device = v1.ResourceName("example.com/device")

// asking returns a pod that asks for one of a resource.
func asking(name string, what v1.ResourceName, priority *int32) *v1.Pod {
	p := podwrighttest.Pod(name)
	p.Spec.Priority = priority
	one := v1.ResourceList{what: resource.MustParse("1")}
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: one, Limits: one}
	return p
}

var most = ptr.To[int32](2_000_000_000)

// withOne is a node with one CPU and one device.
func withOne(fit bool) podwrighttest.Options {
	return podwrighttest.Options{
		Programs: map[string]podwrighttest.Program{"stubborn/main": {IgnoresTERM: true}},
		Configure: func(c *podwright.Config) {
			c.Node.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), device: resource.MustParse("1")}
			c.Admission.FitResources = fit
		},
	}
}

// TestCriticalPodGetsADevice: devices are room that others have to make, even where CPU and memory
// need not fit (section 16).
func TestCriticalPodGetsADevice(t *testing.T) {
	for _, fit := range []bool{true, false} {
		podwrighttest.Run(t, withOne(fit), func(n *podwrighttest.Node) {
			n.Add(asking("ordinary", device, nil))
			n.WaitPhase("ordinary", v1.PodRunning)
			n.Add(asking("critical", device, most))
			n.WaitPhase("critical", v1.PodRunning)
			n.WaitPhase("ordinary", v1.PodFailed)
			n.Remove("critical")
			n.WaitPhase("ordinary", v1.PodRunning)
		})
	}
}

// TestNoRoomIsMadeForAMissingDevice: it would be in vain.
func TestNoRoomIsMadeForAMissingDevice(t *testing.T) {
	podwrighttest.Run(t, withOne(true), func(n *podwrighttest.Node) {
		n.Add(asking("ordinary", v1.ResourceCPU, nil))
		n.WaitPhase("ordinary", v1.PodRunning)
		critical := asking("critical", "example.com/other", most)
		critical.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
		n.Add(critical)
		n.WaitPhase("critical", v1.PodFailed)
		if p := n.Pod("ordinary"); p.Status.Phase != v1.PodRunning {
			t.Errorf("%s %s", p.Status.Phase, p.Status.Reason)
		}
	})
}

// TestNoRoomIsMadeForCPUThatNeedNotFit: only the pod with the device goes.
func TestNoRoomIsMadeForCPUThatNeedNotFit(t *testing.T) {
	podwrighttest.Run(t, withOne(false), func(n *podwrighttest.Node) {
		n.Add(asking("cpu", v1.ResourceCPU, nil), asking("device", device, nil))
		n.WaitPhase("cpu", v1.PodRunning)
		n.WaitPhase("device", v1.PodRunning)
		critical := asking("critical", device, most)
		critical.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
		n.Add(critical)
		n.WaitPhase("critical", v1.PodRunning)
		n.WaitPhase("device", v1.PodFailed)
		if p := n.Pod("cpu"); p.Status.Phase != v1.PodRunning {
			t.Errorf("%s %s", p.Status.Phase, p.Status.Reason)
		}
	})
}

// TestPodWaitsForADeviceInPeace: it is tried again when the device is free, not before (IN14).
func TestPodWaitsForADeviceInPeace(t *testing.T) {
	for _, fit := range []bool{true, false} {
		podwrighttest.Run(t, withOne(fit), func(n *podwrighttest.Node) {
			n.Add(asking("first", device, nil))
			n.WaitPhase("first", v1.PodRunning)
			n.Add(asking("second", device, nil))
			n.Advance(31 * time.Minute)
			if events := n.Events("second"); len(events) != 1 {
				t.Errorf("fit %v: %v", fit, events)
			}
			n.Remove("first")
			n.WaitPhase("second", v1.PodRunning)
		})
	}
}

// TestPreemptedBeforeItBegan: such a static pod comes back too (IN14): while it waits for its name,
// and while it waits for the runtime.
func TestPreemptedBeforeItBegan(t *testing.T) {
	t.Run("it waits for its name", func(t *testing.T) {
		podwrighttest.Run(t, withOne(true), func(n *podwrighttest.Node) {
			n.Add(asking("stubborn", v1.ResourceCPU, nil))
			n.WaitPhase("stubborn", v1.PodRunning)
			edited := asking("stubborn", v1.ResourceCPU, nil)
			edited.UID = "uid-stubborn-2"
			n.Add(edited)
			n.Advance(time.Second)
			n.Add(asking("critical", v1.ResourceCPU, most))
			n.WaitPhase("critical", v1.PodRunning)
			if p := n.Pod("stubborn"); p.Status.Phase != v1.PodFailed || p.Status.Reason != "Preempting" {
				t.Errorf("%s %s", p.Status.Phase, p.Status.Reason)
			}
			n.Remove("critical")
			n.WaitPhase("stubborn", v1.PodRunning)
		})
	})
	t.Run("it waits for the runtime", func(t *testing.T) {
		podwrighttest.Run(t, withOne(true), func(n *podwrighttest.Node) {
			n.Advance(time.Minute)
			mend := n.Fail(fake.Status, errors.New("down"))
			n.Advance(2 * time.Minute)
			n.Add(asking("ordinary", v1.ResourceCPU, nil))
			n.Advance(time.Second)
			n.Add(asking("critical", v1.ResourceCPU, most))
			n.Advance(time.Second)
			mend()
			n.WaitPhase("critical", v1.PodRunning)
			if p := n.Pod("ordinary"); p.Status.Phase != v1.PodFailed || p.Status.Reason != "Preempting" {
				t.Errorf("%s %s", p.Status.Phase, p.Status.Reason)
			}
			n.Remove("critical")
			n.WaitPhase("ordinary", v1.PodRunning)
		})
	})
}
