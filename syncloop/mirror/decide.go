package mirror

import (
	"errors"
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
)

// errNodeUnknown: the owner of a mirror pod must have a UID (MC1).
var errNodeUnknown = errors.New("the node object is not known yet")

// Of returns the mirror pod of a static pod on a node (MC1): a copy, marked with its
// hash and owned by the node. It fails only if the node is not known: nil, or without
// a UID.
func Of(static *v1.Pod, node *v1.Node) (*v1.Pod, error) {
	if node == nil || node.UID == "" {
		return nil, errNodeUnknown
	}
	pod := static.DeepCopy()
	pod.UID, pod.ResourceVersion = "", ""
	pod.Annotations = maps.Clone(static.Annotations)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[podinfo.AnnotationMirror] = podinfo.ConfigHash(static)
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: ptr.To(true),
	}}
	return pod, nil
}

// step is the work that one mirror pod needs.
type step struct {
	// delete the mirror pod that is there; create one.
	delete, create bool
	// wait: one should be created, but there is no node to own it.
	wait bool
}

// decide compares a static pod with its mirror (MC4): mirror is nil if there is none,
// node if it is not known.
func decide(static, mirror *v1.Pod, node *v1.Node) step {
	var s step
	if mirror != nil && !matches(static, mirror) {
		s.delete = true
	}
	if mirror == nil || s.delete {
		known := node != nil && node.UID != "" && node.DeletionTimestamp == nil
		s.create, s.wait = known, !known
	}
	return s
}

// matches reports whether a mirror pod is the right one for a static pod that is set up. A
// mirror pod that has ended belongs to an earlier life (IN14): a pod of an API ends once.
func matches(static, mirror *v1.Pod) bool {
	return mirror.DeletionTimestamp == nil && !podinfo.Terminal(mirror.Status.Phase) && mirror.Name == static.Name && mirror.Namespace == static.Namespace &&
		mirror.Annotations[podinfo.AnnotationMirror] == podinfo.ConfigHash(static)
}
