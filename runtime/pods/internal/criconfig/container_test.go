package criconfig_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podwright/podwright/runtime/pods/internal/criconfig"
	"github.com/podwright/podwright/runtime/pods/internal/meta"
)

// spec/runtime.md 11.4.
func TestReferencesExpandToVariables(t *testing.T) {
	known := map[string]string{"A": "a", "B": "$(A)", "E": "", "x y": "odd"}
	for in, want := range map[string]string{
		"":              "",
		"plain":         "plain",
		"$(A)":          "a",
		"-$(A)-$(A)-":   "-a-a-",
		"$(B)":          "$(A)", // not expanded again
		"$(E)":          "",
		"$(U)":          "$(U)",
		"$$":            "$",
		"$$(A)":         "$(A)",
		"$$$(A)":        "$a",
		"$$$$(A)":       "$$(A)",
		"$(A":           "$(A",
		"$(A $(A":       "$(A $(A",
		"$A":            "$A",
		"$":             "$",
		"a$":            "a$",
		"$(x y)":        "odd",
		"$($(A))":       "$($(A))",
		"$()":           "$()",
		"$(U)$(A)":      "$(U)a",
		"100%$(A)$ $$ ": "100%a$ $ ",
	} {
		got, err := criconfig.Expand(in, func(name string) (string, bool) { v, ok := known[name]; return v, ok })
		if err != nil || got != want {
			t.Errorf("11.4: %q gives %q, err %v; want %q", in, got, err, want)
		}
	}
}

// Expansion with nothing known only turns $$ into $; it never fails.
func TestExpandUnknown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringMatching(`[$()ab]{0,12}`).Draw(t, "in")
		got, err := criconfig.Expand(in, func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(in, "$$") && got != in {
			t.Fatalf("%q gives %q", in, got)
		}
	})
}

func environment(t *testing.T, change func(*v1.Pod)) (string, error) {
	t.Helper()
	pod := newPod(change)
	e, err := criconfig.NewEnvironment(criconfig.EnvInput{
		Pod: pod, Container: &pod.Spec.Containers[0], Sources: noSources{},
		Down: criconfig.Downward{
			HostIPs: []string{"1.1.1.1", "::1"}, PodIPs: []string{"10.0.0.1", "fd00::1"},
			Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: resource.MustParse("16Gi")},
		},
	})
	if err != nil {
		return "", err
	}
	var out []string
	for _, kv := range e.KeyValues() {
		out = append(out, kv.Key+"="+string(kv.Value))
	}
	return strings.Join(out, " "), nil
}

