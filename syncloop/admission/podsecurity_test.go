package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/syncloop/admission"
)

// hardened returns a pod that the level restricted admits.
func hardened(edits ...func(*v1.Pod)) *v1.Pod {
	p := pod("hardened")
	p.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
	}
	confined := func() *v1.SecurityContext {
		return &v1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}}}
	}
	p.Spec.Containers = []v1.Container{{Name: "main", Image: "app:1", SecurityContext: confined()}}
	p.Spec.InitContainers = []v1.Container{{Name: "init", Image: "app:1", SecurityContext: confined()}}
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "app:1", SecurityContext: confined()}}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// containers returns a pod's containers, one of each kind.
func containers(p *v1.Pod) map[string]*v1.Container {
	return map[string]*v1.Container{
		"main": &p.Spec.Containers[0], "init": &p.Spec.InitContainers[0],
		"debug": (*v1.Container)(&p.Spec.EphemeralContainers[0].EphemeralContainerCommon),
	}
}

// each returns an edit of a pod for each kind of container.
func each(edit func(c *v1.Container)) (out []func(*v1.Pod)) {
	for _, name := range []string{"main", "init", "debug"} {
		out = append(out, func(p *v1.Pod) { edit(containers(p)[name]) })
	}
	return out
}

func security(edit func(s *v1.SecurityContext)) []func(*v1.Pod) {
	return each(func(c *v1.Container) { edit(c.SecurityContext) })
}

func ofPod(edit func(s *v1.PodSecurityContext)) []func(*v1.Pod) {
	return []func(*v1.Pod){func(p *v1.Pod) { edit(p.Spec.SecurityContext) }}
}

func spec(edit func(s *v1.PodSpec)) []func(*v1.Pod) {
	return []func(*v1.Pod){func(p *v1.Pod) { edit(&p.Spec) }}
}

func volume(source v1.VolumeSource) []func(*v1.Pod) {
	return spec(func(s *v1.PodSpec) { s.Volumes = []v1.Volume{{Name: "v", VolumeSource: source}} })
}

func adds(c ...v1.Capability) []func(*v1.Pod) {
	return security(func(s *v1.SecurityContext) { s.Capabilities.Add = c })
}

func probes(edit func(h *v1.ProbeHandler)) []func(*v1.Pod) {
	probe := func() *v1.Probe {
		p := &v1.Probe{}
		edit(&p.ProbeHandler)
		return p
	}
	return slices.Concat(each(func(c *v1.Container) { c.LivenessProbe = probe() }), each(func(c *v1.Container) { c.ReadinessProbe = probe() }),
		each(func(c *v1.Container) { c.StartupProbe = probe() }))
}

func lifecycle(edit func(h *v1.LifecycleHandler)) []func(*v1.Pod) {
	hook := func() *v1.LifecycleHandler {
		h := &v1.LifecycleHandler{}
		edit(h)
		return h
	}
	return slices.Concat(each(func(c *v1.Container) { c.Lifecycle = &v1.Lifecycle{PostStart: hook()} }),
		each(func(c *v1.Container) { c.Lifecycle = &v1.Lifecycle{PreStop: hook()} }))
}

func sysctl(names ...string) []func(*v1.Pod) {
	return ofPod(func(s *v1.PodSecurityContext) {
		for _, n := range names {
			s.Sysctls = append(s.Sysctls, v1.Sysctl{Name: n, Value: "1"})
		}
	})
}

// row describes a control in the table of the standards: each edit makes a pod that complies with
// it, or violates it.
type row struct {
	control string
	edits   []func(*v1.Pod)
	// baseline and restricted: what the message says, "" if the level allows it.
	baseline, restricted string
}

// both returns a row for which both levels say the same.
func both(control, says string, edits ...[]func(*v1.Pod)) row {
	return row{control, slices.Concat(edits...), says, says}
}

// only returns a row about which only the level restricted says something.
func only(control, says string, edits ...[]func(*v1.Pod)) row {
	return row{control, slices.Concat(edits...), "", says}
}

