package memoryapi

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	errModified     = errors.New("the object has been modified; please apply your changes to the latest version and try again")
	errPrecondition = errors.New("the precondition names another life of the object")
	errOfOther      = errors.New("no relationship found between the node and this object")
	errNoMirror     = errors.New("a node creates mirror pods only, bound to it and owned by its Node")
)

// otherLife is the error of a write with the UID of another life: of a pod or node, whose UID is a
// field that must not change.
func otherLife(k key, uid types.UID) error {
	return apierrors.NewInvalid(resources[k.resource].GroupKind(), k.name, field.ErrorList{
		field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable"),
	})
}

// mayWrite denies a node the pods of other nodes. The lock is held.
func (s *Server) mayWrite(node string, o object) error {
	if pod, ok := o.(*v1.Pod); ok && node != "" && pod.Spec.NodeName != node {
		return apierrors.NewForbidden(v1.Resource("pods"), pod.Name, errOfOther)
	}
	return nil
}

// mayRead is mayWrite for a read: a pod that does not exist is not the node's own.
func (s *Server) mayRead(node string, k key, o object) error {
	if k.resource == "pods" && node != "" && o == nil {
		return apierrors.NewForbidden(v1.Resource("pods"), k.name, errOfOther)
	}
	return s.mayWrite(node, o)
}

// mayCreate denies a node every pod but its mirror pods, which its current Node must own.
func (s *Server) mayCreate(node string, pod *v1.Pod) error {
	_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
	self := s.objects[key{"nodes", "", node}]
	refused := !mirror || pod.Spec.NodeName != node || len(pod.OwnerReferences) != 1 || self == nil
	if !refused {
		owner := pod.OwnerReferences[0]
		refused = owner.Kind != "Node" || owner.Name != node || owner.UID != self.GetUID()
	}
	if refused {
		return apierrors.NewForbidden(v1.Resource("pods"), pod.Name, fmt.Errorf("%w: owners %v", errNoMirror, pod.OwnerReferences))
	}
	return nil
}
