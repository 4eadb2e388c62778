package criconfig

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageUser is the user an image runs as.
type ImageUser struct {
	// UID is set if the image names its user by number.
	UID *int64
	// Name is the user's name if it names it by name.
	Name string
}

// containerSecurity returns the container's security context (spec/runtime.md
// 14). The container's field wins over the pod's.
func containerSecurity(pod *v1.Pod, c *v1.Container, user ImageUser, users *IDMapping, node Node) (*runtimeapi.LinuxContainerSecurityContext, error) {
	psc, sc := pod.Spec.SecurityContext, c.SecurityContext
	if psc == nil {
		psc = &v1.PodSecurityContext{}
	}
	if sc == nil {
		sc = &v1.SecurityContext{}
	}
	if err := checkSecurity(psc, sc); err != nil {
		return nil, err
	}
	namespaces, err := namespaces(pod, users)
	if err != nil {
		return nil, err
	}
	runAsUser := either(sc.RunAsUser, psc.RunAsUser)
	if nonRoot := either(sc.RunAsNonRoot, psc.RunAsNonRoot); nonRoot != nil && *nonRoot {
		if err := checkNonRoot(runAsUser, user); err != nil {
			return nil, err
		}
	}
	if runAsUser == nil && user.UID == nil && !utf8.ValidString(user.Name) {
		return nil, errUserName
	}
	policy, err := groupsPolicy(psc)
	if err != nil {
		return nil, err
	}
	seccomp, err := seccompProfile(either(sc.SeccompProfile, psc.SeccompProfile), node)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		Privileged:               isTrue(sc.Privileged),
		ReadonlyRootfs:           isTrue(sc.ReadOnlyRootFilesystem),
		NoNewPrivs:               sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		Capabilities:             capabilities(sc.Capabilities),
		SelinuxOptions:           selinux(either(sc.SELinuxOptions, psc.SELinuxOptions)),
		NamespaceOptions:         namespaces,
		SupplementalGroups:       groups(psc),
		SupplementalGroupsPolicy: policy,
		Seccomp:                  seccomp,
	}
	if err := setAppArmor(out, pod, c, either(sc.AppArmorProfile, psc.AppArmorProfile)); err != nil {
		return nil, err
	}
	if runAsUser == nil && user.UID != nil && !validID(*user.UID) {
		return nil, fmt.Errorf("the image names user %d, which is not a valid user ID: set runAsUser", *user.UID)
	}
	setUser(out, runAsUser, user)
	if g := either(sc.RunAsGroup, psc.RunAsGroup); g != nil {
		out.RunAsGroup = &runtimeapi.Int64Value{Value: *g}
	}
	if sc.ProcMount == nil || *sc.ProcMount != v1.UnmaskedProcMount {
		out.MaskedPaths = maskedPaths(node)
		out.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	}
	return out, nil
}

func either[T any](container, pod *T) *T {
	if container != nil {
		return container
	}
	return pod
}

func isTrue(b *bool) bool { return b != nil && *b }

// errUserName: no call of the runtime can carry such a name.
var errUserName = errors.New("the name of the image's user is not valid UTF-8; set runAsUser")

// setUser applies spec/runtime.md 14.2.
func setUser(out *runtimeapi.LinuxContainerSecurityContext, runAsUser *int64, user ImageUser) {
	switch {
	case runAsUser != nil:
		out.RunAsUser = &runtimeapi.Int64Value{Value: *runAsUser}
	case user.UID != nil:
		out.RunAsUser = &runtimeapi.Int64Value{Value: *user.UID}
	case user.Name != "":
		out.RunAsUsername = user.Name
	default:
		out.RunAsUser = &runtimeapi.Int64Value{}
	}
}

// checkNonRoot applies spec/runtime.md 14.3.
func checkNonRoot(runAsUser *int64, user ImageUser) error {
	switch {
	case runAsUser != nil && *runAsUser == 0:
		return errors.New("runAsNonRoot is set, but runAsUser is 0")
	case runAsUser != nil:
		return nil
	case user.UID != nil && *user.UID != 0:
		return nil
	case user.UID == nil && user.Name != "":
		return fmt.Errorf("runAsNonRoot is set, and the image names its user %q, which cannot be checked: set runAsUser to a number", user.Name)
	}
	return errors.New("runAsNonRoot is set, but the image runs as root")
}

func capabilities(c *v1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	out := &runtimeapi.Capability{}
	for _, a := range c.Add {
		out.AddCapabilities = append(out.AddCapabilities, string(a))
	}
	for _, d := range c.Drop {
		out.DropCapabilities = append(out.DropCapabilities, string(d))
	}
	return out
}

// seccompProfile applies spec/runtime.md 14.5.
func seccompProfile(p *v1.SeccompProfile, node Node) (*runtimeapi.SecurityProfile, error) {
	if p == nil {
		if node.SeccompDefault {
			return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
		}
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	}
	switch p.Type {
	case v1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.SeccompProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case v1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			return nil, errors.New("seccompProfile type Localhost needs a localhostProfile")
		}
		if !filepath.IsLocal(*p.LocalhostProfile) {
			return nil, fmt.Errorf("seccompProfile: localhostProfile %q leaves the profile folder", *p.LocalhostProfile)
		}
		return &runtimeapi.SecurityProfile{
			ProfileType:  runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: filepath.Join(node.SeccompDir, *p.LocalhostProfile),
		}, nil
	}
	return nil, fmt.Errorf("seccompProfile type %q is unknown", p.Type)
}

// setAppArmor applies spec/runtime.md 14.6: both the field and the old string.
func setAppArmor(out *runtimeapi.LinuxContainerSecurityContext, pod *v1.Pod, c *v1.Container, field *v1.AppArmorProfile) error {
	text := ""
	switch old, ok := pod.Annotations[v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]; {
	case c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil, !ok && field != nil:
		var err error
		if text, err = appArmorText(field); err != nil {
			return err
		}
	case ok:
		text = old
	default:
		return nil
	}
	profile := &runtimeapi.SecurityProfile{}
	switch name, local := strings.CutPrefix(text, v1.DeprecatedAppArmorBetaProfileNamePrefix); {
	case text == v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		profile.ProfileType = runtimeapi.SecurityProfile_RuntimeDefault
	case text == v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		profile.ProfileType = runtimeapi.SecurityProfile_Unconfined
	case local && name != "":
		profile.ProfileType = runtimeapi.SecurityProfile_Localhost
		profile.LocalhostRef = name
	default:
		return fmt.Errorf("AppArmor profile %q is none of runtime/default, unconfined and localhost/<name>", text)
	}
	out.Apparmor = profile
	//lint:ignore SA1019 runtimes older than the structured field read the string
	out.ApparmorProfile = text
	return nil
}

func appArmorText(p *v1.AppArmorProfile) (string, error) {
	switch p.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		return v1.DeprecatedAppArmorBetaProfileRuntimeDefault, nil
	case v1.AppArmorProfileTypeUnconfined:
		return v1.DeprecatedAppArmorBetaProfileNameUnconfined, nil
	case v1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil || *p.LocalhostProfile == "" {
			return "", errors.New("appArmorProfile type Localhost needs a localhostProfile")
		}
		return v1.DeprecatedAppArmorBetaProfileNamePrefix + *p.LocalhostProfile, nil
	}
	return "", fmt.Errorf("appArmorProfile type %q is unknown", p.Type)
}

// maskedPaths lists what a container must not see (spec/runtime.md 14.7).
func maskedPaths(node Node) []string {
	return append([]string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
		"/sys/firmware", "/sys/devices/virtual/powercap",
	}, node.ThermalPaths...)
}
