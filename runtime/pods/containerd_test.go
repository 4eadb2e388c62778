//go:build containerd

package pods_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/internal/containerdtest"
	"github.com/podwright/podwright/internal/patience"
	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/pods"
)

// real is a manager on a real containerd.
type real struct {
	t     *testing.T
	m     *pods.Manager
	view  *cri.View
	image string
	opts  pods.Options
	// client is the connection to it.
	client *cri.Client
	// instance is the runtime, endpoint its socket as a URL.
	instance *containerdtest.Instance
	endpoint string
}

// with is the same in a part of the test.
func (r *real) with(t *testing.T) *real {
	part := *r
	part.t = t
	return &part
}

func newReal(t *testing.T, opt ...func(*pods.Options)) *real {
	i := containerdtest.Start(t)
	client, err := cri.Dial(t.Context(), i.Endpoint, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	r := &real{
		t: t, image: i.Image, client: client, instance: i, endpoint: i.Endpoint,
		opts: pods.Options{RootDir: t.TempDir(), LogDir: t.TempDir(), OwnerID: "test"},
	}
	for _, o := range opt {
		o(&r.opts)
	}
	if r.m, err = pods.New(client, client, r.opts); err != nil {
		t.Fatal(err)
	}
	r.view = cri.NewView(client, cri.ViewOptions{OwnerID: "test"})
	return r
}

func (r *real) read(pod *v1.Pod) *runtime.PodStatus {
	r.t.Helper()
	status, err := r.view.Read(r.t.Context(), pod.UID)
	if err != nil {
		r.t.Fatal(err)
	}
	return status
}

// until syncs until the pod is as wanted.
func (r *real) until(pod *v1.Pod, what string, want func(*runtime.PodStatus) bool) *runtime.PodStatus {
	r.t.Helper()
	for end := time.Now().Add(patience.Of(30 * time.Second)); time.Now().Before(end); (clock.RealClock{}).Sleep(100 * time.Millisecond) {
		status := r.read(pod)
		if want(status) {
			return status
		}
		if result := r.m.SyncPod(r.t.Context(), pod, status); result.Err != nil && result.RetryAt.IsZero() {
			r.t.Logf("sync: %v", result.Err)
		}
	}
	r.t.Fatalf("not in time: %s; waiting: %v", what, r.m.WaitingReasons(pod.UID))
	return nil
}

func (r *real) container(name, script string) v1.Container {
	return v1.Container{
		Name: name, Image: r.image, ImagePullPolicy: v1.PullNever,
		Command: []string{"/bin/sh", "-c"}, Args: []string{script},
	}
}

// What manifests ask for is what processes on containerd see.
func TestContainerd(t *testing.T) {
	r := newReal(t)
	host := t.TempDir()
	if err := os.Chmod(host, 0o777); err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyOnFailure, DNSPolicy: v1.DNSDefault, Hostname: "myhost",
		TerminationGracePeriodSeconds: ptr.To[int64](20),
		SecurityContext:               &v1.PodSecurityContext{FSGroup: ptr.To[int64](2000)},
		Volumes: []v1.Volume{
			{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host, Type: ptr.To(v1.HostPathDirectory)}}},
		},
	}}
	pod.Name, pod.Namespace, pod.UID = "real", "default", "real-1"
	init := r.container("init", "echo from init > /scratch/sub/f; echo bye > /dev/termination-log")
	init.VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch/sub", SubPath: "a/b"}}
	side := r.container("side", "trap 'sleep 0.1; echo > /host/side; exit 0' TERM; while :; do sleep 0.1; done")
	side.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	side.VolumeMounts = []v1.VolumeMount{{Name: "host", MountPath: "/host"}}
	app := r.container("app", `{
		cat /scratch/a/b/f; hostname; id -u; id -G; echo $(IP) '$(POD)'; cat /proc/self/oom_score_adj
		touch /x 2>/dev/null || echo read-only; grep NoNewPrivs /proc/self/status; grep -c myhost /etc/hosts
	} > /host/app; trap 'sleep 0.1; echo > /host/app.end; exit 0' TERM; while :; do sleep 0.1; done`)
	app.VolumeMounts = []v1.VolumeMount{{Name: "host", MountPath: "/host"}, {Name: "scratch", MountPath: "/scratch", ReadOnly: true}}
	app.Env = []v1.EnvVar{
		{Name: "POD", Value: "$$-$(IP)-x"},
		{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
	}
	app.SecurityContext = &v1.SecurityContext{
		RunAsUser: ptr.To[int64](1234), ReadOnlyRootFilesystem: ptr.To(true), AllowPrivilegeEscalation: ptr.To(false),
	}
	app.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
	app.Lifecycle = &v1.Lifecycle{
		PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", "echo > /host/post"}}},
		PreStop:   &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", "echo > /host/pre"}}},
	}
	pod.Spec.InitContainers, pod.Spec.Containers = []v1.Container{init, side}, []v1.Container{app}

	status := r.until(pod, "app runs and has written", func(s *runtime.PodStatus) bool {
		text, _ := os.ReadFile(filepath.Join(host, "app"))
		return s.Container("app") != nil && s.Container("app").State == runtime.Running && strings.Count(string(text), "\n") >= 9
	})
	text, err := os.ReadFile(filepath.Join(host, "app"))
	if err != nil {
		t.Fatal(err)
	}
	ip := status.IPs[0]
	want := "from init\nmyhost\n1234\n0 2000\n" + ip + " $-$(IP)-x\n999\nread-only\nNoNewPrivs:\t1\n1\n"
	if string(text) != want {
		t.Errorf("the container sees\n%s\nwant\n%s", text, want)
	}
	if got := r.m.TerminationMessage(status.Container("init")); got != "bye\n" {
		t.Errorf("20: message %q", got)
	}
	if logs, err := filepath.Glob(filepath.Join(r.opts.LogDir, "default_real_real-1/*/0.log")); err != nil || len(logs) != 3 {
		t.Errorf("18.1: logs %v", logs)
	}
	if result := r.m.SyncPod(t.Context(), pod, status); len(result.Actions) != 0 {
		t.Errorf("not at rest: %+v", result)
	}

	if err := r.m.KillPod(t.Context(), pod, r.read(pod), nil); err != nil {
		t.Fatal(err)
	}
	appEnd, err1 := os.Stat(filepath.Join(host, "app.end"))
	sideEnd, err2 := os.Stat(filepath.Join(host, "side"))
	if err := errors.Join(err1, err2); err != nil {
		t.Error(err)
	} else if !appEnd.ModTime().Before(sideEnd.ModTime()) {
		t.Errorf("16.4: app ended at %s, sidecar at %s", appEnd.ModTime(), sideEnd.ModTime())
	}
	for _, hook := range []string{"post", "pre"} {
		if _, err := os.Stat(filepath.Join(host, hook)); err != nil {
			t.Errorf("15: hook: %v", err)
		}
	}
	report, err := collect(t.Context(), r.m, pods.GCPolicy{SourcesReady: true, ContentShouldBeRemoved: func(types.UID) bool { return true }})
	if err != nil || len(report.Containers) != 3 || len(report.Sandboxes) != 1 {
		t.Errorf("GC: %+v, err %v", report, err)
	}
	if err := errors.Join(r.m.RemovePod(t.Context(), pod.UID), r.m.RemovePodDir(t.Context(), pod.UID)); err != nil {
		t.Error(err)
	}
	if left, err := r.m.PodDirs(); err != nil || len(left) != 0 {
		t.Errorf("left %v, err %v", left, err)
	}
}
