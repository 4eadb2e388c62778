package source

import (
	"math"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// TestValidate: each edit of a valid pod is refused at the field it concerns (D8).
func TestValidate(t *testing.T) {
	c := func(edit func(*v1.Container)) func(*v1.Pod) {
		return func(p *v1.Pod) { edit(&p.Spec.Containers[0]) }
	}
	probe := func(edit func(*v1.Probe)) func(*v1.Pod) {
		return c(func(c *v1.Container) {
			c.LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
			edit(c.LivenessProbe)
		})
	}
	volume := func(source v1.VolumeSource) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: source}} }
	}
	mount := func(m v1.VolumeMount) func(*v1.Pod) {
		return func(p *v1.Pod) {
			volume(v1.VolumeSource{})(p)
			if m.Name == "" {
				m.Name = "v"
			}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{m}
		}
	}
	cpus := func(q string) v1.ResourceList {
		if q == "" {
			return nil
		}
		return v1.ResourceList{"cpu": resource.MustParse(q)}
	}
	// level asks for CPUs at pod level, in a container and in a sidecar.
	level := func(request, limit, container, sidecar string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: cpus(request), Limits: cpus(limit)}
			p.Spec.Containers[0].Resources.Requests = cpus(container)
			if sidecar != "" {
				p.Spec.InitContainers = []v1.Container{{Name: "side", Image: "x", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), Resources: v1.ResourceRequirements{Requests: cpus(sidecar)}}}
				Default(p)
			}
		}
	}
	tests := map[string]func(*v1.Pod){
		"metadata.name":                             func(p *v1.Pod) { p.Name = "Web" },
		"metadata.name: Invalid value: \"a/b\"":     func(p *v1.Pod) { p.Name = "a/b" },
		"metadata.name: Required":                   func(p *v1.Pod) { p.Name = "" },
		"too long: no folder":                       func(p *v1.Pod) { p.Name = strings.Repeat("a", 250); p.UID = "0123456789" },
		"metadata.namespace":                        func(p *v1.Pod) { p.Namespace = "a.b" },
		"metadata.namespace: Invalid value: \"..\"": func(p *v1.Pod) { p.Namespace = ".." },
		"metadata.uid: Invalid value: \"a/../b\"":   func(p *v1.Pod) { p.UID = "a/../b" },
		"metadata.uid: Invalid value: \"a_b\"":      func(p *v1.Pod) { p.UID = "a_b" },
		"metadata.uid: Invalid value: \".hidden\"":  func(p *v1.Pod) { p.UID = ".hidden" },
		"metadata.labels: Invalid value: \"a b\"":   func(p *v1.Pod) { p.Labels = map[string]string{"a b": ""} },
		"metadata.labels[a]":                        func(p *v1.Pod) { p.Labels = map[string]string{"a": "b c"} },
		"metadata.annotations":                      func(p *v1.Pod) { p.Annotations = map[string]string{"a b": ""} },
		"metadata.deletionGracePeriodSeconds":       func(p *v1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](-1) },
		"spec.restartPolicy: Unsupported":           func(p *v1.Pod) { p.Spec.RestartPolicy = "Sometimes" },
		"spec.dnsPolicy: Unsupported":               func(p *v1.Pod) { p.Spec.DNSPolicy = "x" },
		"spec.terminationGracePeriodSeconds":        func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](-1) },
		"spec.activeDeadlineSeconds":                func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](0) },
		// D11
		"spec.activeDeadlineSeconds: Invalid value: 2147483648: must be between 1 and 2147483647":         func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](math.MaxInt32 + 1) },
		"spec.terminationGracePeriodSeconds: Invalid value: 2147483648: must be between 0 and 2147483647": func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](math.MaxInt32 + 1) },
		"metadata.deletionGracePeriodSeconds: Invalid value: 9223372036854775807":                         func(p *v1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](math.MaxInt64) },
		"spec.containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid value: 9223372036854775807": probe(func(p *v1.Probe) {
			p.TerminationGracePeriodSeconds = ptr.To[int64](math.MaxInt64)
		}),
		"spec.containers[0].lifecycle.preStop.sleep.seconds: Invalid value: 9223372036854775807": c(func(c *v1.Container) {
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: math.MaxInt64}}}
		}),
		"spec.hostname": func(p *v1.Pod) { p.Spec.Hostname = "a.b" },
		"spec.overhead[cpu]: Invalid value: \"-1\"": func(p *v1.Pod) {
			p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("-1")}
		},
		"spec.resources.requests[cpu]: Invalid value: \"1m\": must not be less than the 1500m that the containers request": level("1m", "", "1", "500m"),
		"spec.resources.requests[cpu]: Invalid value: \"1\": must not be less than the 2 that":                             level("1", "4", "2", ""),
		"spec.resources.requests[cpu]: Invalid value: \"2\": must not be more than":                                        level("2", "1", "", ""),
		"spec.resources.limits[cpu]: Invalid value: \"-1\"":                                                                level("", "-1", "", ""),
		"spec.containers[0].resources.limits[cpu]: Invalid value: \"2\": must not be more than the pod's limit of 1": func(p *v1.Pod) {
			level("500m", "1", "", "")(p)
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("2")}
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("100m")}
		},
		"spec.resources.limits[example.com/gpu]: Invalid": func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"example.com/gpu": resource.MustParse("1")}}
		},
		"spec.resources.requests[ephemeral-storage]: Invalid": func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{"ephemeral-storage": resource.MustParse("1")}}
		},
		"spec.resources.limits[hugepages-2Mi]: Invalid value: \"2Mi\": must not be less than the 4Mi that": func(p *v1.Pod) {
			own, all := resource.MustParse("4Mi"), resource.MustParse("2Mi")
			p.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: v1.ResourceList{"hugepages-2Mi": own}, Requests: v1.ResourceList{"hugepages-2Mi": own}}
			p.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"hugepages-2Mi": all}, Requests: v1.ResourceList{"hugepages-2Mi": all}}
		},
		"spec.containers: Required":                 func(p *v1.Pod) { p.Spec.Containers = nil },
		"spec.containers[0].name: Required":         c(func(c *v1.Container) { c.Name = "" }),
		"spec.containers[0].name: Invalid":          c(func(c *v1.Container) { c.Name = "../x" }),
		"spec.initContainers[0].image: Required":    func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Name: "init"}} },
		"spec.containers[0].name: Duplicate":        func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Name: "main", Image: "x"}} },
		"spec.containers[0].image: Required":        c(func(c *v1.Container) { c.Image = "" }),
		"spec.containers[0].image: Invalid":         c(func(c *v1.Container) { c.Image = "a\n" }),
		"spec.containers[0].imagePullPolicy":        c(func(c *v1.Container) { c.ImagePullPolicy = "x" }),
		"spec.containers[0].terminationMessagePo":   c(func(c *v1.Container) { c.TerminationMessagePolicy = "x" }),
		"spec.containers[0].restartPolicy":          c(func(c *v1.Container) { c.RestartPolicy = ptr.To(v1.ContainerRestartPolicy("x")) }),
		"spec.containers[0].ports[0].containerPort": c(func(c *v1.Container) { c.Ports = []v1.ContainerPort{{ContainerPort: 70000}} }),
		"spec.containers[0].ports[0].protocol":      c(func(c *v1.Container) { c.Ports = []v1.ContainerPort{{ContainerPort: 1, Protocol: "x"}} }),
		"spec.containers[0].ports[0].hostIP":        c(func(c *v1.Container) { c.Ports = []v1.ContainerPort{{ContainerPort: 1, HostIP: "x"}} }),
		"spec.containers[0].ports[0].name":          c(func(c *v1.Container) { c.Ports = []v1.ContainerPort{{ContainerPort: 1, Name: "UPPER"}} }),
		"spec.containers[0].ports[1].hostPort: Dup": c(func(c *v1.Container) {
			c.Ports = []v1.ContainerPort{{ContainerPort: 1, HostPort: 1}, {ContainerPort: 2, HostPort: 1}}
		}),
		"spec.containers[0].ports[1].name: Dup": c(func(c *v1.Container) {
			c.Ports = []v1.ContainerPort{{ContainerPort: 1, Name: "p"}, {ContainerPort: 2, Name: "p"}}
		}),
		"spec.containers[0].env[0].name: Required":                       c(func(c *v1.Container) { c.Env = []v1.EnvVar{{Value: "x"}} }),
		"spec.containers[0].env[0].name: Invalid":                        c(func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "a=b"}} }),
		"spec.containers[0].env[0].value":                                c(func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "a", Value: "x\x00"}} }),
		"spec.containers[0].env[0].valueFrom":                            c(func(c *v1.Container) { c.Env = []v1.EnvVar{{Name: "a", ValueFrom: &v1.EnvVarSource{}}} }),
		"spec.containers[0].envFrom[0]":                                  c(func(c *v1.Container) { c.EnvFrom = []v1.EnvFromSource{{}} }),
		"spec.containers[0].volumeMounts[0].name":                        mount(v1.VolumeMount{Name: "nobody", MountPath: "/x"}),
		"spec.containers[0].volumeMounts[0].mountP":                      mount(v1.VolumeMount{}),
		"spec.containers[0].volumeMounts[0].subPath":                     mount(v1.VolumeMount{MountPath: "/x", SubPath: "a/../../b"}),
		"spec.containers[0].volumeMounts[0].subPathE":                    mount(v1.VolumeMount{MountPath: "/x", SubPathExpr: "/abs"}),
		"spec.containers[0].volumeMounts[0].mountPr":                     mount(v1.VolumeMount{MountPath: "/x", MountPropagation: ptr.To(v1.MountPropagationMode("x"))}),
		"spec.containers[0].volumeMounts[0].mountPropagation: Forbidden": mount(v1.VolumeMount{MountPath: "/x", MountPropagation: ptr.To(v1.MountPropagationBidirectional)}),
		"spec.containers[0].volumeDevices[0].device":                     c(func(c *v1.Container) { c.VolumeDevices = []v1.VolumeDevice{{Name: "v", DevicePath: "x"}} }),
		"spec.containers[0].resources.limits[cpu]": c(func(c *v1.Container) {
			c.Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("-1")}
		}),
		"spec.containers[0].resources.requests[cpu]: Invalid value: \"2\": must not be more than": c(func(c *v1.Container) {
			c.Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("1")}
			c.Resources.Requests = v1.ResourceList{"cpu": resource.MustParse("2")}
		}),
		"spec.containers[0].livenessProbe: Invalid":         probe(func(p *v1.Probe) { p.TCPSocket = &v1.TCPSocketAction{Port: intstr.FromInt32(1)} }),
		"spec.containers[0].livenessProbe.periodSeconds":    probe(func(p *v1.Probe) { p.PeriodSeconds = -1 }),
		"spec.containers[0].livenessProbe.successThreshold": probe(func(p *v1.Probe) { p.SuccessThreshold = 2 }), // probe.md 2
		"spec.containers[0].livenessProbe.exec.command":     probe(func(p *v1.Probe) { p.Exec.Command = nil }),
		"spec.containers[0].livenessProbe.terminationGrace": probe(func(p *v1.Probe) { p.TerminationGracePeriodSeconds = ptr.To[int64](0) }),
		"spec.containers[0].readinessProbe.httpGet.port": c(func(c *v1.Container) {
			c.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("-")}}}
		}),
		"spec.containers[0].startupProbe.tcpSocket.port": c(func(c *v1.Container) {
			c.StartupProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}}}
		}),
		"spec.containers[0].lifecycle.preStop: Invalid": c(func(c *v1.Container) {
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{}}
		}),
		"spec.containers[0].lifecycle.postStart.sleep": c(func(c *v1.Container) {
			c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: -1}}}
		}),
		"spec.containers[0].lifecycle.preStop.httpGet.scheme": c(func(c *v1.Container) {
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Scheme: "ftp", Port: intstr.FromInt32(1)}}}
		}),
		"spec.volumes[0].name":                  func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "../v"}} },
		"spec.volumes[1].name: Duplicate":       func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "v"}, {Name: "v"}} },
		"spec.volumes[0]: Invalid":              volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}, HostPath: &v1.HostPathVolumeSource{Path: "/x"}}),
		"spec.volumes[0].hostPath.path":         volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/a/../b"}}),
		"spec.volumes[0].hostPath.type":         volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/a", Type: ptr.To(v1.HostPathType("x"))}}),
		"spec.volumes[0].emptyDir.medium":       volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "x"}}),
		"spec.volumes[0].emptyDir.sizeLimit":    volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("-1"))}}),
		"spec.volumes[0].image.reference":       volume(v1.VolumeSource{Image: &v1.ImageVolumeSource{}}),
		"spec.containers[0].volumeMounts[0].su": mount(v1.VolumeMount{MountPath: "/x", SubPath: "a", SubPathExpr: "b"}),
	}
	ok := valid(func(p *v1.Pod) {
		p.Spec.HostNetwork = true
		ports := []v1.ContainerPort{{ContainerPort: 80}}
		p.Spec.Containers[0].Ports = ports
		p.Spec.InitContainers = []v1.Container{{Name: "one", Image: "x", Ports: ports}, {Name: "two", Image: "x", Ports: ports}}
	})
	Default(ok)
	if problems := Validate(ok); len(problems) != 0 {
		t.Fatalf("a valid pod is refused: %v", problems)
	}
	for want, edit := range tests {
		t.Run(want, func(t *testing.T) {
			p := valid(edit)
			if !contains(want, "namespace") {
				p.Namespace = "default"
			}
			Default(p)
			problems := Validate(p)
			if len(problems) == 0 || !contains(problems.ToAggregate().Error(), want) {
				t.Errorf("problems %v, want one with %q", problems, want)
			}
		})
	}
}

