package criconfig

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// SandboxInput is what a sandbox configuration is made of.
type SandboxInput struct {
	Pod          *v1.Pod
	Node         Node
	Attempt      uint32
	LogDirectory string
	DNS          *runtimeapi.DNSConfig
	// UserNamespace maps the users of a pod with hostUsers: false.
	UserNamespace *IDMapping
	// Overhead is the runtime class's, for a pod that names none.
	Overhead v1.ResourceList
}

// Sandbox returns the configuration of the pod's sandbox (spec/runtime.md 3).
func Sandbox(in SandboxInput) (*runtimeapi.PodSandboxConfig, error) {
	pod := in.Pod
	namespaces, err := namespaces(pod, in.UserNamespace)
	if err != nil {
		return nil, err
	}
	if err := checkPorts(pod); err != nil {
		return nil, err
	}
	hostname, err := Hostname(pod, in.Node.ClusterDomain)
	if err != nil {
		return nil, err
	}
	if pod.Spec.HostNetwork {
		hostname = ""
	}
	security, err := sandboxSecurity(pod, namespaces)
	if err != nil {
		return nil, err
	}
	sysctls, err := sysctls(pod, in.Node.Sysctls)
	if err != nil {
		return nil, err
	}
	resources, overhead := sandboxResources(pod, in.Overhead, in.Node)
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: in.Attempt,
		},
		Hostname:     hostname,
		LogDirectory: in.LogDirectory,
		DnsConfig:    in.DNS,
		PortMappings: PortMappings(pod),
		Labels:       meta.SandboxLabels(pod, in.Node.Owner),
		Annotations:  meta.SandboxAnnotations(pod, in.Node.RootDir),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    CgroupParent(pod, in.Node),
			SecurityContext: security,
			Sysctls:         sysctls,
			Resources:       resources,
			Overhead:        overhead,
		},
	}, nil
}

// sandboxSecurity follows spec/runtime.md 3.5; a pod without a security context
// is treated as one with an empty one.
func sandboxSecurity(pod *v1.Pod, namespaces *runtimeapi.NamespaceOption) (*runtimeapi.LinuxSandboxSecurityContext, error) {
	sc := pod.Spec.SecurityContext
	if sc == nil {
		sc = &v1.PodSecurityContext{}
	}
	if err := checkIDs(sc); err != nil {
		return nil, err
	}
	policy, err := groupsPolicy(sc)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions:         namespaces,
		SelinuxOptions:           selinux(sc.SELinuxOptions),
		SupplementalGroups:       groups(sc),
		SupplementalGroupsPolicy: policy,
		Privileged:               anyPrivileged(pod),
		Seccomp:                  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	if sc.RunAsUser != nil {
		out.RunAsUser = &runtimeapi.Int64Value{Value: *sc.RunAsUser}
	}
	// A group without a user is an error to runtimes.
	if sc.RunAsGroup != nil && sc.RunAsUser != nil {
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
