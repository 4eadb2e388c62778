package source

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// TestDefault compares the defaults of a pod that has every field this module uses
// and sets as little as possible.
func TestDefault(t *testing.T) {
	probe := func() *v1.Probe {
		return &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	}
	got := valid(func(p *v1.Pod) {
		p.Spec.HostNetwork = true
		p.Spec.Volumes = []v1.Volume{{Name: "empty"}, {Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}}}}
		c := &p.Spec.Containers[0]
		c.Ports = []v1.ContainerPort{{ContainerPort: 80}}
		c.LivenessProbe = probe()
		c.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 1}}}
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
		c.Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("2")}
		c.Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("500m")}
		c.Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
		p.Spec.InitContainers = []v1.Container{{Name: "init", Image: "init"}}
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "debug:1"}}}
	})
	want := got.DeepCopy()
	Default(got)

	want.Namespace = "default"
	want.Status.Phase = v1.PodPending
	s := &want.Spec
	s.RestartPolicy, s.DNSPolicy, s.SchedulerName = v1.RestartPolicyAlways, v1.DNSClusterFirst, "default-scheduler"
	s.TerminationGracePeriodSeconds, s.EnableServiceLinks = ptr.To[int64](30), ptr.To(true)
	s.SecurityContext = &v1.PodSecurityContext{}
	s.Volumes[0].EmptyDir = &v1.EmptyDirVolumeSource{}
	s.Volumes[1].HostPath.Type = ptr.To(v1.HostPathUnset)
	for _, c := range []*v1.Container{&s.Containers[0], &s.InitContainers[0], (*v1.Container)(&s.EphemeralContainers[0].EphemeralContainerCommon)} {
		c.TerminationMessagePath, c.TerminationMessagePolicy = "/dev/termination-log", v1.TerminationMessageReadFile
		c.ImagePullPolicy = v1.PullIfNotPresent
	}
	s.InitContainers[0].ImagePullPolicy = v1.PullAlways
	c := &s.Containers[0]
	c.Ports[0].Protocol, c.Ports[0].HostPort = v1.ProtocolTCP, 80
	for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		p.TimeoutSeconds, p.PeriodSeconds, p.SuccessThreshold, p.FailureThreshold = 1, 10, 1, 3
	}
	c.LivenessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Scheme = "/", v1.URISchemeHTTP
	c.ReadinessProbe.GRPC.Service = ptr.To("")
	c.Lifecycle.PreStop.HTTPGet.Path, c.Lifecycle.PreStop.HTTPGet.Scheme = "/", v1.URISchemeHTTP
	c.Resources.Requests["memory"] = resource.MustParse("2")
	c.Env[0].ValueFrom.FieldRef.APIVersion = "v1"
	diff(t, "defaults", want, got)

	again := got.DeepCopy()
	Default(again)
	diff(t, "defaults of defaults", got, again)
	if problems := Validate(got); len(problems) != 0 {
		t.Errorf("the completed pod is refused: %v", problems)
	}
}

func TestDefaultKeepsWhatIsSet(t *testing.T) {
	p := valid(func(p *v1.Pod) {
		p.Namespace = "other"
		p.Spec.RestartPolicy, p.Spec.DNSPolicy = v1.RestartPolicyNever, v1.DNSDefault
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
		p.Spec.EnableServiceLinks = ptr.To(false)
		p.Spec.Containers[0].ImagePullPolicy = v1.PullNever
		p.Spec.Containers[0].TerminationMessagePath = "/x"
	})
	want := p.DeepCopy()
	Default(p)
	want.Status.Phase = v1.PodPending
	want.Spec.SchedulerName = "default-scheduler"
	want.Spec.SecurityContext = &v1.PodSecurityContext{}
	want.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageReadFile
	diff(t, "defaults", want, p)
}
