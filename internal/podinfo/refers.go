package podinfo

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Object names an API object that pods refer to.
type Object struct {
	// Kind is ConfigMap, Secret, PersistentVolumeClaim, RuntimeClass or Service.
	Kind string
	// Namespace and Name; a RuntimeClass has no namespace. All services of a namespace count as
	// one, so the name of a Service may be empty.
	Namespace, Name string
}

// Refers reports whether a pod refers to an object. It may return true too often: a pod looks at
// all services of its namespace, and of the default one.
func Refers(pod *v1.Pod, o Object) bool {
	spec := &pod.Spec
	switch o.Kind {
	case "RuntimeClass":
		return spec.RuntimeClassName != nil && *spec.RuntimeClassName == o.Name
	case "Service":
		return o.Namespace == pod.Namespace || o.Namespace == v1.NamespaceDefault
	}
	if o.Namespace != pod.Namespace {
		return false
	}
	if o.Kind == "Secret" && slices.ContainsFunc(spec.ImagePullSecrets, func(r v1.LocalObjectReference) bool { return r.Name == o.Name }) {
		return true
	}
	return slices.ContainsFunc(spec.Volumes, func(v v1.Volume) bool { return volumeRefers(pod, &v, o) }) || environmentRefers(spec, o)
}

func volumeRefers(pod *v1.Pod, v *v1.Volume, o Object) bool {
	switch o.Kind {
	case "PersistentVolumeClaim":
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == o.Name || v.Ephemeral != nil && pod.Name+"-"+v.Name == o.Name
	case "ConfigMap":
		return v.ConfigMap != nil && v.ConfigMap.Name == o.Name || v.Projected != nil &&
			slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool { return s.ConfigMap != nil && s.ConfigMap.Name == o.Name })
	case "Secret":
		return v.Secret != nil && v.Secret.SecretName == o.Name || v.Projected != nil &&
			slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool { return s.Secret != nil && s.Secret.Name == o.Name })
	}
	return false
}

// environmentRefers checks the environments of all containers.
func environmentRefers(spec *v1.PodSpec, o Object) bool {
	refers := func(env []v1.EnvVar, from []v1.EnvFromSource) bool {
		for i := range from {
			if f := &from[i]; o.Kind == "ConfigMap" && f.ConfigMapRef != nil && f.ConfigMapRef.Name == o.Name ||
				o.Kind == "Secret" && f.SecretRef != nil && f.SecretRef.Name == o.Name {
				return true
			}
		}
		for i := range env {
			f := env[i].ValueFrom
			if f != nil && (o.Kind == "ConfigMap" && f.ConfigMapKeyRef != nil && f.ConfigMapKeyRef.Name == o.Name ||
				o.Kind == "Secret" && f.SecretKeyRef != nil && f.SecretKeyRef.Name == o.Name) {
				return true
			}
		}
		return false
	}
	for i := range spec.InitContainers {
		if refers(spec.InitContainers[i].Env, spec.InitContainers[i].EnvFrom) {
			return true
		}
	}
	for i := range spec.Containers {
		if refers(spec.Containers[i].Env, spec.Containers[i].EnvFrom) {
			return true
		}
	}
	for i := range spec.EphemeralContainers {
		if refers(spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom) {
			return true
		}
	}
	return false
}