func appArmorOf(kind v1.AppArmorProfileType) []func(*v1.Pod) {
	profile := &v1.AppArmorProfile{Type: kind}
	return append(security(func(s *v1.SecurityContext) { s.AppArmorProfile = profile }), ofPod(func(s *v1.PodSecurityContext) { s.AppArmorProfile = profile })...)
}

func annotated(key, value string) []func(*v1.Pod) {
	return []func(*v1.Pod){func(p *v1.Pod) { p.Annotations = map[string]string{key: value} }}
}

func seLinuxOf(o v1.SELinuxOptions) []func(*v1.Pod) {
	return append(security(func(s *v1.SecurityContext) { s.SELinuxOptions = &o }), ofPod(func(s *v1.PodSecurityContext) { s.SELinuxOptions = &o })...)
}

func seccompOf(kind v1.SeccompProfileType) []func(*v1.Pod) {
	profile := &v1.SeccompProfile{Type: kind}
	return append(security(func(s *v1.SecurityContext) { s.SeccompProfile = profile }), ofPod(func(s *v1.PodSecurityContext) { s.SeccompProfile = profile })...)
}

func baselineRows() []row {
	windows := &v1.WindowsSecurityContextOptions{HostProcess: ptr.To(true)}
	apparmor := v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "main"
	return []row{
		both("HostProcess", "hostProcess=true", security(func(s *v1.SecurityContext) { s.WindowsOptions = windows }), ofPod(func(s *v1.PodSecurityContext) { s.WindowsOptions = windows })),
		both("HostProcess", "", security(func(s *v1.SecurityContext) {
			s.WindowsOptions = &v1.WindowsSecurityContextOptions{HostProcess: ptr.To(false)}
		})),
		both("Host Namespaces", "host namespaces (hostNetwork=true)", spec(func(s *v1.PodSpec) { s.HostNetwork = true })),
		both("Host Namespaces", "host namespaces (hostPID=true)", spec(func(s *v1.PodSpec) { s.HostPID = true })),
		both("Host Namespaces", "host namespaces (hostIPC=true)", spec(func(s *v1.PodSpec) { s.HostIPC = true })),
		both("Privileged Containers", "must not set securityContext.privileged=true", security(func(s *v1.SecurityContext) { s.Privileged = ptr.To(true) })),
		both("Privileged Containers", "", security(func(s *v1.SecurityContext) { s.Privileged = ptr.To(false) })),
		{"Capabilities", adds("CHOWN", "KILL", "MKNOD", "SETFCAP", "AUDIT_WRITE", "SYS_CHROOT"), "", `must not include "CHOWN"`},
		both("Capabilities", "", adds("NET_BIND_SERVICE")),
		both("Capabilities", `non-default capabilities (container "`, adds("SYS_ADMIN"), adds("ALL"), adds("CHOWN", "NET_RAW"), adds("CAP_CHOWN")),
		both("HostPath Volumes", `hostPath volumes (volume "v", path "/x")`, volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}})),
		both("Host Ports", "uses hostPort 80", each(func(c *v1.Container) { c.Ports = []v1.ContainerPort{{HostPort: 80}} })),
		both("Host Ports", "", each(func(c *v1.Container) { c.Ports = []v1.ContainerPort{{ContainerPort: 80}} })),
		both("Host Probes / Lifecycle Hooks", `.host="10.0.0.1"`,
			probes(func(h *v1.ProbeHandler) { h.HTTPGet = &v1.HTTPGetAction{Host: "10.0.0.1"} }), probes(func(h *v1.ProbeHandler) { h.TCPSocket = &v1.TCPSocketAction{Host: "10.0.0.1"} }),
			lifecycle(func(h *v1.LifecycleHandler) { h.HTTPGet = &v1.HTTPGetAction{Host: "10.0.0.1"} }), lifecycle(func(h *v1.LifecycleHandler) { h.TCPSocket = &v1.TCPSocketAction{Host: "10.0.0.1"} })),
		both("Host Probes / Lifecycle Hooks", "",
			probes(func(h *v1.ProbeHandler) { h.HTTPGet = &v1.HTTPGetAction{} }), lifecycle(func(h *v1.LifecycleHandler) { h.Exec = &v1.ExecAction{} })),
		both("AppArmor", "appArmorProfile.type=\"Unconfined\"", appArmorOf(v1.AppArmorProfileTypeUnconfined)),
		both("AppArmor", "", appArmorOf(v1.AppArmorProfileTypeRuntimeDefault), appArmorOf(v1.AppArmorProfileTypeLocalhost)),
		both("AppArmor", "forbidden AppArmor profiles (annotation", annotated(apparmor, "unconfined")),
		both("AppArmor", "", annotated(apparmor, "runtime/default"), annotated(apparmor, "localhost/own"), annotated("other", "unconfined")),
		both("SELinux", "seLinuxOptions.type", seLinuxOf(v1.SELinuxOptions{Type: "spc_t"})),
		both("SELinux", "seLinuxOptions.user", seLinuxOf(v1.SELinuxOptions{User: "root"})),
		both("SELinux", "seLinuxOptions.role", seLinuxOf(v1.SELinuxOptions{Role: "sysadm_r"})),
		both("SELinux", "", seLinuxOf(v1.SELinuxOptions{Type: "container_t", Level: "s0:c1,c2"}), seLinuxOf(v1.SELinuxOptions{Type: "container_init_t"}),
			seLinuxOf(v1.SELinuxOptions{Type: "container_kvm_t"}), seLinuxOf(v1.SELinuxOptions{Type: "container_engine_t"})),
		both("/proc Mount Type", `procMount="Unmasked"`, security(func(s *v1.SecurityContext) { s.ProcMount = ptr.To(v1.UnmaskedProcMount) })),
		both("/proc Mount Type", "", security(func(s *v1.SecurityContext) { s.ProcMount = ptr.To(v1.DefaultProcMount) })),
		both("Seccomp", `seccompProfile.type to "Unconfined"`, seccompOf(v1.SeccompProfileTypeUnconfined)),
		both("Seccomp", "", seccompOf(v1.SeccompProfileTypeLocalhost), seccompOf(v1.SeccompProfileTypeRuntimeDefault)),
		both("Sysctls", "forbidden sysctls (kernel.msgmax)", sysctl("kernel.shm_rmid_forced", "kernel.msgmax")),
		both("Sysctls", "", sysctl("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_syncookies",
			"net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
			"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net/ipv4/tcp_syncookies")),
	}
}

