package admission

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// control is a row of the table of the Pod Security Standards.
type control struct {
	// name is the name in the table; forbids names the finding in a message.
	name, forbids string
	violations    func(e *SecurityExemptions, pod *v1.Pod) []string
}

var everyLevel = []control{
	{"Images", "images from elsewhere", elsewhere},
}

var baseline = []control{
	{"HostProcess", "hostProcess", hostProcess},
	{"Host Namespaces", "host namespaces", hostNamespaces},
	{"Privileged Containers", "privileged", privileged},
	{"Capabilities", "non-default capabilities", capabilities},
	{"HostPath Volumes", "hostPath volumes", hostPaths},
	{"Host Ports", "hostPort", portsOfNode},
	{"Host Probes / Lifecycle Hooks", "probe or lifecycle host", hostProbes},
	{"AppArmor", "forbidden AppArmor profiles", appArmor},
	{"SELinux", "seLinuxOptions", seLinux},
	{"/proc Mount Type", "procMount", procMount},
	{"Seccomp", "seccompProfile", seccompUnconfined},
	{"Sysctls", "forbidden sysctls", sysctls},
}

var restricted = []control{
	{"Volume Types", "restricted volume types", volumeTypes},
	{"Privilege Escalation", "allowPrivilegeEscalation != false", privilegeEscalation},
	{"Running as Non-root", "runAsNonRoot != true", runAsNonRoot},
	{"Running as Non-root user", "runAsUser=0", runAsRoot},
	{"Seccomp", "seccompProfile", seccompRequired},
	{"Capabilities", "unrestricted capabilities", capabilitiesDropped},
}

// eachSecurity calls f for the security context of each container, with the name of the
// container for a message.
func eachSecurity(pod *v1.Pod, f func(s *v1.SecurityContext, what string)) {
	eachOf(&pod.Spec, func(c *v1.Container, _ string) {
		f(cmp.Or(c.SecurityContext, &v1.SecurityContext{}), fmt.Sprintf("container %q", c.Name))
	})
}

func securityOf(pod *v1.Pod) *v1.PodSecurityContext {
	return cmp.Or(pod.Spec.SecurityContext, &v1.PodSecurityContext{})
}

// given returns the value of an optional field; the zero value if it is absent.
func given[T any](field *T) (value T) {
	if field != nil {
		value = *field
	}
	return value
}

func elsewhere(e *SecurityExemptions, pod *v1.Pod) (out []string) {
	eachOf(&pod.Spec, func(c *v1.Container, _ string) {
		if !e.mayUse(c.Image) {
			out = append(out, fmt.Sprintf("container %q must not use image %q", c.Name, c.Image))
		}
	})
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil && !e.mayUse(v.Image.Reference) {
			out = append(out, fmt.Sprintf("volume %q must not use image %q", v.Name, v.Image.Reference))
		}
	}
	return out
}

func hostProcess(_ *SecurityExemptions, pod *v1.Pod) (out []string) {
	if o := securityOf(pod).WindowsOptions; o != nil && given(o.HostProcess) {
		out = append(out, "pod must not set securityContext.windowsOptions.hostProcess=true")
	}
	eachSecurity(pod, func(s *v1.SecurityContext, what string) {
		if o := s.WindowsOptions; o != nil && given(o.HostProcess) {
			out = append(out, what+" must not set securityContext.windowsOptions.hostProcess=true")
		}
	})
	return out
}

func hostNamespaces(_ *SecurityExemptions, pod *v1.Pod) (out []string) {
	for field, set := range map[string]bool{
		"hostNetwork=true": pod.Spec.HostNetwork, "hostPID=true": pod.Spec.HostPID, "hostIPC=true": pod.Spec.HostIPC,
	} {
		if set {
			out = append(out, field)
		}
	}
	slices.Sort(out)
	return out
}

func privileged(_ *SecurityExemptions, pod *v1.Pod) (out []string) {
	eachSecurity(pod, func(s *v1.SecurityContext, what string) {
		if given(s.Privileged) {
			out = append(out, what+" must not set securityContext.privileged=true")
		}
	})
	return out
}