// spec/runtime.md 11.1 to 11.5.
func TestLaterVariablesReplaceEarlierOnes(t *testing.T) {
	env := func(vars ...v1.EnvVar) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Labels = map[string]string{"k": "v", "x.io/Y": "z"}
			p.Annotations = map[string]string{"Note": "n"}
			p.Spec.NodeName = "node1"
			p.Spec.ServiceAccountName = "sa"
			p.Spec.Containers[0].Env = vars
		}
	}
	field := func(path string) v1.EnvVar {
		return v1.EnvVar{Name: "F", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}
	}
	secret := func(optional *bool) v1.EnvVar {
		return v1.EnvVar{Name: "S", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "s"}, Optional: optional}}}
	}
	configMap := func(optional *bool) v1.EnvVar {
		return v1.EnvVar{Name: "C", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "c"}, Optional: optional}}}
	}
	from := func(f v1.EnvFromSource) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{f} }
	}
	for _, tc := range []struct {
		rule   string
		change func(*v1.Pod)
		want   string // "!" and a part of the error
	}{
		{"11.1 declared order, last value", env(v1.EnvVar{Name: "B", Value: "1"}, v1.EnvVar{Name: "A", Value: "2"}, v1.EnvVar{Name: "B", Value: "3"}), "B=3 A=2"},
		{"11.3 neither", env(v1.EnvVar{Name: "A"}), "A="},
		{"11.3 value wins", env(v1.EnvVar{Name: "A", Value: "x", ValueFrom: &v1.EnvVarSource{}}), "A=x"},
		{"11.4 edge 19: later is unknown", env(v1.EnvVar{Name: "A", Value: "$(B)"}, v1.EnvVar{Name: "B", Value: "x"}), "A=$(B) B=x"},
		{"11.4 earlier is known", env(v1.EnvVar{Name: "B", Value: "x"}, v1.EnvVar{Name: "A", Value: "$(B)$$(B)"}), "B=x A=x$(B)"},
		{"11.5 name", env(field("metadata.name")), "F=web"},
		{"11.5 namespace", env(field("metadata.namespace")), "F=ns"},
		{"11.5 uid", env(field("metadata.uid")), "F=u"},
		{"11.5 label", env(field("metadata.labels['k']")), "F=v"},
		{"11.5 label with prefix", env(field("metadata.labels['x.io/Y']")), "F=z"},
		{"11.5 annotation", env(field("metadata.annotations['Note']")), "F=n"},
		{"11.5 missing label", env(field("metadata.labels['none']")), "F="},
		{"11.5 node", env(field("spec.nodeName")), "F=node1"},
		{"11.5 service account", env(field("spec.serviceAccountName")), "F=sa"},
		{"11.5 host", env(field("status.hostIP")), "F=1.1.1.1"},
		{"11.5 hosts", env(field("status.hostIPs")), "F=1.1.1.1,::1"},
		{"11.5 pod", env(field("status.podIP")), "F=10.0.0.1"},
		{"11.5 pods", env(field("status.podIPs")), "F=10.0.0.1,fd00::1"},
		{"11.5 unknown", env(field("status.phase")), "!status.phase"},
		{"11.5 broken key", env(field("metadata.labels['a b']")), "!labels"},
		{"11.2 secret", env(secret(nil)), "!secret s: not found"},
		{"11.2 optional secret", env(secret(ptr.To(true)), v1.EnvVar{Name: "A", Value: "x"}), "A=x"},
		{"11.2 config map", env(configMap(ptr.To(false))), "!config map c: not found"},
		{"11.2 optional config map", env(configMap(ptr.To(true))), ""},
		{"11.2 envFrom secret", from(v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "s"}}}), "!secret s: not found"},
		{"11.2 envFrom config map", from(v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "c"}}}), "!config map c: not found"},
		{"11.2 envFrom optional", from(v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{Optional: ptr.To(true)}}), ""},
		{"no source", env(v1.EnvVar{Name: "A", ValueFrom: &v1.EnvVarSource{}}), "!names no source"},
		{"bad name", env(v1.EnvVar{Name: "A=B"}), "!not a usable name"},
		{"zero byte", env(v1.EnvVar{Name: "A", Value: "a\x00b"}), "!zero byte"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, err := environment(t, tc.change)
			if part, bad := strings.CutPrefix(tc.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, err %v; want an error with %q", got, err, part)
				}
			} else if err != nil || got != tc.want {
				t.Errorf("got %q, err %v; want %q", got, err, tc.want)
			}
		})
	}
}

// spec/runtime.md 11.6.
func TestResourceFields(t *testing.T) {
	for _, tc := range []struct {
		field, divisor, container string
		r                         v1.ResourceRequirements
		pod                       *v1.ResourceRequirements
		want                      string
	}{
		{field: "limits.cpu", r: requirements("", "1500m", "", ""), want: "2"},
		{field: "limits.cpu", divisor: "1m", r: requirements("", "1500m", "", ""), want: "1500"},
		{field: "limits.cpu", divisor: "1k", r: requirements("", "1500m", "", ""), want: "1"},
		{field: "requests.cpu", divisor: "1m", r: requirements("250m", "", "", ""), want: "250"},
		{field: "requests.cpu", want: "0"},
		{field: "limits.memory", r: requirements("", "", "", "64Mi"), want: "67108864"},
		{field: "limits.memory", divisor: "1Mi", r: requirements("", "", "", "65000k"), want: "62"},
		{field: "limits.cpu", want: "8"},
		{field: "limits.memory", divisor: "1Gi", want: "16"},
		{field: "limits.memory", divisor: "1Mi", pod: ptr.To(requirements("", "", "", "1Gi")), want: "1024"},
		{field: "limits.ephemeral-storage", want: "!"},
		{field: "limits.hugepages-2Mi", want: "0"},
		{field: "limits.cpu", container: "other", want: "3"},
		{field: "limits.cpu", container: "none", want: "!"},
		{field: "limits.bananas", want: "!"},
		{field: "cpu", want: "!"},
		{field: "limits.cpu", divisor: "-1", want: "!"},
		{field: "limits.cpu", divisor: "10E", r: requirements("", "1500m", "", ""), want: "1"}, // amounts beyond 64 bits
		{field: "limits.memory", divisor: "10E", r: requirements("", "", "", "1Gi"), want: "1"},
		{field: "limits.cpu", divisor: "1m", r: requirements("", "10E", "", ""), want: "9223372036854775807"},
		{field: "limits.memory", r: requirements("", "", "", "10E"), want: "9223372036854775807"},
	} {
		got, err := environment(t, func(p *v1.Pod) {
			p.Spec.Resources = tc.pod
			p.Spec.InitContainers = []v1.Container{{Name: "other", Resources: requirements("", "3", "", "")}}
			ref := &v1.ResourceFieldSelector{Resource: tc.field, ContainerName: tc.container}
			if tc.divisor != "" {
				ref.Divisor = resource.MustParse(tc.divisor)
			}
			c := &p.Spec.Containers[0]
			c.Resources, c.Env = tc.r, []v1.EnvVar{{Name: "R", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: ref}}}
		})
		if tc.want == "!" && err == nil || tc.want != "!" && (err != nil || got != "R="+tc.want) {
			t.Errorf("11.6 %s / %q of %q: %s, err %v; want %s", tc.field, tc.divisor, tc.container, got, err, tc.want)
		}
	}
}

