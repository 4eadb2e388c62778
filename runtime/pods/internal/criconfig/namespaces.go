package criconfig

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// IDMapping maps a pod's user IDs from 0 on to the node's from HostID on.
type IDMapping struct{ HostID, Length uint32 }

func (m IDMapping) list() []*runtimeapi.IDMapping {
	return []*runtimeapi.IDMapping{{HostId: m.HostID, Length: m.Length}}
}

// namespaces returns the pod's namespace options (spec/runtime.md 3.4). users is
// its user namespace, nil if it shares the node's.
func namespaces(pod *v1.Pod, users *IDMapping) (*runtimeapi.NamespaceOption, error) {
	out := &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_POD,
		Ipc:     runtimeapi.NamespaceMode_POD,
		Pid:     runtimeapi.NamespaceMode_CONTAINER,
	}
	if pod.Spec.HostNetwork {
		out.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		out.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		out.Pid = runtimeapi.NamespaceMode_NODE
	case isTrue(pod.Spec.ShareProcessNamespace):
		out.Pid = runtimeapi.NamespaceMode_POD
	}
	if !usesUserNamespace(pod) {
		out.UsernsOptions = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}
		return out, nil
	}
	if pod.Spec.HostPID || pod.Spec.HostIPC {
		return nil, errors.New("hostUsers: false cannot be combined with hostPID or hostIPC")
	}
	if users == nil {
		return nil, errors.New("hostUsers: false: the pod has no range of user IDs")
	}
	out.UsernsOptions = &runtimeapi.UserNamespace{
		Mode: runtimeapi.NamespaceMode_POD, Uids: users.list(), Gids: users.list(),
	}
	return out, nil
}
