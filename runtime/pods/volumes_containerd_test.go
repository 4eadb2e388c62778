//go:build containerd

package pods_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/pods"
)

// runVolumes runs a pod of one container with these volumes and returns what it
// printed to /out, a folder of the node.
func (r *real) runVolumes(uid types.UID, script string, change func(*v1.Pod)) (pod *v1.Pod, printed string) {
	r.t.Helper()
	out := r.t.TempDir()
	if err := os.Chmod(out, 0o777); err != nil {
		r.t.Fatal(err)
	}
	pod = &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyNever, DNSPolicy: v1.DNSDefault,
		Volumes: []v1.Volume{{Name: "out", VolumeSource: v1.VolumeSource{
			HostPath: &v1.HostPathVolumeSource{Path: out, Type: ptr.To(v1.HostPathDirectory)},
		}}},
	}}
	pod.Name, pod.Namespace, pod.UID = string(uid), "default", uid
	c := r.container("app", "{ "+script+"; } > /out/text 2>&1")
	c.VolumeMounts = []v1.VolumeMount{{Name: "out", MountPath: "/out"}}
	pod.Spec.Containers = []v1.Container{c}
	change(pod)
	r.until(pod, "the container has ended", func(s *runtime.PodStatus) bool {
		c := s.Container("app")
		return c != nil && c.State == runtime.Exited
	})
	text, err := os.ReadFile(filepath.Join(out, "text"))
	if err != nil {
		r.t.Fatal(err)
	}
	return pod, string(text)
}

// end stops the pod and proves that nothing of it is left on the node.
func (r *real) end(pod *v1.Pod) {
	r.t.Helper()
	ctx := r.t.Context()
	err := errors.Join(r.m.KillPod(ctx, pod, r.read(pod), ptr.To[int64](1)), r.m.TearDownVolumes(ctx, pod.UID),
		r.m.RemovePod(ctx, pod.UID), r.m.RemovePodDir(ctx, pod.UID))
	if err != nil {
		r.t.Error(err)
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(table), r.opts.RootDir+"/pods/"+string(pod.UID)) {
		r.t.Errorf("mounts are left, err %v", err)
	}
	if dirs, err := r.m.PodDirs(); err != nil || len(dirs) != 0 {
		r.t.Errorf("folders %v, err %v", dirs, err)
	}
}

// Volumes as processes on containerd see them: memory and its limit, fsGroup, sub-paths,
// read-only, files of config maps, secrets and the pod's fields.
func TestContainerdVolumes(t *testing.T) {
	r := newReal(t, func(o *pods.Options) {
		o.Objects = &store{configMaps: map[string]string{"c": "configured"}, secrets: map[string]string{"s": "hidden"}}
	})
	add := func(name string, source v1.VolumeSource, mounts ...v1.VolumeMount) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
			for _, vm := range mounts {
				vm.Name = name
				p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, vm)
			}
		}
	}
	at := func(path string) v1.VolumeMount { return v1.VolumeMount{MountPath: path} }
	group := func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](2000), RunAsUser: ptr.To[int64](1000)}
	}
	secret := v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s", DefaultMode: ptr.To[int32](0o400)}}
	projected := v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "deep/who", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}},
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "c"}}},
	}}}
	for i, tc := range []struct {
		name, script, want string
		changes            []func(*v1.Pod)
	}{
		{"memory limit", "df -k /m | tail -1 | awk '{print $1, $2}'; head -c 2000000 /dev/zero > /m/f || echo full", "tmpfs 1024\n", []func(*v1.Pod){add("m", emptyDirVolume(v1.StorageMediumMemory, "1Mi"), at("/m"))}},
		{"fsGroup", "id -G; touch /m/f /d/f && stat -c '%g %a' /m /d /m/f /d/f", "0 2000\n2000 2777", []func(*v1.Pod){
			group, add("m", emptyDirVolume(v1.StorageMediumMemory, "1Mi"), at("/m")), add("d", emptyDirVolume("", ""), at("/d")),
		}},
		{"sub-paths", "echo one > /a/f; cat /b/x/f /a/f; ls /b", "one\none\nx\n", []func(*v1.Pod){
			add("d", emptyDirVolume("", ""), v1.VolumeMount{MountPath: "/a", SubPath: "x"}, v1.VolumeMount{MountPath: "/b"}),
		}},
		{"sub-path of memory", "echo one > /a/f; cat /b/x/y/f", "one\n", []func(*v1.Pod){
			add("m", emptyDirVolume(v1.StorageMediumMemory, "1Mi"), v1.VolumeMount{MountPath: "/a", SubPath: "x/y"}, v1.VolumeMount{MountPath: "/b"}),
		}},
		{"config map and one file of it", "cat /c/key /etc/one; echo; readlink /c/key; touch /c/x", "configuredconfigured\n..data/key\n", []func(*v1.Pod){
			add("c", configMapVolume("c"), at("/c"), v1.VolumeMount{MountPath: "/etc/one", SubPath: "key"}),
		}},
		{"secret for a group", "cat /s/key; echo; stat -L -c '%g %a' /s/key; df /s | tail -1 | awk '{print $1}'", "hidden\n2000 440\ntmpfs\n", []func(*v1.Pod){group, add("s", secret, at("/s"))}},
		{"projected", "cat /p/deep/who /p/key", "pod-6configured", []func(*v1.Pod){add("p", projected, at("/p"))}},
		{"read-only", "touch /d/f && echo written", "touch: /d/f: Read-only file system\n", []func(*v1.Pod){
			add("d", emptyDirVolume("", ""), v1.VolumeMount{MountPath: "/d", ReadOnly: true}),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := r.with(t)
			pod, got := r.runVolumes(types.UID(fmt.Sprint("pod-", i)), tc.script, func(p *v1.Pod) {
				for _, c := range tc.changes {
					c(p)
				}
			})
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("printed %q, want %q", got, tc.want)
			}
			switch tc.name {
			case "fsGroup":
				if n := strings.Count(got, "\n2000 "); n != 4 || strings.Count(got, "2000 2777") != 2 {
					t.Errorf("printed %q", got)
				}
			case "memory limit":
				if !strings.HasSuffix(got, "full\n") {
					t.Errorf("printed %q", got)
				}
			}
			r.end(pod)
		})
	}
}