// A value that is written into the name of its variable, as shells have it, is not told to anybody.
func TestValueInANameIsNotShown(t *testing.T) {
	p := valid(func(p *v1.Pod) { p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "PASSWORD=hunter2"}} })
	if got := Validate(p).ToAggregate().Error(); contains(got, "hunter2") || !contains(got, `"PASSWORD=..."`) {
		t.Errorf("%s", got)
	}
}

func TestValidateListsEverything(t *testing.T) {
	p := valid(func(p *v1.Pod) {
		p.Name, p.Spec.RestartPolicy = "a/b", "x"
		p.Spec.Containers[0].Image = ""
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "main", Image: "x"})
		p.Labels = map[string]string{"c d": "", "a b": ""}
	})
	Default(p)
	first := Validate(p).ToAggregate().Error()
	for _, want := range []string{"metadata.name", "restartPolicy", "containers[0].image", "containers[1].name"} {
		if !contains(first, want) {
			t.Errorf("%q does not speak of %s", first, want)
		}
	}
	for range 20 {
		if again := Validate(p).ToAggregate().Error(); again != first {
			t.Fatalf("the text changes from call to call:\n%s\n%s", first, again)
		}
	}
}

// TestAPIReferences is the last part of D8.
func TestAPIReferences(t *testing.T) {
	spec := func(edit func(*v1.PodSpec)) *v1.Pod { return valid(func(p *v1.Pod) { edit(&p.Spec) }) }
	volume := func(s v1.VolumeSource) *v1.Pod {
		return spec(func(p *v1.PodSpec) { p.Volumes = []v1.Volume{{Name: "v", VolumeSource: s}} })
	}
	projected := func(p v1.VolumeProjection) *v1.Pod {
		return volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{p}}})
	}
	env := func(s v1.EnvVarSource) *v1.Pod {
		return spec(func(p *v1.PodSpec) { p.Containers[0].Env = []v1.EnvVar{{Name: "A", ValueFrom: &s}} })
	}
	refused := map[string]*v1.Pod{
		"spec.serviceAccountName":        spec(func(p *v1.PodSpec) { p.ServiceAccountName = "x" }),
		"spec.imagePullSecrets":          spec(func(p *v1.PodSpec) { p.ImagePullSecrets = []v1.LocalObjectReference{{Name: "x"}} }),
		"spec.resourceClaims":            spec(func(p *v1.PodSpec) { p.ResourceClaims = []v1.PodResourceClaim{{Name: "x"}} }),
		"spec.volumes[0].secret":         volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}),
		"spec.volumes[0].configMap":      volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}),
		"spec.volumes[0].persistentVol":  volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}),
		"spec.volumes[0].ephemeral":      volume(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}),
		"spec.volumes[0].csi":            volume(v1.VolumeSource{CSI: &v1.CSIVolumeSource{NodePublishSecretRef: &v1.LocalObjectReference{}}}),
		"sources[0].secret":              projected(v1.VolumeProjection{Secret: &v1.SecretProjection{}}),
		"sources[0].configMap":           projected(v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{}}),
		"sources[0].serviceAccountToken": projected(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{}}),
		"sources[0].clusterTrustBundle":  projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{}}),
		"env[0].valueFrom.secretKeyRef":  env(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{}}),
		"env[0].valueFrom.configMapKey":  env(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{}}),
		"envFrom[0].secretRef": spec(func(p *v1.PodSpec) {
			p.Containers[0].EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{}}}
		}),
	}
	for want, pod := range refused {
		if got := apiReferences(pod, false); len(got) != 1 || !contains(got[0].Error(), want) {
			t.Errorf("%s: %v", want, got)
		}
		object := strings.Contains(want, "csi") || strings.Contains(strings.ToLower(want), "secret") || strings.Contains(strings.ToLower(want), "configmap")
		if got := apiReferences(pod, true); (len(got) == 0) != object {
			t.Errorf("%s where config maps and secrets can be read: %v", want, got)
		}
	}
	for name, pod := range map[string]*v1.Pod{
		"downward API": projected(v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{}}),
		"field":        env(v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}),
		"host path":    volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}}),
	} {
		if got := apiReferences(pod, false); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	manifest := manifestOf("web", "app:1") + "  serviceAccountName: x\n"
	for allowed, want := range map[bool]bool{false: false, true: true} {
		d, err := newDecoder("node", allowed)
		must(t, err)
		if _, err := d.decode([]byte(manifest), ""); (err == nil) != want {
			t.Errorf("AllowAPIReferences %v: %v", allowed, err)
		}
	}
}
