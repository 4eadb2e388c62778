package server

import (
	"errors"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// failure is an answer other than success.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

// fail answers with an error: with its own code if it is a failure, otherwise by the runtime's
// class of the error.
func fail(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), codeOf(err))
}

func codeOf(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	switch cri.Class(err) {
	case runtime.ErrNotFound:
		return http.StatusNotFound
	case runtime.ErrExhausted:
		return http.StatusTooManyRequests
	case runtime.ErrUnimplemented:
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}

// podOf returns the pod that the path names.
func podOf(engine Engine, r *http.Request) (*v1.Pod, error) {
	namespace, name, uid := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("uid")
	missing := &failure{http.StatusNotFound, fmt.Sprintf("pod %q does not exist", name+"_"+namespace)}
	if uid == "" {
		if pod, ok := engine.PodNamed(namespace, name); ok {
			return pod, nil
		}
		return nil, missing
	}
	if pod, ok := engine.Pod(types.UID(uid)); ok && pod.Namespace == namespace && pod.Name == name {
		return pod, nil
	}
	return nil, missing
}

// running returns the runtime's ID of a running container of a pod.
func running(pod *v1.Pod, container string) (string, error) {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name != container || list[i].State.Running == nil {
				continue
			}
			if id, err := runtime.ParseContainerID(list[i].ContainerID); err == nil && !id.IsZero() {
				return id.ID, nil
			}
		}
	}
	return "", &failure{http.StatusNotFound, fmt.Sprintf("container not found (%q)", container)}
}