// turning is a store whose config map "c" gets another text once a file is there.
type turning struct {
	*store
	file string
}

func (c *turning) GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if _, err := os.Stat(c.file); err == nil {
		c.mu.Lock()
		c.configMaps["c"] = "changed"
		c.mu.Unlock()
	}
	return c.store.GetConfigMap(ctx, namespace, name)
}

// spec/runtime.md 12.1: volumes, files and the file for the last words inside volumes of files, before and after these change.
func TestContainerdMountsInsideVolumesOfFiles(t *testing.T) {
	objects := &turning{store: &store{configMaps: map[string]string{"c": "first"}, secrets: map[string]string{"s": "hidden"}}}
	r := newReal(t, func(o *pods.Options) { o.Objects = objects })
	objects.file = filepath.Join(r.opts.RootDir, "pods/nested/volumes/kubernetes.io~empty-dir/in-secret/x")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("node's "), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `look() { cat /c/key /c/s/key /c/a/file; echo $1 > /c/cache/f; cat /c/cache/f; touch /c/s/cache/x && ls /c/s/cache; }
		look one; until [ "$(cat /c/key)" = changed ]; do sleep 0.1; done; sleep 1; look two; echo bye > /c/end`
	pod, got := r.runVolumes("nested", script, func(p *v1.Pod) {
		add := func(name, path string, source v1.VolumeSource) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: path})
		}
		add("in-secret", "/c/s/cache", emptyDirVolume("", ""))
		add("file", "/c/a/file", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: file, Type: ptr.To(v1.HostPathFile)}})
		add("cache", "/c/cache", emptyDirVolume(v1.StorageMediumMemory, "1Mi"))
		add("s", "/c/s", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}})
		add("c", "/c", configMapVolume("c"))
		p.Spec.Containers[0].TerminationMessagePath = "/c/end"
	})
	if want := "firsthiddennode's one\nx\nchangedhiddennode's two\nx\n"; got != want {
		t.Errorf("12.1: printed %q, want %q", got, want)
	}
	if message := r.m.TerminationMessage(r.read(pod).Container("app")); message != "bye\n" {
		t.Errorf("12.1: last words %q", message)
	}
	r.end(pod)
}

// hostPath types as containerd and the node see them.
func TestContainerdHostPathTypes(t *testing.T) {
	r := newReal(t)
	dir := t.TempDir()
	pod, got := r.runVolumes("types", "ls -d /made /file; test -c /null && echo device; test -S /socket && echo socket", func(p *v1.Pod) {
		for path, v := range map[string]struct {
			host string
			kind v1.HostPathType
		}{
			"/made": {filepath.Join(dir, "made"), v1.HostPathDirectoryOrCreate}, "/file": {filepath.Join(dir, "file"), v1.HostPathFileOrCreate},
			"/null": {"/dev/null", v1.HostPathCharDev}, "/socket": {strings.TrimPrefix(r.endpoint, "unix://"), v1.HostPathSocket},
		} {
			name := "v" + strings.ReplaceAll(path, "/", "-")
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
				HostPath: &v1.HostPathVolumeSource{Path: v.host, Type: &v.kind},
			}})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: name, MountPath: path})
		}
	})
	if got != "/file\n/made\ndevice\nsocket\n" {
		t.Errorf("printed %q", got)
	}
	r.end(pod)
	for _, kept := range []string{"made", "file"} {
		if _, err := os.Stat(filepath.Join(dir, kept)); err != nil {
			t.Errorf("ND1: %v", err)
		}
	}
}