// defaultCapabilities are those that runtimes grant by default.
var defaultCapabilities = []v1.Capability{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
	"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

func capabilities(e *SecurityExemptions, pod *v1.Pod) []string {
	return added(pod, slices.Concat(defaultCapabilities, e.Capabilities))
}

// added names the capabilities that containers add beyond those allowed.
func added(pod *v1.Pod, allowed []v1.Capability) (out []string) {
	eachSecurity(pod, func(s *v1.SecurityContext, what string) {
		for _, c := range given(s.Capabilities).Add {
			if !slices.Contains(allowed, c) {
				out = append(out, fmt.Sprintf("%s must not include %q in securityContext.capabilities.add", what, c))
			}
		}
	})
	return out
}

func capabilitiesDropped(e *SecurityExemptions, pod *v1.Pod) (out []string) {
	eachSecurity(pod, func(s *v1.SecurityContext, what string) {
		if !slices.Contains(given(s.Capabilities).Drop, "ALL") {
			out = append(out, what+` must set securityContext.capabilities.drop=["ALL"]`)
		}
	})
	return append(out, added(pod, append(slices.Clone(e.Capabilities), "NET_BIND_SERVICE"))...)
}

func hostPaths(e *SecurityExemptions, pod *v1.Pod) (out []string) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.HostPath != nil && !e.mayMount(v, &pod.Spec) {
			out = append(out, fmt.Sprintf("volume %q, path %q", v.Name, v.HostPath.Path))
		}
	}
	return out
}

func portsOfNode(e *SecurityExemptions, pod *v1.Pod) (out []string) {
	eachOf(&pod.Spec, func(c *v1.Container, _ string) {
		for _, p := range c.Ports {
			if p.HostPort != 0 && !slices.Contains(e.HostPorts, p.HostPort) {
				out = append(out, fmt.Sprintf("container %q uses hostPort %d", c.Name, p.HostPort))
			}
		}
	})
	return out
}

// hostProbes names the probes and hooks that connect to a host of their choice: the node makes
// the connection.
func hostProbes(_ *SecurityExemptions, pod *v1.Pod) (out []string) {
	eachOf(&pod.Spec, func(c *v1.Container, _ string) {
		check := func(field string, get *v1.HTTPGetAction, socket *v1.TCPSocketAction) {
			for kind, host := range map[string]string{"httpGet": given(get).Host, "tcpSocket": given(socket).Host} {
				if host != "" {
					out = append(out, fmt.Sprintf("container %q must not set %s.%s.host=%q", c.Name, field, kind, host))
				}
			}
		}
		for field, p := range map[string]*v1.Probe{"livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe, "startupProbe": c.StartupProbe} {
			check(field, given(p).HTTPGet, given(p).TCPSocket)
		}
		hooks := given(c.Lifecycle)
		for field, h := range map[string]*v1.LifecycleHandler{"lifecycle.postStart": hooks.PostStart, "lifecycle.preStop": hooks.PreStop} {
			check(field, given(h).HTTPGet, given(h).TCPSocket)
		}
	})
	slices.Sort(out)
	return out
}

func appArmor(_ *SecurityExemptions, pod *v1.Pod) (out []string) {
	check := func(p *v1.AppArmorProfile, what string) {
		if p != nil && p.Type != v1.AppArmorProfileTypeRuntimeDefault && p.Type != v1.AppArmorProfileTypeLocalhost {
			out = append(out, fmt.Sprintf("%s must not set securityContext.appArmorProfile.type=%q", what, p.Type))
		}
	}
	check(securityOf(pod).AppArmorProfile, "pod")
	eachSecurity(pod, func(s *v1.SecurityContext, what string) { check(s.AppArmorProfile, what) })
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		profile := pod.Annotations[key]
		if !strings.HasPrefix(key, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) ||
			profile == "" || profile == v1.DeprecatedAppArmorBetaProfileRuntimeDefault || strings.HasPrefix(profile, v1.DeprecatedAppArmorBetaProfileNamePrefix) {
			continue
		}
		out = append(out, fmt.Sprintf("annotation %s=%q", key, profile))
	}
	return out
}

