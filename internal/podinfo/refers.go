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
	case "PersistentVolumeClaim":
		return o.Namespace == pod.Namespace && slices.ContainsFunc(spec.Volumes, func(v v1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == o.Name || v.Ephemeral != nil && pod.Name+"-"+v.Name == o.Name
		})
	}
	found := false
	References(pod, func(r Object) { found = found || r == o })
	return found
}

// References calls found with each config map and secret that a pod refers to by name, more than
// once if it does so in several places.
func References(pod *v1.Pod, found func(Object)) {
	add := func(kind, name string) {
		if name != "" {
			found(Object{Kind: kind, Namespace: pod.Namespace, Name: name})
		}
	}
	spec := &pod.Spec
	for i := range spec.ImagePullSecrets {
		add("Secret", spec.ImagePullSecrets[i].Name)
	}
	for i := range spec.Volumes {
		volumeReferences(&spec.Volumes[i].VolumeSource, add)
	}
	for i := range spec.InitContainers {
		environmentReferences(spec.InitContainers[i].Env, spec.InitContainers[i].EnvFrom, add)
	}
	for i := range spec.Containers {
		environmentReferences(spec.Containers[i].Env, spec.Containers[i].EnvFrom, add)
	}
	for i := range spec.EphemeralContainers {
		environmentReferences(spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom, add)
	}
}

func volumeReferences(v *v1.VolumeSource, add func(kind, name string)) {
	switch {
	case v.ConfigMap != nil:
		add("ConfigMap", v.ConfigMap.Name)
	case v.Secret != nil:
		add("Secret", v.Secret.SecretName)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		add("Secret", v.CSI.NodePublishSecretRef.Name)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				add("ConfigMap", s.ConfigMap.Name)
			}
			if s.Secret != nil {
				add("Secret", s.Secret.Name)
			}
		}
	}
}

func environmentReferences(env []v1.EnvVar, from []v1.EnvFromSource, add func(kind, name string)) {
	for i := range from {
		if r := from[i].ConfigMapRef; r != nil {
			add("ConfigMap", r.Name)
		}
		if r := from[i].SecretRef; r != nil {
			add("Secret", r.Name)
		}
	}
	for i := range env {
		if env[i].ValueFrom == nil {
			continue
		}
		if r := env[i].ValueFrom.ConfigMapKeyRef; r != nil {
			add("ConfigMap", r.Name)
		}
		if r := env[i].ValueFrom.SecretKeyRef; r != nil {
			add("Secret", r.Name)
		}
	}
}
