package source

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
)

// Default fills in the fields that this module uses as the API server would. It
// changes pod in place and keeps the fields that are set.
func Default(pod *v1.Pod) {
	setDefault(&pod.Namespace, v1.NamespaceDefault) // D3
	setDefault(&pod.Status.Phase, v1.PodPending)    // D7
	spec := &pod.Spec
	setDefault(&spec.RestartPolicy, v1.RestartPolicyAlways)
	setDefault(&spec.DNSPolicy, v1.DNSClusterFirst)
	setDefault(&spec.SchedulerName, v1.DefaultSchedulerName)
	setPointer(&spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	setPointer(&spec.EnableServiceLinks, true)
	setDefault(&spec.ServiceAccountName, spec.DeprecatedServiceAccount) // one field under two names
	setDefault(&spec.DeprecatedServiceAccount, spec.ServiceAccountName)
	setPointer(&spec.SecurityContext, v1.PodSecurityContext{})
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i].VolumeSource)
	}
	eachContainer(spec, func(c *v1.Container, _ string, _ int) {
		defaultContainer(c, spec.HostNetwork)
	})
}

// The names of the fields with lists of containers.
const (
	fieldContainers = "containers"
	fieldInit       = "initContainers"
	fieldEphemeral  = "ephemeralContainers"
)

// eachContainer calls f for every container: init, app, ephemeral.
func eachContainer(spec *v1.PodSpec, f func(c *v1.Container, list string, index int)) {
	for i := range spec.InitContainers {
		f(&spec.InitContainers[i], fieldInit, i)
	}
	for i := range spec.Containers {
		f(&spec.Containers[i], fieldContainers, i)
	}
	for i := range spec.EphemeralContainers {
		f((*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), fieldEphemeral, i)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultContainer(c *v1.Container, hostNetwork bool) {
	setDefault(&c.ImagePullPolicy, podinfo.PullPolicy(c.Image))
	setDefault(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for i := range c.Ports {
		setDefault(&c.Ports[i].Protocol, v1.ProtocolTCP)
		if hostNetwork {
			setDefault(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			setDefault(&from.FieldRef.APIVersion, "v1")
		}
	}
	for name, limit := range c.Resources.Limits {
		if _, ok := c.Resources.Requests[name]; ok {
			continue
		}
		if c.Resources.Requests == nil {
			c.Resources.Requests = v1.ResourceList{}
		}
		c.Resources.Requests[name] = limit.DeepCopy()
	}
	for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(p)
	}
	if c.Lifecycle != nil {
		for _, h := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				defaultHTTPGet(h.HTTPGet)
			}
		}
	}
}

func defaultProbe(p *v1.Probe) {
	if p == nil {
		return
	}
	setDefault(&p.TimeoutSeconds, 1)
	setDefault(&p.PeriodSeconds, 10)
	setDefault(&p.SuccessThreshold, 1)
	setDefault(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setPointer(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(h *v1.HTTPGetAction) {
	if h == nil {
		return
	}
	setDefault(&h.Path, "/")
	setDefault(&h.Scheme, v1.URISchemeHTTP)
}

func defaultVolume(v *v1.VolumeSource) {
	const mode = 0o644
	switch {
	case *v == v1.VolumeSource{}:
		v.EmptyDir = &v1.EmptyDirVolumeSource{}
	case v.HostPath != nil:
		setPointer(&v.HostPath.Type, v1.HostPathUnset)
	case v.Secret != nil:
		setPointer(&v.Secret.DefaultMode, mode)
	case v.ConfigMap != nil:
		setPointer(&v.ConfigMap.DefaultMode, mode)
	case v.DownwardAPI != nil:
		setPointer(&v.DownwardAPI.DefaultMode, mode)
	case v.Projected != nil:
		setPointer(&v.Projected.DefaultMode, mode)
		for i := range v.Projected.Sources {
			if t := v.Projected.Sources[i].ServiceAccountToken; t != nil && t.ExpirationSeconds == nil {
				t.ExpirationSeconds = ptr.To[int64](3600)
			}
		}
	case v.Image != nil:
		setDefault(&v.Image.PullPolicy, podinfo.PullPolicy(v.Image.Reference))
	}
}
