package criconfig

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// Node is what configurations take from the node.
type Node struct {
	// Owner is written as a label if not empty.
	Owner string
	// ClusterDomain ends the domain of pods with a subdomain.
	ClusterDomain string
	// MemoryCapacity in bytes, for OOM scores.
	MemoryCapacity int64
	// CPUQuota turns CPU limits into quotas.
	CPUQuota bool
	// CgroupV2 adds the settings only cgroup v2 has.
	CgroupV2 bool
	// SeccompDefault makes RuntimeDefault the profile of containers without one.
	SeccompDefault bool
	// SeccompDir holds the profiles of type Localhost.
	SeccompDir string
	// ThermalPaths are this machine's thermal_throttle files, masked in containers.
	ThermalPaths []string
}

// SandboxInput is what a sandbox configuration is made of.
type SandboxInput struct {
	Pod          *v1.Pod
	Node         Node
	Attempt      uint32
	LogDirectory string
	DNS          *runtimeapi.DNSConfig
}

// Sandbox returns the configuration of the pod's sandbox (spec/runtime.md 3), or
// why there can be none.
func Sandbox(in SandboxInput) (*runtimeapi.PodSandboxConfig, error) {
	pod := in.Pod
	if pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers {
		return nil, errors.New("hostUsers: false: user namespaces are not supported")
	}
	hostname, _, err := Hostname(pod, in.Node.ClusterDomain)
	if err != nil {
		return nil, err
	}
	if pod.Spec.HostNetwork {
		hostname = ""
	}
	security, err := sandboxSecurity(pod)
	if err != nil {
		return nil, err
	}
	resources, overhead := sandboxResources(pod, in.Node)
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: in.Attempt,
		},
		Hostname:     hostname,
		LogDirectory: in.LogDirectory,
		DnsConfig:    in.DNS,
		PortMappings: PortMappings(pod),
		Labels:       meta.SandboxLabels(pod, in.Node.Owner),
		Annotations:  meta.SandboxAnnotations(pod),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: security,
			Sysctls:         sysctls(pod),
			Resources:       resources,
			Overhead:        overhead,
		},
	}, nil
}

// sandboxSecurity follows spec/runtime.md 3.5; a pod without a security context
// is treated as one with an empty one.
func sandboxSecurity(pod *v1.Pod) (*runtimeapi.LinuxSandboxSecurityContext, error) {
	sc := pod.Spec.SecurityContext
	if sc == nil {
		sc = &v1.PodSecurityContext{}
	}
	policy, err := groupsPolicy(sc)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions:         Namespaces(pod),
		SelinuxOptions:           selinux(sc.SELinuxOptions),
		SupplementalGroups:       groups(sc),
		SupplementalGroupsPolicy: policy,
		Privileged:               anyPrivileged(pod),
		Seccomp:                  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	if sc.RunAsUser != nil {
		out.RunAsUser = &runtimeapi.Int64Value{Value: *sc.RunAsUser}
	}
	if sc.RunAsGroup != nil {
		out.RunAsGroup = &runtimeapi.Int64Value{Value: *sc.RunAsGroup}
	}
	return out, nil
}

// groups orders fsGroup before the supplemental groups (spec/runtime.md 3.5, 14.8).
func groups(sc *v1.PodSecurityContext) []int64 {
	var out []int64
	if sc.FSGroup != nil {
		out = append(out, *sc.FSGroup)
	}
	return append(out, sc.SupplementalGroups...)
}

func groupsPolicy(sc *v1.PodSecurityContext) (runtimeapi.SupplementalGroupsPolicy, error) {
	if sc.SupplementalGroupsPolicy == nil {
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	}
	switch *sc.SupplementalGroupsPolicy {
	case v1.SupplementalGroupsPolicyMerge:
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	case v1.SupplementalGroupsPolicyStrict:
		return runtimeapi.SupplementalGroupsPolicy_Strict, nil
	}
	return 0, fmt.Errorf("supplementalGroupsPolicy %q is neither Merge nor Strict", *sc.SupplementalGroupsPolicy)
}

func selinux(o *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// anyPrivileged reports whether any container of any kind is privileged.
func anyPrivileged(pod *v1.Pod) bool {
	privileged := func(sc *v1.SecurityContext) bool { return sc != nil && sc.Privileged != nil && *sc.Privileged }
	for i := range pod.Spec.InitContainers {
		if privileged(pod.Spec.InitContainers[i].SecurityContext) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		if privileged(pod.Spec.Containers[i].SecurityContext) {
			return true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if privileged(pod.Spec.EphemeralContainers[i].SecurityContext) {
			return true
		}
	}
	return false
}

// Namespaces returns the pod's namespace options (spec/runtime.md 3.4).
func Namespaces(pod *v1.Pod) *runtimeapi.NamespaceOption {
	out := &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_POD,
		Ipc:     runtimeapi.NamespaceMode_POD,
		Pid:     runtimeapi.NamespaceMode_CONTAINER,
	}
	if pod.Spec.HostNetwork {
		out.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		out.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		out.Pid = runtimeapi.NamespaceMode_NODE
	case pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace:
		out.Pid = runtimeapi.NamespaceMode_POD
	}
	return out
}

// sysctls normalises names to dots (spec/runtime.md 3.6).
func sysctls(pod *v1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil || len(pod.Spec.SecurityContext.Sysctls) == 0 {
		return nil
	}
	out := make(map[string]string, len(pod.Spec.SecurityContext.Sysctls))
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		out[sysctlName(s.Name)] = s.Value
	}
	return out
}

func sysctlName(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}