func build(t *testing.T, pod *v1.Pod, change ...func(*criconfig.ContainerInput)) (*runtimeapi.ContainerConfig, error) {
	t.Helper()
	c := &pod.Spec.Containers[0]
	e, err := criconfig.NewEnvironment(criconfig.EnvInput{Pod: pod, Container: c})
	if err != nil {
		t.Fatal(err)
	}
	in := criconfig.ContainerInput{
		Described: meta.Described{Pod: pod, Container: c, Kind: meta.App, RestartCount: 2},
		Node:      node, Environment: e, ImageRef: "sha256:x",
	}
	for _, ch := range change {
		ch(&in)
	}
	return criconfig.Container(in)
}

// spec/runtime.md 8, 8.1, 18.1, 2.4.
func TestContainerConfigFollowsItsDefinition(t *testing.T) {
	pod := newPod(func(p *v1.Pod) {
		c := &p.Spec.Containers[0]
		c.Command, c.Args = []string{"sh", "$(A)"}, []string{"$(B)", "$$(A)"}
		c.Env = []v1.EnvVar{{Name: "A", Value: "1"}}
		c.WorkingDir, c.TTY, c.Stdin, c.StdinOnce = "/w", true, true, true
		c.Lifecycle = &v1.Lifecycle{StopSignal: ptr.To(v1.Signal("SIGRTMIN+3"))}
	})
	config, err := build(t, pod)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Command, []string{"sh", "1"}) || !slices.Equal(config.Args, []string{"$(B)", "$(A)"}) {
		t.Errorf("8.1: command %q, args %q", config.Command, config.Args)
	}
	if config.StopSignal != runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3 {
		t.Errorf("8.1: signal %v", config.StopSignal)
	}
	if config.LogPath != "c/2.log" || config.Metadata.Attempt != 2 || config.Image.Image != "sha256:x" || config.Image.UserSpecifiedImage != "i" {
		t.Errorf("2.4, 8, 18.1: %v", config)
	}
	if config.WorkingDir != "/w" || !config.Tty || !config.Stdin || !config.StdinOnce {
		t.Errorf("8.1: %v", config)
	}
	pod.Spec.Containers[0].Lifecycle.StopSignal = ptr.To(v1.Signal("SIGNONE"))
	if _, err := build(t, pod); err == nil {
		t.Error("8.1: unknown signal is accepted")
	}
	config, err = build(t, newPod(), func(in *criconfig.ContainerInput) { in.TargetID = "t" })
	if ns := config.GetLinux().GetSecurityContext().GetNamespaceOptions(); err != nil || ns.Pid != runtimeapi.NamespaceMode_TARGET || ns.TargetId != "t" {
		t.Errorf("3.4: target %v, err %v", ns, err)
	}
}

// oldAppArmor is the string that older runtimes read.
func oldAppArmor(c *runtimeapi.LinuxContainerSecurityContext) string {
	//lint:ignore SA1019 it has to be sent beside the new field
	return c.GetApparmorProfile()
}

