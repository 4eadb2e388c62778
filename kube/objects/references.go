package objects

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// Object names an object that pods refer to, as an engine does. Its fields:
//
//	Kind            string // ConfigMap, Secret, PersistentVolumeClaim, RuntimeClass or Service
//	Namespace, Name string // a RuntimeClass has no namespace; a Service without a name means all of the namespace
type Object = podinfo.Object

const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
)

// references returns the config maps and secrets that a pod refers to by name.
func references(pod *v1.Pod) map[Object]bool {
	out := map[Object]bool{}
	podinfo.References(pod, func(o Object) { out[o] = true })
	return out
}