func restrictedRows() []row {
	user := func(u int64) []func(*v1.Pod) {
		return append(security(func(s *v1.SecurityContext) { s.RunAsUser = &u }), ofPod(func(s *v1.PodSecurityContext) { s.RunAsUser = &u })...)
	}
	return []row{
		only("Volume Types", `volume "v" uses restricted volume type "nfs"`, volume(v1.VolumeSource{NFS: &v1.NFSVolumeSource{}})),
		only("Volume Types", `restricted volume type "gitRepo"`, volume(v1.VolumeSource{GitRepo: &v1.GitRepoVolumeSource{}})),
		both("Volume Types", "", volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}), volume(v1.VolumeSource{CSI: &v1.CSIVolumeSource{}}),
			volume(v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}), volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), volume(v1.VolumeSource{}),
			volume(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}), volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}),
			volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}), volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}), volume(v1.VolumeSource{Image: &v1.ImageVolumeSource{}})),
		only("Volume Types", `restricted volume type "rbd"`, volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}, RBD: &v1.RBDVolumeSource{}})), // of two types
		only("Privilege Escalation", "must set securityContext.allowPrivilegeEscalation=false", security(func(s *v1.SecurityContext) { s.AllowPrivilegeEscalation = nil }),
			security(func(s *v1.SecurityContext) { s.AllowPrivilegeEscalation = ptr.To(true) })),
		only("Running as Non-root", "must set securityContext.runAsNonRoot=true", security(func(s *v1.SecurityContext) { s.RunAsNonRoot = ptr.To(false) }),
			ofPod(func(s *v1.PodSecurityContext) { s.RunAsNonRoot = nil })),
		only("Running as Non-root", "pod must not set securityContext.runAsNonRoot=false", []func(*v1.Pod){func(p *v1.Pod) {
			p.Spec.SecurityContext.RunAsNonRoot = ptr.To(false)
			for _, c := range containers(p) {
				c.SecurityContext.RunAsNonRoot = ptr.To(true)
			}
		}}),
		both("Running as Non-root", "", []func(*v1.Pod){func(p *v1.Pod) {
			p.Spec.SecurityContext.RunAsNonRoot = nil
			for _, c := range containers(p) {
				c.SecurityContext.RunAsNonRoot = ptr.To(true)
			}
		}}),
		only("Running as Non-root user", "must not set securityContext.runAsUser=0", user(0)),
		both("Running as Non-root user", "", user(1000)),
		only("Seccomp", `must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`, ofPod(func(s *v1.PodSecurityContext) { s.SeccompProfile = nil })),
		both("Seccomp", "", []func(*v1.Pod){func(p *v1.Pod) {
			p.Spec.SecurityContext.SeccompProfile = nil
			for _, c := range containers(p) {
				c.SecurityContext.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost}
			}
		}}),
		only("Capabilities", `must set securityContext.capabilities.drop=["ALL"]`, security(func(s *v1.SecurityContext) { s.Capabilities = nil }),
			security(func(s *v1.SecurityContext) { s.Capabilities.Drop = []v1.Capability{"NET_RAW"} }), each(func(c *v1.Container) { c.SecurityContext = nil })),
	}
}