// spec/runtime.md 14.
func TestContainerSecurityWinsOverThePods(t *testing.T) {
	pod := func(psc *v1.PodSecurityContext, sc *v1.SecurityContext) *v1.Pod {
		return newPod(func(p *v1.Pod) { p.Spec.SecurityContext, p.Spec.Containers[0].SecurityContext = psc, sc })
	}
	user := func(uid *int64, name string) func(*criconfig.ContainerInput) {
		return func(in *criconfig.ContainerInput) { in.ImageUser = criconfig.ImageUser{UID: uid, Name: name} }
	}
	type context = runtimeapi.LinuxContainerSecurityContext
	nonRoot := ptr.To(true)
	for _, tc := range []struct {
		rule string
		pod  *v1.Pod
		user func(*criconfig.ContainerInput)
		ok   func(*context) bool // nil: an error
	}{
		{"14.1 container wins", pod(&v1.PodSecurityContext{RunAsUser: ptr.To[int64](1), RunAsGroup: ptr.To[int64](2)}, &v1.SecurityContext{RunAsUser: ptr.To[int64](3)}), user(nil, ""), func(c *context) bool { return c.RunAsUser.GetValue() == 3 && c.RunAsGroup.GetValue() == 2 }},
		{"14.2 image uid", pod(nil, nil), user(ptr.To[int64](9), ""), func(c *context) bool { return c.RunAsUser.GetValue() == 9 }},
		{"14.2 image name", pod(nil, nil), user(nil, "web"), func(c *context) bool { return c.RunAsUser == nil && c.RunAsUsername == "web" }},
		{"14.2 nothing", pod(nil, nil), user(nil, ""), func(c *context) bool { return c.RunAsUser != nil && c.RunAsUser.GetValue() == 0 }},
		{"14.2 image name that is no text", pod(nil, nil), user(nil, "\xa5"), nil},
		{"14.2 runAsUser beside a name that is no text", pod(&v1.PodSecurityContext{RunAsUser: ptr.To[int64](7)}, nil), user(nil, "\xa5"), func(c *context) bool { return c.RunAsUser.GetValue() == 7 }},
		{"14.3 user 0", pod(&v1.PodSecurityContext{RunAsNonRoot: nonRoot, RunAsUser: ptr.To[int64](0)}, nil), user(nil, ""), nil},
		{"14.3 user 1", pod(&v1.PodSecurityContext{RunAsNonRoot: nonRoot, RunAsUser: ptr.To[int64](1)}, nil), user(nil, ""), func(c *context) bool { return c.RunAsUser.GetValue() == 1 }},
		{"14.3 image name", pod(nil, &v1.SecurityContext{RunAsNonRoot: nonRoot}), user(nil, "web"), nil},
		{"14.3 image uid 0", pod(nil, &v1.SecurityContext{RunAsNonRoot: nonRoot}), user(ptr.To[int64](0), ""), nil},
		{"14.3 image uid 5", pod(nil, &v1.SecurityContext{RunAsNonRoot: nonRoot}), user(ptr.To[int64](5), ""), func(c *context) bool { return c.RunAsUser.GetValue() == 5 }},
		{"14.3 negative uid", pod(nil, &v1.SecurityContext{RunAsNonRoot: nonRoot}), user(ptr.To[int64](-5), ""), nil},
		{"14.3 nothing", pod(nil, &v1.SecurityContext{RunAsNonRoot: nonRoot}), user(nil, ""), nil},
		{"14.3 container says no", pod(&v1.PodSecurityContext{RunAsNonRoot: nonRoot}, &v1.SecurityContext{RunAsNonRoot: ptr.To(false)}), user(nil, ""), func(*context) bool { return true }},
		{"14.4 unset", pod(nil, nil), user(nil, ""), func(c *context) bool { return !c.NoNewPrivs }},
		{"14.4 false", pod(nil, &v1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false)}), user(nil, ""), func(c *context) bool { return c.NoNewPrivs }},
		{"14.5 default", pod(nil, nil), user(nil, ""), func(c *context) bool { return c.Seccomp.ProfileType == runtimeapi.SecurityProfile_Unconfined }},
		{"14.5 node default", pod(nil, nil), func(in *criconfig.ContainerInput) { in.Node.SeccompDefault = true }, func(c *context) bool { return c.Seccomp.ProfileType == runtimeapi.SecurityProfile_RuntimeDefault }},
		{"14.5 pod", pod(&v1.PodSecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr.To("a/b.json")}}, nil), user(nil, ""), func(c *context) bool { return c.Seccomp.LocalhostRef == "/root/seccomp/a/b.json" }},
		{"14.5 no name", pod(nil, &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost}}), user(nil, ""), nil},
		{"14.5 leaves the folder", pod(nil, &v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr.To("../x")}}), user(nil, ""), nil},
		{"14.6 field", pod(&v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: ptr.To("p")}}, nil), user(nil, ""), func(c *context) bool { return oldAppArmor(c) == "localhost/p" && c.Apparmor.LocalhostRef == "p" }},
		{"14.6 none", pod(nil, nil), user(nil, ""), func(c *context) bool { return c.Apparmor == nil && oldAppArmor(c) == "" }},
		{"14.7 masked", pod(nil, nil), func(in *criconfig.ContainerInput) { in.Node.ThermalPaths = []string{"/sys/t"} }, func(c *context) bool {
			return len(c.MaskedPaths) == 13 && len(c.ReadonlyPaths) == 5 && slices.Contains(c.MaskedPaths, "/sys/t")
		}},
		{"14.7 unmasked", pod(nil, &v1.SecurityContext{ProcMount: ptr.To(v1.UnmaskedProcMount)}), user(nil, ""), func(c *context) bool { return len(c.MaskedPaths)+len(c.ReadonlyPaths) == 0 }},
		{"14.8 groups and capabilities", pod(&v1.PodSecurityContext{FSGroup: ptr.To[int64](1), SupplementalGroups: []int64{2}}, &v1.SecurityContext{Privileged: ptr.To(true), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}}}), user(nil, ""), func(c *context) bool {
			return fmt.Sprint(c.SupplementalGroups, c.Capabilities.AddCapabilities, c.Capabilities.DropCapabilities) == "[1 2] [NET_ADMIN] [ALL]" && c.Privileged && c.ReadonlyRootfs
		}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			config, err := build(t, tc.pod, tc.user)
			switch {
			case tc.ok == nil && err == nil:
				t.Error("no error")
			case tc.ok != nil && err != nil:
				t.Error(err)
			case tc.ok != nil && !tc.ok(config.Linux.SecurityContext):
				t.Errorf("got %v", config.Linux.SecurityContext)
			}
		})
	}
	old := newPod(func(p *v1.Pod) {
		p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}
		p.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
	})
	if config, err := build(t, old); err != nil || oldAppArmor(config.Linux.SecurityContext) != "unconfined" {
		t.Errorf("14.6: the annotation goes before the pod's field: %v, err %v", config, err)
	}
}

