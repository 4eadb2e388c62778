//go:build containerd

package pods_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// What only some runtimes can do. Those that cannot report that, and the pod then says
// why it waits, which is tested too; the rest does not apply to them.

// handler is what the runtime says of its default handler.
func (r *real) handler() *runtimeapi.RuntimeHandlerFeatures {
	r.t.Helper()
	status, err := r.client.Status(r.t.Context(), false)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range status.GetRuntimeHandlers() {
		if h.GetName() == "" {
			return h.GetFeatures()
		}
	}
	return nil
}

func imageVolume(image string) v1.Volume {
	return v1.Volume{Name: "i", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: image, PullPolicy: v1.PullNever}}}
}

// spec/runtime.md 9.10: the files of an image, whole and by sub-path, read-only; a sub-path
// that the image lacks is named. A runtime that cannot mount images is named as the cause.
func TestContainerdImageVolume(t *testing.T) {
	r := newReal(t)
	pod := &v1.Pod{Spec: v1.PodSpec{
		DNSPolicy:  v1.DNSDefault,
		Containers: []v1.Container{r.container("app", "sleep 100")},
		Volumes:    []v1.Volume{imageVolume(r.image)},
	}}
	pod.Name, pod.Namespace, pod.UID = "image", "default", "image"
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "i", MountPath: "/i"}}
	result := r.m.SyncPod(t.Context(), pod, r.read(pod))
	if got := r.m.WaitingReasons(pod.UID)["app"]; result.Err != nil {
		if got.Reason != "CreateContainerError" || !strings.Contains(got.Message, "image volume, which this runtime may not support") {
			t.Fatalf("waits for %+v, err %v", got, result.Err)
		}
		r.end(pod)
		t.Skipf("the runtime does not mount images: %s", got.Message)
	}
	r.end(pod)

	pod, got := r.runVolumes("files", "cmp /bin/busybox /i/bin/busybox && echo same; ls /b | head -n 1; touch /i/x || touch /b/x || echo read-only", func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, imageVolume(r.image))
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "i", MountPath: "/i"}, v1.VolumeMount{Name: "i", MountPath: "/b", SubPath: "bin"})
	})
	for _, want := range []string{"same\n", "[\n", "read-only\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("9.10: printed %q, want %q in it", got, want)
		}
	}
	r.end(pod)

	pod = &v1.Pod{Spec: v1.PodSpec{DNSPolicy: v1.DNSDefault, Containers: []v1.Container{r.container("app", "sleep 100")}, Volumes: []v1.Volume{imageVolume(r.image)}}}
	pod.Name, pod.Namespace, pod.UID = "lacks", "default", "lacks"
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "i", MountPath: "/i", SubPath: "no/such/folder"}}
	result = r.m.SyncPod(t.Context(), pod, r.read(pod))
	if got := r.m.WaitingReasons(pod.UID)["app"]; result.Err == nil || !strings.Contains(got.Message, `"i"`) ||
		!strings.Contains(got.Message, "no/such/folder") || strings.Contains(got.Message, "may not support") {
		t.Errorf("RT7: a sub-path that the image lacks: waits for %+v, err %v", got, result.Err)
	}
	r.end(pod)
}

// spec/runtime.md 12.3: what is mounted below a read-only volume is read-only too, if the
// runtime can do that. Otherwise a pod that insists does not start, and one that asks for
// it if possible has only the volume itself read-only.
func TestContainerdRecursiveReadOnly(t *testing.T) {
	r := newReal(t)
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	if err := errors.Join(os.Mkdir(below, 0o777), unix.Mount("podwright-test", below, "tmpfs", 0, "size=1m")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(below, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	const script = "touch /v/x && echo top written; touch /v/below/x && echo below written"
	with := func(mode *v1.RecursiveReadOnlyMode) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}})
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: mode})
		}
	}
	able := r.handler().GetRecursiveReadOnlyMounts()
	for name, mode := range map[string]*v1.RecursiveReadOnlyMode{
		"unset": nil, "disabled": ptr.To(v1.RecursiveReadOnlyDisabled), "if-possible": ptr.To(v1.RecursiveReadOnlyIfPossible),
	} {
		pod, got := r.runVolumes(types.UID("v-"+name), script, with(mode))
		if wantBelow := !able || name != "if-possible"; strings.Contains(got, "top written") || strings.Contains(got, "below written") != wantBelow {
			t.Errorf("12.3 %s: printed %q, below written %v", name, got, wantBelow)
		}
		r.end(pod)
	}
	if able {
		pod, got := r.runVolumes("v-enabled", script, with(ptr.To(v1.RecursiveReadOnlyEnabled)))
		if strings.Contains(got, "written") {
			t.Errorf("12.3 enabled: printed %q", got)
		}
		r.end(pod)
		return
	}
	pod := &v1.Pod{Spec: v1.PodSpec{DNSPolicy: v1.DNSDefault, Containers: []v1.Container{r.container("app", script)}}}
	pod.Name, pod.Namespace, pod.UID = "v-enabled", "default", "v-enabled"
	with(ptr.To(v1.RecursiveReadOnlyEnabled))(pod)
	if result := r.m.SyncPod(t.Context(), pod, r.read(pod)); result.Err == nil {
		t.Error("12.3: started although it insists on what the runtime cannot do")
	}
	r.end(pod)
	t.Skip("the runtime does not tell of recursive read-only mounts: pods that insist on them do not start")
}

// spec/runtime.md 3.7: root in the pod is a user of the node that owns nothing there, the
// pod writes its own volumes, and two pods have different users.
func TestContainerdUserNamespace(t *testing.T) {
	r := newReal(t)
	users := func(p *v1.Pod) { p.Spec.HostUsers = ptr.To(false) }
	if !r.handler().GetUserNamespaces() {
		pod := &v1.Pod{Spec: v1.PodSpec{DNSPolicy: v1.DNSDefault, Containers: []v1.Container{r.container("c", "true")}}}
		pod.Name, pod.Namespace, pod.UID = "users", "default", "users-1"
		users(pod)
		if result := r.m.SyncPod(t.Context(), pod, r.read(pod)); result.Err == nil || !strings.Contains(result.Err.Error(), "user namespaces") {
			t.Errorf("3.7: %v", result.Err)
		}
		t.Skip("the runtime does not tell of user namespaces: pods that want one do not start")
	}
	seen := map[string]bool{}
	for _, uid := range []string{"users-1", "users-2"} {
		_, got := r.runVolumes(types.UID(uid), `id -u; awk '{print $2, $3}' /proc/self/uid_map; touch /e/x && stat -c %u /e/x`, func(p *v1.Pod) {
			users(p)
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "e", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "e", MountPath: "/e"})
		})
		lines := strings.Split(got, "\n")
		if len(lines) < 3 || lines[0] != "0" || !strings.HasSuffix(lines[1], " 65536") || strings.HasPrefix(lines[1], "0 ") || lines[2] != "0" {
			t.Errorf("3.7 %s: printed %q", uid, got)
		}
		if seen[lines[1]] {
			t.Errorf("3.7: two pods are mapped to %s", lines[1])
		}
		seen[lines[1]] = true
	}
}
