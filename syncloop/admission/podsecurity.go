package admission

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/registrykey"
)

// SecurityLevel is a level of the Pod Security Standards of Kubernetes.
type SecurityLevel string

const (
	// SecurityPrivileged allows everything.
	SecurityPrivileged SecurityLevel = "privileged"
	// SecurityBaseline forbids the known ways out of a container. A pod that asks for
	// nothing special passes.
	SecurityBaseline SecurityLevel = "baseline"
	// SecurityRestricted also requires the settings of hardened pods.
	SecurityRestricted SecurityLevel = "restricted"
)

// ReasonPodSecurity is the reason of a pod that a security level forbids.
const ReasonPodSecurity = "PodSecurity"

// SecurityExemptions allow pods more than their level does, or restrict their images. The zero
// value changes nothing.
type SecurityExemptions struct {
	// HostPaths may be mounted.
	HostPaths []HostPath
	// VolumeTypes may be used under [SecurityRestricted]: names of fields of a volume, such
	// as nfs. Folders of the node have HostPaths instead.
	VolumeTypes []string
	// Capabilities may be added, without the prefix CAP_.
	Capabilities []v1.Capability
	// HostPorts may be used.
	HostPorts []int32
	// UserNamespaces: pods in a user namespace (hostUsers: false) may run as root in it and
	// see an unmasked /proc, because their root has no rights on the node.
	UserNamespaces bool
	// Namespaces are those whose pods may do everything, such as kube-system, except that Images
	// still applies. Pods that choose their own namespace, as those of a file or URL do, can
	// exempt themselves with it: limit their namespaces with the source's policy.
	Namespaces []string
	// Images lists where images may come from, for pods of every level: registries, such as
	// registry.example.com, or paths in one, such as docker.io/library. If it is set, pods must
	// refer to images by name, not by ID. Empty means anywhere.
	Images []string
}

// HostPath is a folder of the node that pods may mount, with everything below it. A folder that
// a pod may write to does not confine it: the pod can put a link there that leads to any other
// path of the node, and mount that.
type HostPath struct {
	// Path is absolute and clean.
	Path string
	// ReadOnly: every mount of the volume must be read-only, and its type must not create the
	// path. File systems that are mounted below it stay writable, unless the pod asks for
	// recursiveReadOnly: do not exempt a path that has any.
	ReadOnly bool
}

// PodSecurity refuses a pod that a level of the Pod Security Standards forbids, as the newest
// version of Kubernetes' admission plugin of that name does: baseline v1.34, restricted v1.33.
// Only the special rules for Windows pods are left out: no pod counts as one. The message lists
// everything that is forbidden. An error lists everything that is wrong with the arguments.
func PodSecurity(level SecurityLevel, exemptions SecurityExemptions) (Reviewer, error) {
	var problems []error
	if !slices.Contains([]SecurityLevel{SecurityPrivileged, SecurityBaseline, SecurityRestricted}, level) {
		problems = append(problems, fmt.Errorf("there is no Pod Security level %q: want privileged, baseline or restricted", level))
	}
	problems = append(problems, exemptions.check()...)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return reviewed(func(pod *v1.Pod) Verdict {
		if forbidden := exemptions.forbidden(level, pod); len(forbidden) > 0 {
			return Refuse(ReasonPodSecurity, "violates PodSecurity %q: %s", level, strings.Join(forbidden, ", "))
		}
		return Verdict{}
	}), nil
}

// check returns what is wrong with the exemptions.
func (e SecurityExemptions) check() (problems []error) {
	for _, h := range e.HostPaths {
		if !path.IsAbs(h.Path) || path.Clean(h.Path) != h.Path {
			problems = append(problems, fmt.Errorf("host path %q: want an absolute path without ., .. and a slash at its end", h.Path))
		}
	}
	for _, name := range e.VolumeTypes {
		if !isVolumeType(name) || name == "hostPath" {
			problems = append(problems, fmt.Errorf("volume type %q: want the name of a volume's field, such as nfs, and not hostPath", name))
		}
	}
	for _, namespace := range e.Namespaces {
		if bad := validation.IsDNS1123Label(namespace); len(bad) > 0 {
			problems = append(problems, fmt.Errorf("namespace %q: %s", namespace, strings.Join(bad, "; ")))
		}
	}
	for _, image := range e.Images {
		if registry, _, _ := strings.Cut(image, "/"); !registrykey.IsHost(registry) || strings.HasSuffix(image, "/") {
			problems = append(problems, fmt.Errorf("images from %q: want a registry, such as registry.example.com, or a path in one", image))
		}
	}
	return problems
}

// forbidden returns what is wrong with a pod, one text per control.
func (e SecurityExemptions) forbidden(level SecurityLevel, pod *v1.Pod) (out []string) {
	if slices.Contains(e.Namespaces, pod.Namespace) {
		level = SecurityPrivileged
	}
	controls := slices.Clone(everyLevel)
	if level != SecurityPrivileged {
		controls = append(controls, baseline...)
	}
	if level == SecurityRestricted {
		controls = append(controls, restricted...)
	}
	for _, c := range controls {
		if found := c.violations(&e, pod); len(found) > 0 {
			out = append(out, c.forbids+" ("+strings.Join(found, "; ")+")")
		}
	}
	return out
}

// mayMount reports whether a pod may mount a hostPath volume.
func (e *SecurityExemptions) mayMount(volume *v1.Volume, spec *v1.PodSpec) bool {
	asked := volume.HostPath.Path
	if !path.IsAbs(asked) || slices.Contains(strings.Split(asked, "/"), "..") {
		return false
	}
	asked = path.Clean(asked)
	return slices.ContainsFunc(e.HostPaths, func(h HostPath) bool {
		below := h.Path == "/" || asked == h.Path || strings.HasPrefix(asked, h.Path+"/")
		return below && (!h.ReadOnly || mountedReadOnly(volume.Name, spec) && !made(volume.HostPath))
	})
}

// made reports whether the node creates a missing path, which also writes.
func made(h *v1.HostPathVolumeSource) bool {
	kind := ptr.Deref(h.Type, v1.HostPathUnset)
	return kind == v1.HostPathDirectoryOrCreate || kind == v1.HostPathFileOrCreate
}

func mountedReadOnly(volume string, spec *v1.PodSpec) bool {
	readOnly := true
	eachOf(spec, func(c *v1.Container, _ string) {
		for _, m := range c.VolumeMounts {
			readOnly = readOnly && (m.Name != volume || m.ReadOnly)
		}
		for _, d := range c.VolumeDevices {
			readOnly = readOnly && d.Name != volume
		}
	})
	return readOnly
}

// imageID matches names that a runtime may take for the start of an image's ID.
var imageID = regexp.MustCompile(`^(sha256:)?[0-9a-f]+$`)

// mayUse reports whether an image comes from an allowed place.
func (e *SecurityExemptions) mayUse(image string) bool {
	if len(e.Images) == 0 {
		return true
	}
	if image == "" || imageID.MatchString(image) {
		return false
	}
	image = registrykey.Complete(image)
	return slices.ContainsFunc(e.Images, func(prefix string) bool {
		rest, found := strings.CutPrefix(image, prefix)
		if !strings.Contains(prefix, "/") { // after a registry a colon begins its port
			return found && strings.HasPrefix(rest, "/")
		}
		return found && (rest == "" || strings.ContainsAny(rest[:1], "/:@"))
	})
}
