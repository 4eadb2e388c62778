package criconfig

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// safeSysctls are isolated by a namespace and do not affect other pods, from the given
// kernel version on (spec/runtime.md 3.6).
var safeSysctls = []struct {
	name         string
	major, minor int
}{
	{"kernel.shm_rmid_forced", 0, 0},
	{"net.ipv4.ip_local_port_range", 0, 0},
	{"net.ipv4.tcp_syncookies", 0, 0},
	{"net.ipv4.ping_group_range", 0, 0},
	{"net.ipv4.ip_unprivileged_port_start", 0, 0},
	{"net.ipv4.ip_local_reserved_ports", 3, 16},
	{"net.ipv4.tcp_keepalive_time", 4, 5},
	{"net.ipv4.tcp_keepalive_intvl", 4, 5},
	{"net.ipv4.tcp_keepalive_probes", 4, 5},
	{"net.ipv4.tcp_fin_timeout", 4, 6},
	{"net.ipv4.tcp_rmem", 4, 15},
	{"net.ipv4.tcp_wmem", 4, 15},
}

// SafeSysctls lists the sysctls any pod may set under a kernel of this release
// (as uname -r prints it). For a release that cannot be read it lists only
// those that every kernel isolates.
func SafeSysctls(kernel string) []string {
	major, minor := kernelVersion(kernel)
	var out []string
	for _, s := range safeSysctls {
		if major > s.major || major == s.major && minor >= s.minor {
			out = append(out, s.name)
		}
	}
	return out
}

// kernelVersion reads "5.15.0-91-generic" as 5 and 15; 0, 0 if it cannot.
func kernelVersion(release string) (major, minor int) {
	first, rest, _ := strings.Cut(release, ".")
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		rest = rest[:end]
	}
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(rest)
	if err1 != nil || err2 != nil {
		return 0, 0
	}
	return major, minor
}

// CheckSysctls reports every sysctl of the pod that it must not set: one that is
// neither safe nor allowed (a name, or a prefix that ends in *), or whose
// namespace the pod shares with the node.
func CheckSysctls(pod *v1.Pod, allowed []string, kernel string) error {
	sc := pod.Spec.SecurityContext
	if sc == nil || len(sc.Sysctls) == 0 {
		return nil
	}
	safe := SafeSysctls(kernel)
	var problems []error
	for _, s := range sc.Sysctls {
		name := SysctlName(s.Name)
		switch {
		case !slices.Contains(safe, name) && !slices.ContainsFunc(allowed, func(p string) bool { return sysctlMatches(p, name) }):
			problems = append(problems, fmt.Errorf("sysctl %q is not allowed on this node", s.Name))
		case !ownsSysctl(pod, name):
			problems = append(problems, fmt.Errorf("sysctl %q would change the node: the pod has no namespace of its own for it", s.Name))
		}
	}
	return errors.Join(problems...)
}

func sysctlMatches(pattern, name string) bool {
	pattern = SysctlName(pattern)
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// ownsSysctl reports whether the pod has the namespace that isolates a sysctl.
// A sysctl without a namespace belongs to the node.
func ownsSysctl(pod *v1.Pod, name string) bool {
	under := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	switch {
	case under("net."):
		return !pod.Spec.HostNetwork
	case name == "kernel.sem", under("kernel.shm", "kernel.msg", "fs.mqueue."):
		return !pod.Spec.HostIPC
	case name == "kernel.domainname":
		// The runtime gives every pod off the host network a UTS namespace.
		return !pod.Spec.HostNetwork
	case under("user."):
		return usesUserNamespace(pod)
	}
	return false
}

// usesUserNamespace reports whether the pod asks for user IDs of its own.
func usesUserNamespace(pod *v1.Pod) bool { return pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers }

// maxSysctlName is the limit of the API.
const maxSysctlName = 253

// sysctls adds the node's defaults to the pod's values, with names normalised to dots
// (spec/runtime.md 3.6). A name that could not be a file below /proc/sys is an error.
func sysctls(pod *v1.Pod, defaults map[string]string) (map[string]string, error) {
	var own []v1.Sysctl
	if pod.Spec.SecurityContext != nil {
		own = pod.Spec.SecurityContext.Sysctls
	}
	if len(own)+len(defaults) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(own)+len(defaults))
	for name, value := range defaults {
		if name = SysctlName(name); ownsSysctl(pod, name) {
			out[name] = value
		}
	}
	for _, s := range own {
		if err := checkSysctlName(s.Name); err != nil {
			return nil, err
		}
		out[SysctlName(s.Name)] = s.Value
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

func checkSysctlName(name string) error {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./", r))
	}
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == '/' })
	separators := strings.Count(name, ".") + strings.Count(name, "/")
	if len(name) > maxSysctlName || len(parts) != separators+1 || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("%q is not the name of a sysctl", name)
	}
	return nil
}

// SysctlName writes a sysctl with dots between its parts. A name may come with
// slashes between them instead; its dots are then inside the parts.
func SysctlName(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}
