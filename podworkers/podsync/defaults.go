package podsync

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/status"
)

// noProbes probes nothing.
type noProbes struct{}

func (noProbes) AddPod(*v1.Pod)                   {}
func (noProbes) StopLivenessAndStartup(types.UID) {}
func (noProbes) RemovePod(types.UID)              {}
func (noProbes) Observed(*v1.Pod, *v1.PodStatus)  {}
func (noProbes) Status(probe.Kind, *v1.Pod, string, runtime.ContainerID) probe.Result {
	return probe.None
}

// asDesired grants every pod what it asks for.
type asDesired struct{}

func (asDesired) Allocate(pod *v1.Pod) (*v1.Pod, bool, error)     { return pod, false, nil }
func (asDesired) Allocated(pod *v1.Pod) *v1.Pod                   { return pod }
func (asDesired) Conditions(types.UID) []v1.PodCondition          { return nil }
func (asDesired) Actuated(types.UID) map[string]runtime.Resources { return nil }
func (asDesired) Forget(types.UID) error                          { return nil }

// noRecords remembers nothing.
type noRecords struct{}

func (noRecords) Previous(_ *v1.Pod, _ *runtime.PodStatus, old *v1.PodStatus) *v1.PodStatus {
	return old
}
func (noRecords) ProbeUnwritten(probe.Kind, runtime.ContainerID) bool { return false }
func (noRecords) ForgetProbes(types.UID)                              {}
func (noRecords) EarlierLife(types.UID) bool                          { return false }
func (noRecords) EarlierLifeGone(context.Context, types.UID) error    { return nil }

// noRestarts requests no restarts.
type noRestarts struct{}

func (noRestarts) Asked(types.UID) *status.AskedRestarts { return nil }
func (noRestarts) Seen(*v1.Pod, *runtime.PodStatus)      {}

// noMirrors makes no mirror pods.
type noMirrors struct{}

func (noMirrors) Want(*v1.Pod)     {}
func (noMirrors) Forget(types.UID) {}

// noContent has nothing to release.
type noContent struct{}

func (noContent) TearDownVolumes(context.Context, types.UID) error        { return nil }
func (noContent) RemovePod(context.Context, types.UID) error              { return nil }
func (noContent) RemoveStopped(context.Context, *runtime.PodStatus) error { return nil }
func (noContent) DestroyCgroup(context.Context, types.UID) error          { return nil }
func (noContent) Forget(types.UID)                                        {}
