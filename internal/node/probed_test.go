package node

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
)

// probedStatuses are the statuses of pods whose probes say nothing.
type probedStatuses struct{ podStatuses }

func (probedStatuses) SetContainerStartup(types.UID, runtime.ContainerID, bool)   {}
func (probedStatuses) SetContainerReadiness(types.UID, runtime.ContainerID, bool) {}

// noViews is a runtime that shows nothing.
type noViews struct{}

func (noViews) Get(types.UID) (*runtime.PodStatus, error) { return nil, nil }

// TestPodsOnTheHostNetworkAreProbedWhereTheNodeIs is spec/probe.md 5.1: the status keeps the address that
// the node had when the pod started (status.md 6.3), and nothing answers there any more.
func TestPodsOnTheHostNetworkAreProbedWhereTheNodeIs(t *testing.T) {
	for name, c := range map[string]struct {
		host     bool
		recorded string
		node     []string
		want     string
	}{
		"the node has another address":     {true, "192.0.2.1", []string{"192.0.2.9", "fd00::9"}, "192.0.2.9"},
		"the node has the address":         {true, "192.0.2.1", []string{"192.0.2.9", "192.0.2.1"}, "192.0.2.1"},
		"it has it in another spelling":    {true, "fd00::1", []string{"192.0.2.9", "fd00:0::1"}, "fd00::1"},
		"no address was recorded":          {true, "", []string{"192.0.2.9"}, "192.0.2.9"},
		"the node's addresses are unknown": {true, "192.0.2.1", nil, "192.0.2.1"},
		"a network of its own":             {false, "10.0.0.1", []string{"192.0.2.9"}, "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("a")
			pod.Spec.HostNetwork = c.host
			statuses := podStatuses{"a": {PodIP: c.recorded}}
			probed := &Probed{
				Statuses: probedStatuses{statuses}, Desired: desire(pod), Views: noViews{},
				Stopping:  func(types.UID) (*v1.Pod, bool) { return nil, false },
				Addresses: func() []string { return c.node },
			}
			if view, ok := probed.View("a"); !ok || view.Status.PodIP != c.want {
				t.Errorf("probed at %q, want %q", view.Status.PodIP, c.want)
			}
			if kept := statuses["a"].PodIP; kept != c.recorded {
				t.Errorf("the status has %q", kept)
			}
		})
	}
}
