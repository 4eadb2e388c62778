package source

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"reflect"
	"slices"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/podinfo"
)

// maxFolderName is the longest name that file systems accept for the log folder
// namespace_name_uid.
const maxFolderName = 255

// maxAnnotations limits the total size in bytes of the keys and values of all annotations, as an
// API server does.
const maxAnnotations = 256 << 10

// Validate returns every reason why pod, already completed with [Default], could
// not run. It does not change pod. It checks the fields that this module uses; an
// API server checks more.
func Validate(pod *v1.Pod) field.ErrorList {
	v := &validator{}
	if v.quantities(reflect.ValueOf(pod.Spec), field.NewPath("spec")); len(v.errors) > 0 {
		return v.errors // the checks below compare quantities
	}
	v.metadata(pod)
	v.spec(&pod.Spec, field.NewPath("spec"))
	return v.errors
}

// validator gathers errors.
type validator struct {
	errors  field.ErrorList
	volumes sets.Set[string]
}

func (v *validator) add(errors ...*field.Error) { v.errors = append(v.errors, errors...) }

// name checks a name that ends up in file system paths. A name that could escape
// its folder gets a message of its own before the general rule applies.
func (v *validator) name(p *field.Path, name string, rule func(string) []string) {
	switch {
	case name == "":
		v.add(field.Required(p, "must be set"))
	case strings.Contains(name, "/"):
		v.add(field.Invalid(p, name, `must not contain "/"`))
	case strings.Contains(name, ".."):
		v.add(field.Invalid(p, name, `must not contain ".."`))
	case strings.ContainsFunc(name, unicode.IsControl):
		v.add(field.Invalid(p, name, "must not contain control characters"))
	default:
		for _, message := range rule(name) {
			v.add(field.Invalid(p, name, message))
		}
	}
}

func (v *validator) metadata(pod *v1.Pod) {
	p := field.NewPath("metadata")
	v.name(p.Child("name"), pod.Name, validation.IsDNS1123Subdomain)
	v.name(p.Child("namespace"), pod.Namespace, validation.IsDNS1123Label)
	if pod.UID != "" {
		v.name(p.Child("uid"), string(pod.UID), isUID)
	}
	if n := len(pod.Namespace) + len(pod.Name) + len(pod.UID) + 2; n > maxFolderName {
		v.add(field.Invalid(p.Child("name"), pod.Name,
			"too long: no folder can be named after namespace, name and UID together"))
	}
	for _, k := range sorted(pod.Labels) {
		for _, message := range validation.IsQualifiedName(k) {
			v.add(field.Invalid(p.Child("labels"), k, message))
		}
		for _, message := range validation.IsValidLabelValue(pod.Labels[k]) {
			v.add(field.Invalid(p.Child("labels").Key(k), pod.Labels[k], message))
		}
	}
	size := 0
	for _, k := range sorted(pod.Annotations) {
		size += len(k) + len(pod.Annotations[k])
		for _, message := range validation.IsQualifiedName(strings.ToLower(k)) {
			v.add(field.Invalid(p.Child("annotations"), k, message))
		}
	}
	if size > maxAnnotations {
		v.add(field.TooLong(p.Child("annotations"), "", maxAnnotations))
	}
	v.seconds(p.Child("deletionGracePeriodSeconds"), pod.DeletionGracePeriodSeconds, 0)
}

