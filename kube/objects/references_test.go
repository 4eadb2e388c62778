package objects

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podinfo"
)

// KO1: every way to refer to a config map or a secret counts, and the engine agrees.
func TestEveryReferenceCounts(t *testing.T) {
	ref := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
	env := func(n string) ([]v1.EnvVar, []v1.EnvFromSource) {
		vars := []v1.EnvVar{
			{Name: "PLAIN", Value: "x"},
			{Name: "FIELD", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "C", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: ref("c-env-" + n)}}},
			{Name: "S", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: ref("s-env-" + n)}}},
		}
		from := []v1.EnvFromSource{
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ref("c-from-" + n)}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: ref("s-from-" + n)}},
		}
		return vars, from
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: v1.PodSpec{
		ImagePullSecrets: []v1.LocalObjectReference{ref("s-pull"), ref("")},
		InitContainers:   make([]v1.Container, 1), Containers: make([]v1.Container, 1), EphemeralContainers: make([]v1.EphemeralContainer, 1),
		Volumes: []v1.Volume{
			{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ref("c-volume")}}},
			{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s-volume"}}},
			{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			{VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{NodePublishSecretRef: &v1.LocalObjectReference{Name: "s-csi"}}}},
			{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: ref("c-projected")}},
				{Secret: &v1.SecretProjection{LocalObjectReference: ref("s-projected")}},
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{}},
			}}}},
		},
	}}
	pod.Spec.InitContainers[0].Env, pod.Spec.InitContainers[0].EnvFrom = env("init")
	pod.Spec.Containers[0].Env, pod.Spec.Containers[0].EnvFrom = env("app")
	pod.Spec.EphemeralContainers[0].Env, pod.Spec.EphemeralContainers[0].EnvFrom = env("debug")
	var got []string
	for o := range references(pod) {
		got = append(got, o.Name)
		if o.Namespace != "ns" || (o.Kind == kindConfigMap) != strings.HasPrefix(o.Name, "c-") {
			t.Errorf("%+v", o)
		}
		if !podinfo.Refers(pod, o) {
			t.Errorf("the engine does not know of %+v", o)
		}
	}
	slices.Sort(got)
	want := []string{"c-projected", "c-volume", "s-csi", "s-projected", "s-pull", "s-volume"}
	for _, n := range []string{"init", "app", "debug"} {
		want = append(want, "c-env-"+n, "c-from-"+n, "s-env-"+n, "s-from-"+n)
	}
	slices.Sort(want)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