// TestWindowsIsNoWayAround (PS1): a pod that says it is for Windows has to keep to each control of
// its level like any other, and its Windows fields other than hostProcess change nothing.
func TestWindowsIsNoWayAround(t *testing.T) {
	windows := func(p *v1.Pod) {
		p.Spec.OS = &v1.PodOS{Name: v1.Windows}
		p.Spec.SecurityContext.WindowsOptions = &v1.WindowsSecurityContextOptions{RunAsUserName: ptr.To("ContainerAdministrator"), GMSACredentialSpec: ptr.To("spec")}
	}
	for level, rows := range map[admission.SecurityLevel][]row{admission.SecurityBaseline: baselineRows(), admission.SecurityRestricted: append(baselineRows(), restrictedRows()...)} {
		h, err := admission.PodSecurity(level, admission.SecurityExemptions{})
		if err != nil {
			t.Fatal(err)
		}
		if v := h.Review(hardened(windows)); !v.Admitted() {
			t.Errorf("%s: a hardened pod: %+v", level, v)
		}
		for _, r := range rows {
			for _, edit := range r.edits {
				linux, other := h.Review(hardened(edit)), h.Review(hardened(windows, edit))
				if strings.Contains(r.control, "HostProcess") {
					continue // it is one of the Windows fields
				}
				if linux != other {
					t.Errorf("%s, %s: %+v, on Windows %+v", level, r.control, linux, other)
				}
			}
		}
	}
}

// TestPodSecurityStandards (PS1): each control of the table, for init, ephemeral and other
// containers.
func TestPodSecurityStandards(t *testing.T) {
	for _, r := range append(baselineRows(), restrictedRows()...) {
		for i, edit := range r.edits {
			for level, want := range map[admission.SecurityLevel]string{
				admission.SecurityPrivileged: "", admission.SecurityBaseline: r.baseline, admission.SecurityRestricted: r.restricted,
			} {
				v := judged(t, level, admission.SecurityExemptions{}, hardened(edit))
				if v.Admitted() != (want == "") || !strings.Contains(v.Message, want) {
					t.Errorf("%s, edit %d under %s: %+v, want %q", r.control, i, level, v, want)
				}
				if !v.Admitted() && v.Reason != admission.ReasonPodSecurity {
					t.Errorf("%s: reason %q", r.control, v.Reason)
				}
			}
		}
	}
}

// TestEveryControlHasRows (PS1): each control has a row in which it forbids something, and each row belongs to a control.
func TestEveryControlHasRows(t *testing.T) {
	denied := map[string]bool{}
	for _, r := range append(baselineRows(), restrictedRows()...) {
		denied[r.control] = denied[r.control] || r.restricted != ""
	}
	for _, name := range admission.ControlNames() {
		if !denied[name] {
			t.Errorf("no row in which %q forbids something", name)
		}
	}
	if len(denied) != len(admission.ControlNames()) {
		t.Errorf("rows of %d controls, there are %v", len(denied), admission.ControlNames())
	}
}

