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
	add := func(kind, name string) {
		if name != "" {
			out[Object{Kind: kind, Namespace: pod.Namespace, Name: name}] = true
		}
	}
	for _, s := range pod.Spec.ImagePullSecrets {
		add(kindSecret, s.Name)
	}
	for i := range pod.Spec.Volumes {
		volumeReferences(&pod.Spec.Volumes[i].VolumeSource, add)
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			environmentReferences(list[i].Env, list[i].EnvFrom, add)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		environmentReferences(c.Env, c.EnvFrom, add)
	}
	return out
}

func volumeReferences(v *v1.VolumeSource, add func(kind, name string)) {
	switch {
	case v.ConfigMap != nil:
		add(kindConfigMap, v.ConfigMap.Name)
	case v.Secret != nil:
		add(kindSecret, v.Secret.SecretName)
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		add(kindSecret, v.CSI.NodePublishSecretRef.Name)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				add(kindConfigMap, s.ConfigMap.Name)
			}
			if s.Secret != nil {
				add(kindSecret, s.Secret.Name)
			}
		}
	}
}

func environmentReferences(env []v1.EnvVar, from []v1.EnvFromSource, add func(kind, name string)) {
	for i := range from {
		if r := from[i].ConfigMapRef; r != nil {
			add(kindConfigMap, r.Name)
		}
		if r := from[i].SecretRef; r != nil {
			add(kindSecret, r.Name)
		}
	}
	for i := range env {
		if env[i].ValueFrom == nil {
			continue
		}
		if r := env[i].ValueFrom.ConfigMapKeyRef; r != nil {
			add(kindConfigMap, r.Name)
		}
		if r := env[i].ValueFrom.SecretKeyRef; r != nil {
			add(kindSecret, r.Name)
		}
	}
}
