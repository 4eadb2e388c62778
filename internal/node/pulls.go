package node

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods"
)

// ShowPulls adds to a pod's status what its containers are waiting for. That is only for the status
// that is shown, not for the one that is reported.
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