// sorted returns the keys of m in order, so that the order of errors is stable.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// isUID allows characters that are safe in file names and label values. It excludes
// the underscore, which separates the UID in names of log folders.
func isUID(uid string) []string {
	if len(uid) > 128 || strings.ContainsFunc(uid, func(r rune) bool {
		return r != '-' && r != '.' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) || strings.HasPrefix(uid, ".") || strings.HasPrefix(uid, "-") {
		return []string{"a UID has at most 128 letters, digits, '-' or '.', and begins with a letter or digit"}
	}
	return nil
}

func (v *validator) spec(spec *v1.PodSpec, p *field.Path) {
	v.oneOf(p.Child("restartPolicy"), string(spec.RestartPolicy),
		string(v1.RestartPolicyAlways), string(v1.RestartPolicyOnFailure), string(v1.RestartPolicyNever))
	v.oneOf(p.Child("dnsPolicy"), string(spec.DNSPolicy), string(v1.DNSClusterFirst),
		string(v1.DNSClusterFirstWithHostNet), string(v1.DNSDefault), string(v1.DNSNone))
	v.seconds(p.Child("terminationGracePeriodSeconds"), spec.TerminationGracePeriodSeconds, 0)
	v.seconds(p.Child("activeDeadlineSeconds"), spec.ActiveDeadlineSeconds, 1)
	for _, name := range sorted(spec.Overhead) { // a negative overhead would make room for other requests
		if q := spec.Overhead[name]; q.Sign() < 0 {
			v.add(field.Invalid(p.Child("overhead").Key(string(name)), q.String(), "must not be negative"))
		}
	}
	if spec.Resources != nil {
		v.podResources(spec, p.Child("resources"))
	}
	if spec.NodeName != "" {
		v.name(p.Child("nodeName"), strings.ToLower(spec.NodeName), validation.IsDNS1123Subdomain)
	}
	for _, x := range []struct{ name, value string }{{"hostname", spec.Hostname}, {"subdomain", spec.Subdomain}} {
		if x.value != "" {
			v.name(p.Child(x.name), x.value, validation.IsDNS1123Label)
		}
	}
	if spec.OS != nil {
		v.oneOf(p.Child("os", "name"), string(spec.OS.Name), string(v1.Linux), string(v1.Windows))
	}
	if len(spec.SchedulingGates) > 0 && spec.NodeName != "" {
		v.add(field.Forbidden(p.Child("schedulingGates"), "the pod has a node already, so that no scheduler will open them"))
	}
	if sc := spec.SecurityContext; sc != nil && sc.SELinuxChangePolicy != nil {
		v.oneOf(p.Child("securityContext", "seLinuxChangePolicy"), string(*sc.SELinuxChangePolicy),
			string(v1.SELinuxChangePolicyRecursive), string(v1.SELinuxChangePolicyMountOption))
	}
	v.allVolumes(spec.Volumes, p.Child("volumes"))
	v.containers(spec, p)
}

// containers checks all containers; names are unique across the three lists.
func (v *validator) containers(spec *v1.PodSpec, p *field.Path) {
	if len(spec.Containers) == 0 {
		v.add(field.Required(p.Child(fieldContainers), "a pod has at least one container"))
	}
	names := sets.New[string]()
	// Init containers run before the others and may use the same host ports.
	hostPorts := map[string]sets.Set[v1.ContainerPort]{
		fieldInit: sets.New[v1.ContainerPort](), fieldContainers: sets.New[v1.ContainerPort](), fieldEphemeral: sets.New[v1.ContainerPort](),
	}
	eachContainer(spec, func(c *v1.Container, list string, i int) {
		p := p.Child(list).Index(i)
		v.name(p.Child("name"), c.Name, validation.IsDNS1123Label)
		if names.Has(c.Name) && c.Name != "" {
			v.add(field.Duplicate(p.Child("name"), c.Name))
		}
		names.Insert(c.Name)
		switch {
		case c.Image == "":
			v.add(field.Required(p.Child("image"), "must be set"))
		case strings.TrimSpace(c.Image) != c.Image || strings.ContainsFunc(c.Image, unicode.IsControl):
			v.add(field.Invalid(p.Child("image"), c.Image, "must not begin or end with white space or contain control characters"))
		}
		v.oneOf(p.Child("imagePullPolicy"), string(c.ImagePullPolicy),
			string(v1.PullAlways), string(v1.PullIfNotPresent), string(v1.PullNever))
		v.oneOf(p.Child("terminationMessagePolicy"), string(c.TerminationMessagePolicy),
			string(v1.TerminationMessageReadFile), string(v1.TerminationMessageFallbackToLogsOnError))
		if c.RestartPolicy != nil {
			v.oneOf(p.Child("restartPolicy"), string(*c.RestartPolicy), string(v1.ContainerRestartPolicyAlways),
				string(v1.ContainerRestartPolicyOnFailure), string(v1.ContainerRestartPolicyNever))
		}
		if list != fieldEphemeral {
			v.restartRules(c, p)
		}
		if list == fieldInit {
			hostPorts[list].Clear()
		}
		v.unused(c, list, p)
		v.ports(c.Ports, hostPorts[list], p.Child("ports"))
		v.env(c, p)
		v.mounts(c, p)
		v.resources(&c.Resources, p.Child("resources"))
		v.probe(c.LivenessProbe, p.Child("livenessProbe"), 1)
		v.probe(c.ReadinessProbe, p.Child("readinessProbe"), math.MaxInt32)
		if r := c.ReadinessProbe; r != nil && r.TerminationGracePeriodSeconds != nil {
			v.add(field.Forbidden(p.Child("readinessProbe", "terminationGracePeriodSeconds"), "a readiness probe ends no container"))
		}
		v.probe(c.StartupProbe, p.Child("startupProbe"), 1)
		v.lifecycle(c.Lifecycle, p.Child("lifecycle"))
	})
}

// restartRules refuses rules that would never match, or not do what they seem to.
func (v *validator) restartRules(c *v1.Container, p *field.Path) {
	if len(c.RestartPolicyRules) > 0 && c.RestartPolicy == nil {
		v.add(field.Required(p.Child("restartPolicy"), "restartPolicyRules count only beside a restartPolicy of the container itself"))
	}
	for i := range c.RestartPolicyRules {
		rule, p := &c.RestartPolicyRules[i], p.Child("restartPolicyRules").Index(i)
		v.oneOf(p.Child("action"), string(rule.Action),
			string(v1.ContainerRestartRuleActionRestart), string(v1.ContainerRestartRuleActionRestartAllContainers))
		if rule.ExitCodes == nil {
			v.add(field.Required(p.Child("exitCodes"), "must be set"))
			continue
		}
		v.oneOf(p.Child("exitCodes", "operator"), string(rule.ExitCodes.Operator),
			string(v1.ContainerRestartRuleOnExitCodesOpIn), string(v1.ContainerRestartRuleOnExitCodesOpNotIn))
	}
}

// ports checks a container's ports; hostPorts holds those already taken.
func (v *validator) ports(ports []v1.ContainerPort, hostPorts sets.Set[v1.ContainerPort], p *field.Path) {
	names := sets.New[string]()
	for i := range ports {
		port, p := ports[i], p.Index(i)
		if port.Name != "" {
			for _, message := range validation.IsValidPortName(port.Name) {
				v.add(field.Invalid(p.Child("name"), port.Name, message))
			}
			if names.Has(port.Name) {
				v.add(field.Duplicate(p.Child("name"), port.Name))
			}
			names.Insert(port.Name)
		}
		for _, message := range validation.IsValidPortNum(int(port.ContainerPort)) {
			v.add(field.Invalid(p.Child("containerPort"), port.ContainerPort, message))
		}
		v.oneOf(p.Child("protocol"), string(port.Protocol), string(v1.ProtocolTCP), string(v1.ProtocolUDP), string(v1.ProtocolSCTP))
		if port.HostIP != "" {
			v.add(validation.IsValidIP(p.Child("hostIP"), port.HostIP)...)
		}
		if port.HostPort == 0 {
			continue
		}
		for _, message := range validation.IsValidPortNum(int(port.HostPort)) {
			v.add(field.Invalid(p.Child("hostPort"), port.HostPort, message))
		}
		key := v1.ContainerPort{HostIP: port.HostIP, HostPort: port.HostPort, Protocol: port.Protocol}
		if hostPorts.Has(key) {
			v.add(field.Duplicate(p.Child("hostPort"), port.HostPort))
		}
		hostPorts.Insert(key)
	}
}

// env checks names and that each variable has at most one origin.
func (v *validator) env(c *v1.Container, p *field.Path) {
	for i := range c.Env {
		e, p := &c.Env[i], p.Child("env").Index(i)
		if e.Name == "" {
			v.add(field.Required(p.Child("name"), "must be set"))
		} else {
			name, _, assigned := strings.Cut(e.Name, "=")
			if assigned {
				name += "=..." // written as for a shell, it may be a secret
			}
			for _, message := range validation.IsRelaxedEnvVarName(e.Name) {
				v.add(field.Invalid(p.Child("name"), name, message))
			}
		}
		if strings.ContainsRune(e.Value, 0) {
			v.add(field.Invalid(p.Child("value"), "", "must not contain a NUL character"))
		}
		if e.ValueFrom == nil {
			continue
		}
		if e.Value != "" {
			v.add(field.Invalid(p.Child("valueFrom"), "", "must not be set together with value"))
		}
		f := e.ValueFrom
		v.exactlyOne(p.Child("valueFrom"), f.FieldRef != nil, f.ResourceFieldRef != nil,
			f.ConfigMapKeyRef != nil, f.SecretKeyRef != nil, f.FileKeyRef != nil)
	}
	for i := range c.EnvFrom {
		e, p := &c.EnvFrom[i], p.Child("envFrom").Index(i)
		v.exactlyOne(p, e.ConfigMapRef != nil, e.SecretRef != nil)
	}
}

// mounts checks that mounts name the pod's volumes and that their paths do not lead out of them.
func (v *validator) mounts(c *v1.Container, p *field.Path) {
	paths := sets.New[string]()
	for i := range c.VolumeMounts {
		m, p := &c.VolumeMounts[i], p.Child("volumeMounts").Index(i)
		if !v.volumes.Has(m.Name) {
			v.add(field.NotFound(p.Child("name"), m.Name))
		}
		switch {
		case m.MountPath == "":
			v.add(field.Required(p.Child("mountPath"), "must be set"))
		case strings.Contains(m.MountPath, ":") || strings.ContainsFunc(m.MountPath, unicode.IsControl):
			v.add(field.Invalid(p.Child("mountPath"), m.MountPath, `must not contain ":" or control characters`))
		case paths.Has(path.Clean(m.MountPath)):
			v.add(field.Duplicate(p.Child("mountPath"), m.MountPath))
		}
		paths.Insert(path.Clean(m.MountPath))
		v.below(p.Child("subPath"), m.SubPath)
		v.below(p.Child("subPathExpr"), m.SubPathExpr)
		if m.SubPath != "" && m.SubPathExpr != "" {
			v.add(field.Invalid(p.Child("subPathExpr"), m.SubPathExpr, "must not be set together with subPath"))
		}
		if m.MountPropagation != nil {
			v.oneOf(p.Child("mountPropagation"), string(*m.MountPropagation), string(v1.MountPropagationNone),
				string(v1.MountPropagationHostToContainer), string(v1.MountPropagationBidirectional))
			if sc := c.SecurityContext; *m.MountPropagation == v1.MountPropagationBidirectional && (sc == nil || !ptr.Deref(sc.Privileged, false)) {
				v.add(field.Forbidden(p.Child("mountPropagation"), "only a privileged container has Bidirectional: its mounts appear on the node"))
			}
		}
	}
	for i := range c.VolumeDevices {
		d, p := &c.VolumeDevices[i], p.Child("volumeDevices").Index(i)
		if !v.volumes.Has(d.Name) {
			v.add(field.NotFound(p.Child("name"), d.Name))
		}
		if !path.IsAbs(d.DevicePath) || hasBackstep(d.DevicePath) {
			v.add(field.Invalid(p.Child("devicePath"), d.DevicePath, `must be an absolute path without ".."`))
		}
	}
}

func (v *validator) resources(r *v1.ResourceRequirements, p *field.Path) {
	for _, x := range []struct {
		name string
		list v1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range sorted(x.list) {
			q, p := x.list[name], p.Child(x.name).Key(string(name))
			if q.Sign() < 0 {
				v.add(field.Invalid(p, q.String(), "must not be negative"))
			}
			huge := strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
			if !huge && !strings.Contains(string(name), "/") && name != v1.ResourceCPU && name != v1.ResourceMemory && name != v1.ResourceEphemeralStorage {
				v.add(field.Invalid(p, string(name), "must be cpu, memory, ephemeral-storage, hugepages-<size>, or have a domain as in example.com/gpu"))
			}
			if limit, ok := r.Limits[name]; huge && (!ok || limit.Cmp(q) != 0) {
				v.add(field.Invalid(p, q.String(), "the limit of huge pages must be set, and equal to the request"))
			}
		}
	}
	for _, name := range sorted(r.Requests) {
		request := r.Requests[name]
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			v.add(field.Invalid(p.Child("requests").Key(string(name)), request.String(), "must not be more than the limit of "+limit.String()))
		}
	}
}