func judged(t *testing.T, level admission.SecurityLevel, e admission.SecurityExemptions, p *v1.Pod) admission.Verdict {
	t.Helper()
	h, err := admission.PodSecurity(level, e)
	if err != nil {
		t.Fatal(err)
	}
	return h.Admit(admission.Request{Pod: p})
}

// TestPodSecurityNamesAll (PS1): one message names everything that is forbidden.
func TestPodSecurityNamesAll(t *testing.T) {
	v := judged(t, admission.SecurityBaseline, admission.SecurityExemptions{}, pod("plain", hostNetwork, func(p *v1.Pod) {
		p.Spec.HostPID = true
		p.Spec.Containers[0].Name = "main"
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: ptr.To(true)}
	}))
	if want := `violates PodSecurity "baseline": host namespaces (hostNetwork=true; hostPID=true), privileged (container "main" must not set securityContext.privileged=true)`; v.Message != want {
		t.Errorf("%q, want %q", v.Message, want)
	}
}

// TestSecurityExemptions (PS2): exempt pods pass, and no others.
func TestSecurityExemptions(t *testing.T) {
	e := admission.SecurityExemptions{
		HostPaths:    []admission.HostPath{{Path: "/data"}, {Path: "/etc/certs", ReadOnly: true}},
		VolumeTypes:  []string{"nfs"},
		Capabilities: []v1.Capability{"NET_RAW"}, HostPorts: []int32{8080}, UserNamespaces: true,
	}
	mounts := func(path string, readOnly bool) func(*v1.Pod) {
		return func(p *v1.Pod) {
			volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}})[0](p)
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", ReadOnly: readOnly}, {Name: "other"}}
		}
	}
	device := func(p *v1.Pod) {
		mounts("/etc/certs", true)(p)
		p.Spec.InitContainers[0].VolumeDevices = []v1.VolumeDevice{{Name: "v"}}
	}
	typed := func(path string, kind v1.HostPathType) func(*v1.Pod) {
		return func(p *v1.Pod) {
			mounts(path, true)(p)
			for i := range p.Spec.Volumes {
				if h := p.Spec.Volumes[i].HostPath; h != nil {
					h.Type = &kind
				}
			}
		}
	}
	rootIn := func(hostUsers *bool) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.HostUsers = hostUsers
			p.Spec.SecurityContext.RunAsNonRoot, p.Spec.SecurityContext.RunAsUser = nil, ptr.To(int64(0))
			p.Spec.Containers[0].SecurityContext.ProcMount = ptr.To(v1.UnmaskedProcMount)
		}
	}
	for name, tc := range map[string]struct {
		edit    func(*v1.Pod)
		allowed bool
	}{
		"a path":                       {mounts("/data", false), true},
		"one below":                    {mounts("/data/x/", false), true},
		"one beside":                   {mounts("/database", false), false},
		"one above":                    {mounts("/", false), false},
		"one out of it":                {mounts("/data/../etc", false), false},
		"a relative one":               {mounts("data", false), false},
		"read-only":                    {mounts("/etc/certs/a", true), true},
		"read-only, written":           {mounts("/etc/certs/a", false), false},
		"read-only, as a device":       {device, false},
		"read-only, a folder":          {typed("/etc/certs/a", v1.HostPathDirectory), true},
		"read-only, to be made":        {typed("/etc/certs/a", v1.HostPathDirectoryOrCreate), false},
		"read-only, a file to be made": {typed("/etc/certs/a", v1.HostPathFileOrCreate), false},
		"to be made":                   {typed("/data/a", v1.HostPathDirectoryOrCreate), true},
		"a volume type":                {volume(v1.VolumeSource{NFS: &v1.NFSVolumeSource{}})[0], true},
		"another one":                  {volume(v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{}})[0], false},
		"a capability":                 {adds("NET_RAW")[0], true},
		"another capability":           {adds("NET_RAW", "NET_ADMIN")[0], false},
		"a port":                       {each(func(c *v1.Container) { c.Ports = []v1.ContainerPort{{HostPort: 8080}} })[1], true},
		"another port":                 {each(func(c *v1.Container) { c.Ports = []v1.ContainerPort{{HostPort: 8081}} })[1], false},
		"root of a user namespace":     {rootIn(ptr.To(false)), true},
		"root of the node":             {rootIn(ptr.To(true)), false},
		"root without a word about it": {rootIn(nil), false},
	} {
		if v := judged(t, admission.SecurityRestricted, e, hardened(tc.edit)); v.Admitted() != tc.allowed {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := judged(t, admission.SecurityRestricted, admission.SecurityExemptions{}, hardened(rootIn(ptr.To(false)))); v.Admitted() {
		t.Error("root of a user namespace is allowed though nobody said so")
	}
}

// TestImagesFrom (PS3): allowed places match whole parts of an image's full name, for pods of every
// level and for volumes; an ID does not get around them.
func TestImagesFrom(t *testing.T) {
	e := admission.SecurityExemptions{Images: []string{"docker.io/library", "registry.example.com/team", "localhost:5000", "plain.example.com"}}
	id := strings.Repeat("ab12", 16)
	for image, allowed := range map[string]bool{
		"app:1": true, "app": true, "docker.io/library/app@sha256:" + id: true, "index.docker.io/library/app": true,
		"someone/app": false, "docker.io/someone/app": false, "docker.io/libraryx/app": false,
		"registry.example.com/team/app:1": true, "registry.example.com/team": true, "registry.example.com/teammate/app": false,
		"registry.example.com.evil.org/team/app": false, "plain.example.com/x": true, "plain.example.com:8080/x": false, "EVIL/x": false,
		"docker.io/app": true, "docker.io/someone:1": true, // of library
		"localhost:5000/app": true, "localhost/app": false,
		id: false, "sha256:" + id: false, "deadbeef": false, "": false,
	} {
		for _, edit := range append(each(func(c *v1.Container) { c.Image = image }), volume(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: image}})...) {
			if v := judged(t, admission.SecurityPrivileged, e, hardened(edit)); v.Admitted() != allowed || !allowed && !strings.Contains(v.Message, fmt.Sprintf("must not use image %q", image)) {
				t.Errorf("%q: %+v", image, v)
			}
		}
	}
}