func requirements(cpuRequest, cpuLimit, memoryRequest, memoryLimit string) v1.ResourceRequirements {
	r := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	set := func(l v1.ResourceList, name v1.ResourceName, text string) {
		if text != "" {
			l[name] = resource.MustParse(text)
		}
	}
	set(r.Requests, v1.ResourceCPU, cpuRequest)
	set(r.Limits, v1.ResourceCPU, cpuLimit)
	set(r.Requests, v1.ResourceMemory, memoryRequest)
	set(r.Limits, v1.ResourceMemory, memoryLimit)
	return r
}

// spec/runtime.md 13.
func TestResourcesBecomeSharesQuotaAndLimit(t *testing.T) {
	for _, tc := range []struct{ milli, shares, quota int64 }{
		{0, 2, 0},
		{1, 2, 1000},
		{2, 2, 1000},
		{10, 10, 1000},
		{100, 102, 10000},
		{1000, 1024, 100000},
		{256000, 262144, 25600000},
		{300000, 262144, 30000000},
		{1 << 62, 262144, (1 << 40) * 100},
		{-5, 2, 0},
	} {
		if s, q := criconfig.Shares(tc.milli), criconfig.Quota(tc.milli, 100000); s != tc.shares || q != tc.quota {
			t.Errorf("13, edge 23: %d m: shares %d want %d, quota %d want %d", tc.milli, s, tc.shares, q, tc.quota)
		}
	}
	for _, tc := range []struct {
		name string
		r    v1.ResourceRequirements
		pod  *v1.ResourceRequirements
		want string // shares quota memory
	}{
		{"nothing", requirements("", "", "", ""), nil, "2 0 0"},
		{"limit is the request", requirements("", "500m", "", "64Mi"), nil, "512 50000 67108864"},
		{"zero request", requirements("0", "500m", "", ""), nil, "2 50000 0"},
		{"13.2 pod limit", requirements("250m", "", "", ""), ptr.To(requirements("", "1", "", "1Mi")), "256 100000 1048576"},
	} {
		pod := newPod(func(p *v1.Pod) { p.Spec.Containers[0].Resources, p.Spec.Resources = tc.r, tc.pod })
		got := criconfig.ContainerResources(pod, &pod.Spec.Containers[0], node)
		if s := fmt.Sprint(got.CpuShares, got.CpuQuota, got.MemoryLimitInBytes); s != tc.want {
			t.Errorf("13 %s: %s, want %s", tc.name, s, tc.want)
		}
	}
	v2 := node
	v2.CgroupV2, v2.CPUQuota = true, false
	pod := newPod(func(p *v1.Pod) { p.Spec.Containers[0].Resources = requirements("", "1", "", "") })
	got := criconfig.ContainerResources(pod, &pod.Spec.Containers[0], v2)
	if got.Unified["memory.oom.group"] != "1" || got.CpuQuota != 0 || got.CpuPeriod != 0 {
		t.Errorf("13: cgroup v2 without quota: %v", got)
	}
}