// podResources checks the resources of the pod as a whole, as an API server does: otherwise a pod
// could count for less than its containers request.
func (v *validator) podResources(spec *v1.PodSpec, p *field.Path) {
	r := spec.Resources
	v.resources(r, p)
	for _, list := range []struct {
		name  string
		level v1.ResourceList
		sum   func(*v1.PodSpec, v1.ResourceName) resource.Quantity
		every bool
	}{{"requests", r.Requests, podinfo.ContainersRequest, true}, {"limits", r.Limits, podinfo.ContainersLimit, false}} {
		for _, name := range sorted(list.level) {
			q, p := list.level[name], p.Child(list.name).Key(string(name))
			huge := strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
			if !huge && name != v1.ResourceCPU && name != v1.ResourceMemory {
				v.add(field.Invalid(p, string(name), "must be cpu, memory or hugepages-<size>: the pod as a whole has no other resources"))
				continue
			}
			if sum := list.sum(spec, name); (list.every || huge) && q.Cmp(sum) < 0 {
				v.add(field.Invalid(p, q.String(), fmt.Sprintf("must not be less than the %s that the containers %s", sum.String(), strings.TrimSuffix(list.name, "s"))))
			}
		}
	}
	eachContainer(spec, func(c *v1.Container, list string, i int) {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			own, all := c.Resources.Limits[name], r.Limits[name]
			if all.Sign() > 0 && own.Cmp(all) > 0 {
				v.add(field.Invalid(field.NewPath("spec", list).Index(i).Child("resources", "limits").Key(string(name)), own.String(), "must not be more than the pod's limit of "+all.String()))
			}
		}
	})
}

// below checks a relative path that must not lead out of its starting folder.
func (v *validator) below(p *field.Path, name string) {
	if name == "" {
		return
	}
	if path.IsAbs(name) || hasBackstep(name) {
		v.add(field.Invalid(p, name, `must be a relative path without ".."`))
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		v.add(field.Invalid(p, name, "must not contain control characters"))
	}
}

// hasBackstep reports whether a segment of the path is "..".
func hasBackstep(name string) bool {
	for segment := range strings.SplitSeq(name, "/") {
		if segment == ".." {
			return true
		}
	}
	return false
}

// seconds checks that a time is at least the given number of seconds and fits 32 bits (D11).
func (v *validator) seconds(p *field.Path, n *int64, least int64) {
	if n != nil && (*n < least || *n > math.MaxInt32) {
		v.add(field.Invalid(p, *n, fmt.Sprintf("must be between %d and %d", least, math.MaxInt32)))
	}
}

func (v *validator) oneOf(p *field.Path, value string, allowed ...string) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	v.add(field.NotSupported(p, value, allowed))
}

// exactlyOne checks a union.
func (v *validator) exactlyOne(p *field.Path, set ...bool) {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	if n != 1 {
		v.add(field.Invalid(p, "", "exactly one kind must be given"))
	}
}