// TestNamespacesThatAreExempt (PS2): their pods may do everything, but only with images that all
// pods may use; pods of other namespaces may not.
func TestNamespacesThatAreExempt(t *testing.T) {
	e := admission.SecurityExemptions{Namespaces: []string{"kube-system"}, Images: []string{"docker.io/library"}}
	pod := func(namespace, image string) *v1.Pod {
		return hardened(func(p *v1.Pod) {
			p.Namespace, p.Spec.HostNetwork = namespace, true
			for i := range p.Spec.Containers {
				p.Spec.Containers[i].Image = image
			}
		})
	}
	for _, c := range []struct {
		namespace, image string
		admitted         bool
	}{
		{"kube-system", "app:1", true},
		{"kube-system", "example.com/app:1", false},
		{"kube-systems", "app:1", false},
		{"default", "app:1", false},
		{"", "app:1", false},
	} {
		if v := judged(t, admission.SecurityRestricted, e, pod(c.namespace, c.image)); v.Admitted() != c.admitted {
			t.Errorf("%s in %q: %+v", c.image, c.namespace, v)
		}
	}
}

// TestPodSecurityArguments: the error lists everything that is wrong with them.
func TestPodSecurityArguments(t *testing.T) {
	_, err := admission.PodSecurity("strict", admission.SecurityExemptions{
		HostPaths: []admission.HostPath{{Path: "data"}, {Path: "/data/"}}, VolumeTypes: []string{"floppy", "hostPath"}, Images: []string{"library", "docker.io/"},
		Namespaces: []string{"kube-system", "", "Kube"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`level "strict"`, `path "data"`, `path "/data/"`, `"floppy"`, `"hostPath"`, `from "library"`, `from "docker.io/"`, `namespace ""`, `namespace "Kube"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
	if _, err := admission.PodSecurity("", admission.SecurityExemptions{}); err == nil {
		t.Error("no level is one")
	}
}