var seLinuxTypes = []string{"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}

func seLinux(_ *SecurityExemptions, pod *v1.Pod) (out []string) {
	check := func(options *v1.SELinuxOptions, what string) {
		o := given(options)
		if !slices.Contains(seLinuxTypes, o.Type) {
			out = append(out, fmt.Sprintf("%s must not set securityContext.seLinuxOptions.type=%q", what, o.Type))
		}
		if o.User != "" {
			out = append(out, fmt.Sprintf("%s must not set securityContext.seLinuxOptions.user=%q", what, o.User))
		}
		if o.Role != "" {
			out = append(out, fmt.Sprintf("%s must not set securityContext.seLinuxOptions.role=%q", what, o.Role))
		}
	}
	check(securityOf(pod).SELinuxOptions, "pod")
	eachSecurity(pod, func(s *v1.SecurityContext, what string) { check(s.SELinuxOptions, what) })
	return out
}

// userNamespace reports whether the pod's root has no rights on the node and the exemption for that is set.
func (e *SecurityExemptions) userNamespace(pod *v1.Pod) bool {
	return e.UserNamespaces && pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers
}

func procMount(e *SecurityExemptions, pod *v1.Pod) (out []string) {
	eachSecurity(pod, func(s *v1.SecurityContext, what string) {
		if m := given(s.ProcMount); m != "" && m != v1.DefaultProcMount && !e.userNamespace(pod) {
			out = append(out, fmt.Sprintf("%s must not set securityContext.procMount=%q", what, m))
		}
	})
	return out
}

// confining reports whether a seccomp profile is one that confines.
func confining(p *v1.SeccompProfile) bool {
	return p != nil && (p.Type == v1.SeccompProfileTypeRuntimeDefault || p.Type == v1.SeccompProfileTypeLocalhost)
}

func seccompUnconfined(_ *SecurityExemptions, pod *v1.Pod) (out []string) {
	check := func(p *v1.SeccompProfile, what string) {
		if p != nil && !confining(p) {
			out = append(out, fmt.Sprintf("%s must not set securityContext.seccompProfile.type to %q", what, p.Type))
		}
	}
	check(securityOf(pod).SeccompProfile, "pod")
	eachSecurity(pod, func(s *v1.SecurityContext, what string) { check(s.SeccompProfile, what) })
	return out
}

func seccompRequired(_ *SecurityExemptions, pod *v1.Pod) (out []string) {
	eachSecurity(pod, func(s *v1.SecurityContext, what string) {
		if s.SeccompProfile == nil && securityOf(pod).SeccompProfile == nil {
			out = append(out, "pod or "+what+` must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`)
		}
	})
	return out
}

var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_syncookies",
	"net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

func sysctls(_ *SecurityExemptions, pod *v1.Pod) (out []string) {
	for _, s := range securityOf(pod).Sysctls {
		if !slices.Contains(safeSysctls, strings.ReplaceAll(s.Name, "/", ".")) {
			out = append(out, s.Name)
		}
	}
	return out
}

// restrictedVolumes are the types of volumes that give no access to the node.
var restrictedVolumes = []string{
	"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}

func volumeTypes(e *SecurityExemptions, pod *v1.Pod) (out []string) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		for _, kind := range typesOf(&v.VolumeSource) {
			if kind == "hostPath" && e.mayMount(v, &pod.Spec) || slices.Contains(restrictedVolumes, kind) || slices.Contains(e.VolumeTypes, kind) {
				continue
			}
			out = append(out, fmt.Sprintf("volume %q uses restricted volume type %q", v.Name, kind))
		}
	}
	return out
}

// typesOf returns the names of the fields that a volume sets.
func typesOf(source *v1.VolumeSource) (out []string) {
	fields := reflect.ValueOf(source).Elem()
	for i := range fields.NumField() {
		if !fields.Field(i).IsNil() {
			out = append(out, jsonName(fields.Type().Field(i)))
		}
	}
	return out
}

func isVolumeType(name string) bool {
	return slices.ContainsFunc(reflect.VisibleFields(reflect.TypeFor[v1.VolumeSource]()), func(f reflect.StructField) bool { return jsonName(f) == name })
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func privilegeEscalation(_ *SecurityExemptions, pod *v1.Pod) (out []string) {
	eachSecurity(pod, func(s *v1.SecurityContext, what string) {
		if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
			out = append(out, what+" must set securityContext.allowPrivilegeEscalation=false")
		}
	})
	return out
}

func runAsNonRoot(e *SecurityExemptions, pod *v1.Pod) (out []string) {
	if e.userNamespace(pod) {
		return nil
	}
	asked := securityOf(pod).RunAsNonRoot
	if asked != nil && !*asked {
		out = append(out, "pod must not set securityContext.runAsNonRoot=false")
	}
	eachSecurity(pod, func(s *v1.SecurityContext, what string) {
		if !given(cmp.Or(s.RunAsNonRoot, asked)) {
			out = append(out, "pod or "+what+" must set securityContext.runAsNonRoot=true")
		}
	})
	return out
}

func runAsRoot(e *SecurityExemptions, pod *v1.Pod) (out []string) {
	if e.userNamespace(pod) {
		return nil
	}
	root := func(user *int64) bool { return user != nil && *user == 0 }
	if root(securityOf(pod).RunAsUser) {
		out = append(out, "pod must not set securityContext.runAsUser=0")
	}
	eachSecurity(pod, func(s *v1.SecurityContext, what string) {
		if root(s.RunAsUser) {
			out = append(out, what+" must not set securityContext.runAsUser=0")
		}
	})
	return out
}
