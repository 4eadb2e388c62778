package podinfo

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/timing"
)

// Grace returns how long the pod asks to be given to stop: the grace period of its spec, or the
// API's default.
func Grace(pod *v1.Pod) time.Duration {
	return timing.Seconds(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds))
}

// StopWait returns how long to wait for a stop with this grace, in whole seconds: half as long
// again, because a kill follows the grace and takes time too.
func StopWait(grace time.Duration) time.Duration {
	return (grace + grace/2).Truncate(time.Second)
}
