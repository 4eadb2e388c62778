package node

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods"
)

// ShowPulls says in the status of a pod that is shown, not in the one that is reported,
// what its containers wait for.
func ShowPulls(pod *v1.Pod, pulls []pods.Pull) {
	for _, p := range pulls {
		for _, list := range [][]v1.ContainerStatus{
			pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
		} {
			for i := range list {
				if w := list[i].State.Waiting; list[i].Name == p.Container && w != nil && w.Message == "" {
					w.Message = p.String()
				}
			}
		}
	}
}
