package podinfo

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestRefersFindsEveryKindOfReference: IN15. Each place of a spec that names an object is
// found, and neither another name, kind nor namespace.
func TestRefersFindsEveryKindOfReference(t *testing.T) {
	ref := v1.LocalObjectReference{Name: "x"}
	volume := func(s v1.VolumeSource) func(*v1.PodSpec) {
		return func(spec *v1.PodSpec) { spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: s}} }
	}
	projected := func(p v1.VolumeProjection) v1.VolumeSource {
		return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{p}}}
	}
	mapKey := &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: ref}}
	secretKey := &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: ref}}
	for _, test := range []struct {
		kind string
		set  func(*v1.PodSpec)
	}{
		{"ConfigMap", volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ref}})},
		{"ConfigMap", volume(projected(v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: ref}}))},
		{"ConfigMap", func(s *v1.PodSpec) {
			s.Containers = []v1.Container{{EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ref}}}}}
		}},
		{"ConfigMap", func(s *v1.PodSpec) { s.InitContainers = []v1.Container{{Env: []v1.EnvVar{{ValueFrom: mapKey}}}} }},
		{"Secret", volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "x"}})},
		{"Secret", volume(projected(v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: ref}}))},
		{"Secret", volume(v1.VolumeSource{CSI: &v1.CSIVolumeSource{NodePublishSecretRef: &ref}})},
		{"Secret", func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{{EnvFrom: []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: ref}}}}}
		}},
		{"Secret", func(s *v1.PodSpec) {
			s.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Env: []v1.EnvVar{{ValueFrom: secretKey}}}}}
		}},
		{"Secret", func(s *v1.PodSpec) { s.ImagePullSecrets = []v1.LocalObjectReference{ref} }},
		{"PersistentVolumeClaim", volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}})},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
		test.set(&pod.Spec)
		for _, kind := range []string{"ConfigMap", "Secret", "PersistentVolumeClaim", "RuntimeClass"} {
			if got := Refers(pod, Object{Kind: kind, Namespace: "ns", Name: "x"}); got != (kind == test.kind) {
				t.Errorf("%+v refers to the %s: %v", pod.Spec, kind, got)
			}
		}
		if Refers(pod, Object{Kind: test.kind, Namespace: "ns", Name: "y"}) || Refers(pod, Object{Kind: test.kind, Namespace: "other", Name: "x"}) {
			t.Errorf("%+v refers to another object", pod.Spec)
		}
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: v1.PodSpec{RuntimeClassName: ptr.To("x")}}
	for o, want := range map[Object]bool{
		{Kind: "RuntimeClass", Name: "x"}: true, {Kind: "RuntimeClass", Name: "y"}: false,
		{Kind: "Service", Namespace: "ns"}: true, {Kind: "Service", Namespace: "default"}: true, {Kind: "Service", Namespace: "other"}: false,
	} {
		if Refers(pod, o) != want {
			t.Errorf("%+v: %v", o, !want)
		}
	}
}