// spec/runtime.md 13.1.
func TestOOMScore(t *testing.T) {
	memory := func(request string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].Resources = requirements("1m", "", request, "") }
	}
	for _, tc := range []struct {
		name   string
		change func(*v1.Pod)
		want   int64
	}{
		{"best effort", func(*v1.Pod) {}, 1000},
		{"guaranteed", func(p *v1.Pod) { p.Spec.Containers[0].Resources = requirements("", "1", "", "1Mi") }, -997},
		{"critical", func(p *v1.Pod) { p.Spec.Priority = ptr.To[int32](2000001000) }, -997},
		{"edge 24: all memory", memory("1000Mi"), 3},
		{"more than all", memory("9000Gi"), 3},
		{"edge 24: one byte", memory("1"), 999},
		{"none asked", memory(""), 999},
		{"a quarter", memory("250Mi"), 750},
		{"pod level share", func(p *v1.Pod) {
			memory("100Mi")(p)
			p.Spec.Resources = ptr.To(requirements("", "", "300Mi", ""))
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{})
		}, 800},
	} {
		pod := newPod(tc.change)
		if got := criconfig.OOMScoreAdj(pod, &pod.Spec.Containers[0], node.MemoryCapacity); got != tc.want {
			t.Errorf("13.1 %s: %d, want %d", tc.name, got, tc.want)
		}
	}
	pod := newPod(memory("500Mi"), func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Name: "s", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), Resources: requirements("", "", "1Mi", "")}}
	})
	if got := criconfig.OOMScoreAdj(pod, &pod.Spec.InitContainers[0], node.MemoryCapacity); got != 500 {
		t.Errorf("13.1: sidecar %d, want that of the smallest app, 500", got)
	}
}

// spec/runtime.md 3.10, 13.4.
func TestSandboxResources(t *testing.T) {
	pod := newPod(func(p *v1.Pod) {
		p.Spec.Containers = []v1.Container{{Resources: requirements("1", "1", "", "10Mi")}, {Resources: requirements("1", "1", "", "10Mi")}}
		p.Spec.InitContainers = []v1.Container{
			{Resources: requirements("1", "1", "", "1Mi")},
			{RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), Resources: requirements("1", "1", "", "5Mi")},
			{Resources: requirements("4", "4", "", "1Mi")},
		}
		p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}
	})
	config, err := criconfig.Sandbox(criconfig.SandboxInput{Pod: pod, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	// The third init container beside the sidecar is the peak of CPU.
	got, over := config.Linux.Resources, config.Linux.Overhead
	if d := cmp.Diff([]int64{5120, 500000, 25 << 20, 512, 50000}, []int64{got.CpuShares, got.CpuQuota, got.MemoryLimitInBytes, over.CpuShares, over.CpuQuota}); d != "" {
		t.Errorf("13.4 (-want +got):\n%s", d)
	}
	pod.Spec.Containers[1].Resources.Limits = nil
	if config, err = criconfig.Sandbox(criconfig.SandboxInput{Pod: pod, Node: node}); err != nil || config.Linux.Resources.CpuQuota != 0 || config.Linux.Resources.MemoryLimitInBytes != 0 {
		t.Errorf("13.4: one container without limit: %v, err %v", config.Linux.Resources, err)
	}
}

func ExampleExpand() {
	fmt.Println(criconfig.Expand("$(GREETING), $$(GREETING)", func(name string) (string, bool) {
		return "hello", name == "GREETING"
	}))
	// Output: hello, $(GREETING) <nil>
}
