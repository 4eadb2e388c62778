package pods_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// Files follow their objects with each sync, and keep what they had while their
// object cannot be read; a container that starts again then still finds them.
func TestConfigMapVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := &store{configMaps: map[string]string{"c": "one"}}
		w, at := volumeWorld(t, func(o *pods.Options) { o.Objects = objects })
		pod := newPod(mounting(configMapVolume("c")))
		w.syncAll(pod)
		look := func(want string) {
			t.Helper()
			if text, err := os.ReadFile(filepath.Join(at().GetHostPath(), "key")); err != nil || string(text) != want {
				t.Errorf("%q, err %v, want %q", text, err, want)
			}
		}
		if !at().GetReadonly() {
			t.Error("12.2: it can be written to")
		}
		look("one")
		objects.configMaps["c"] = "two"
		if r := w.sync(pod); r.Acted || r.Err != nil {
			t.Errorf("acted %v, err %v", r.Acted, r.Err)
		}
		look("two")
		delete(objects.configMaps, "c")
		w.restart()
		if err := os.Remove(filepath.Join(at().GetHostPath(), "key")); err != nil { // as a crash or a full disk leaves it
			t.Fatal(err)
		}
		w.sync(pod)
		look("two")
		pod.Spec.Containers[0].Image = "example.com/new:1"
		w.syncAll(pod)
		w.wantState(pod, "app:running")
		look("two")
		other := newPod(mounting(configMapVolume("c")), func(p *v1.Pod) { p.UID, p.Name = "uid-2", "other" })
		w.sync(other)
		if reason := w.m.WaitingReasons("uid-2")["app"]; !strings.Contains(reason.Message, "config map default/c") {
			t.Errorf("a new pod waits for %+v", reason)
		}
	})
}

// Secrets are in memory only, where that can be, and gone with the pod; no event and
// no message quotes them.
func TestSecretVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, at := volumeWorld(t, func(o *pods.Options) { o.Objects = &store{secrets: map[string]string{"s": "hidden"}} })
		pod := newPod(mounting(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}))
		w.syncAll(pod)
		path := at().GetHostPath()
		if text, err := os.ReadFile(filepath.Join(path, "key")); err != nil || string(text) != "hidden" {
			t.Errorf("%q, err %v", text, err)
		}
		if os.Geteuid() == 0 && !isTmpfs(t, path) {
			t.Error("the secret is on disk")
		}
		if strings.Contains(strings.Join(w.events.list(), "\n"), "hidden") {
			t.Error("an event tells the secret")
		}
		w.restart()
		for range 2 {
			if err := w.m.TearDownVolumes(t.Context(), pod.UID); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is still there: %v", err)
		}
	})
}

// emptyDir in memory: the smallest of its limit, the pod's memory and the node's
// bounds it, and it is found again after a restart of the agent.
func TestMemoryEmptyDir(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	limited := func(memory string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
		}
	}
	podLevel := func(p *v1.Pod) {
		p.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("3Mi")}}
	}
	init := func(p *v1.Pod) {
		limited("1Mi")(p)
		p.Spec.InitContainers = []v1.Container{sidecar("side"), container("init")}
		for i := range p.Spec.InitContainers {
			p.Spec.InitContainers[i].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("2Mi")}
		}
	}
	for name, tc := range map[string]struct {
		limit  string
		change func(*v1.Pod)
		want   int64
	}{
		"its limit":                {"1Mi", func(*v1.Pod) {}, 1 << 20},
		"the pod's limit":          {"", limited("2Mi"), 2 << 20},
		"the smaller":              {"4Mi", limited("2Mi"), 2 << 20},
		"the pod level's":          {"", podLevel, 3 << 20},
		"beside an init container": {"", init, 4 << 20},
		"the node's memory":        {"", func(*v1.Pod) {}, 64 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, at := volumeWorld(t, func(o *pods.Options) {
					o.Allocatable = func() v1.ResourceList { return v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")} }
				})
				pod := newPod(mounting(emptyDirVolume(v1.StorageMediumMemory, tc.limit)))
				tc.change(pod)
				for range 10 { // a regular init container runs on here
					if w.sync(pod); at() != nil || len(pod.Spec.InitContainers) > 0 {
						break
					}
				}
				if got := w.m.MountedVolumes(pod.UID)["v"]; got.SizeLimit != tc.want || !isTmpfs(t, got.HostPath) {
					t.Errorf("%+v, want %d bytes", got, tc.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w, at := volumeWorld(t)
		pod := newPod(mounting(emptyDirVolume(v1.StorageMediumMemory, "1Mi")))
		w.syncAll(pod)
		file := filepath.Join(at().GetHostPath(), "f")
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.restart()
		pod.Spec.Containers[0].Image = "example.com/new:1"
		w.syncAll(pod)
		if _, err := os.Stat(file); err != nil {
			t.Errorf("after a restart of the agent: %v", err)
		}
		if err := w.m.RemovePodDir(t.Context(), pod.UID); !errors.Is(err, pods.ErrPodRunning) || pods.RemovalRule(err) != "ND2" {
			t.Errorf("ND2: of a pod that runs: %v", err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("ND2: a pod that runs: %v", err)
		}
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.m.RemovePodDir(t.Context(), pod.UID); !errors.Is(err, pods.ErrContainersLeft) || pods.RemovalRule(err) != "ND2" {
			t.Errorf("IN16: of a pod with containers: %v", err)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("IN4: its memory is not given back: %v", err)
		}
		if err := errors.Join(w.m.RemovePod(t.Context(), pod.UID), w.m.RemovePodDir(t.Context(), pod.UID)); err != nil {
			t.Error(err)
		}
	})
}

// A negative limit, and a group that is not this process's to give.
func TestDiskEmptyDirLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := volumeWorld(t)
		pod := newPod(mounting(emptyDirVolume("", "1Gi")))
		w.syncAll(pod)
		if got := w.m.MountedVolumes(pod.UID)["v"].SizeLimit; got != 1<<30 {
			t.Errorf("limit %d", got)
		}
		bad := newPod(mounting(emptyDirVolume("", "-1")), func(p *v1.Pod) { p.UID, p.Name = "uid-2", "bad" })
		w.sync(bad)
		if reason := w.m.WaitingReasons("uid-2")["app"]; !strings.Contains(reason.Message, "negative") {
			t.Errorf("waits for %+v", reason)
		}
	})
}

// spec/runtime.md 12.1: a sub-path is a mount of its own while the runtime starts the
// container, and no longer, whether that works or not.
func TestSubPathIsHeld(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for name, fault := range map[string]fake.Fault{
		"it starts":             {},
		"it cannot be created":  {Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Err: runtime.ErrInvalid}},
		"it cannot be started":  {Match: fake.Match{Method: fake.StartContainer}, Effect: fake.Effect{Err: runtime.ErrInvalid}},
		"its user is forbidden": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, at := volumeWorld(t)
				pod := newPod(mounting(emptyDirVolume("", ""), func(vm *v1.VolumeMount) { vm.SubPathExpr = "$(SUB)/b" }))
				pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "SUB", Value: "a"}}
				if name == "its user is forbidden" {
					pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](0)}
				}
				w.fake.Inject(fault)
				heldAtStart := 0
				w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.StartContainer, Func: func(fake.Call) bool {
					heldAtStart = held(t, w)
					return false
				}}})
				w.sync(pod)
				if name == "it starts" {
					if heldAtStart != 1 || !strings.HasSuffix(at().GetHostPath(), "/uid-1/volume-subpaths/v/app/0") {
						t.Errorf("%d held at the start, mount %v", heldAtStart, at())
					}
					if _, err := os.Stat(filepath.Join(w.opts.RootDir, "pods/uid-1/volumes/kubernetes.io~empty-dir/v/a/b")); err != nil {
						t.Error(err)
					}
				}
				if n := held(t, w); n != 0 {
					t.Errorf("%d still held", n)
				}
			})
		})
	}
}

// held counts the sub-paths of the pod that are held.
func held(t *testing.T, w *world) int {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Error(err)
	}
	return strings.Count(string(table), " "+w.opts.RootDir+"/pods/uid-1/volume-subpaths/")
}

// RT7, 9.10: the runtime is told what the pod calls the image of a volume; its errors name
// the volume and that image, never an ID, and blame the runtime only where it may be to
// blame.
func TestImageVolumeIsNamedAsInThePod(t *testing.T) {
	const support, subPath = "may not support", `sub-path "etc/app" of its image cannot be mounted`
	for name, tc := range map[string]struct {
		err       func(ref string) error
		want, not string
	}{
		"not supported":     {func(string) error { return runtime.ErrInvalid }, `volume "v" is an image volume, which this runtime ` + support, subPath},
		"sub-path missing":  {func(ref string) error { return fmt.Errorf("mount image %s: stat /merged/etc/app: no such file", ref) }, `volume "v": ` + subPath, support},
		"another path":      {func(string) error { return errors.New("stat /merged/etc/application: no such file") }, support, subPath},
		"runtime down":      {func(string) error { return runtime.ErrUnavailable }, "unavailable", "volume"},
		"no answer in time": {func(string) error { return runtime.ErrDeadline }, "deadline", "volume"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := volumeWorld(t)
				var spec *runtimeapi.ImageSpec
				var ref string
				w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer, Func: func(c fake.Call) bool {
					r, _ := c.Request.(*runtimeapi.CreateContainerRequest)
					for _, m := range r.GetConfig().GetMounts() {
						if m.GetImage() != nil {
							spec, ref = m.GetImage(), m.GetImage().GetImage()
						}
					}
					return false
				}}})
				pod := newPod(mounting(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/data:1"}}), func(p *v1.Pod) {
					p.Spec.Containers[0].VolumeMounts[0].SubPath = "etc/app"
				})
				w.sync(pod)
				if spec.GetUserSpecifiedImage() != "example.com/data:1" || ref == "" || ref == "example.com/data:1" {
					t.Fatalf("the runtime is told %v", spec)
				}
				w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Err: tc.err(ref)}})
				other := newPod(mounting(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/data:1"}}), func(p *v1.Pod) {
					p.UID, p.Name = "uid-2", "other"
					p.Spec.Containers[0].VolumeMounts[0].SubPath = "etc/app"
				})
				w.sync(other)
				got := w.m.WaitingReasons("uid-2")["app"].Message
				if !strings.Contains(got, tc.want) || strings.Contains(got, tc.not) || strings.Contains(got, ref) {
					t.Errorf("told %q", got)
				}
			})
		})
	}
}

// 9.3, 9.10, IN15: once a pull secret comes that could not be read, the pull for an image volume does not wait.
func TestImageVolumeIsPulledOnceItsSecretComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := newShelf()
		w, _ := volumeWorld(t, func(o *pods.Options) { o.Objects = objects })
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage, Func: func(c fake.Call) bool {
			r := c.Request.(*runtimeapi.PullImageRequest)
			return r.GetImage().GetImage() == "example.com/data:1" && r.GetAuth().GetUsername() == ""
		}}, Effect: fake.Effect{Err: errors.New("authentication required")}})
		pod := newPod(mounting(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/data:1"}}), func(p *v1.Pod) {
			p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "late"}}
		})
		for range 600 { // the delay grows to 300 s
			w.sync(pod)
			pass(second)
		}
		w.wantState(pod, "app:none")
		objects.pullSecret("late", "p")
		w.syncAll(pod)
		w.wantState(pod, "app:running")
	})
}

// IN15, 9.10: while the image of a volume is pulled, the pod's other volumes get new content.
func TestVolumesAreRefreshedDuringPullOfAnImageVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := newShelf()
		objects.secret("s", map[string]string{"k": "old"})
		w, _ := volumeWorld(t, func(o *pods.Options) { o.Objects = objects })
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage, Func: func(c fake.Call) bool {
			return c.Request.(*runtimeapi.PullImageRequest).GetImage().GetImage() == "example.com/data:1"
		}}, Effect: fake.Effect{Delay: time.Hour}})
		pod := newPod(mounting(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/data:1"}}), func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{
				Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}},
			})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "secret", MountPath: "/secret"})
		})
		done := make(chan struct{})
		go func() { defer close(done); w.syncAll(pod) }()
		synctest.Wait()
		objects.secret("s", map[string]string{"k": "new"})
		w.m.Refresh(pod.UID)
		synctest.Wait()
		var content []byte
		err := filepath.WalkDir(w.opts.RootDir, func(path string, _ os.DirEntry, err error) error {
			if err == nil && filepath.Base(path) == "k" {
				content, err = os.ReadFile(path)
			}
			return err
		})
		if err != nil || string(content) != "new" {
			t.Errorf("during the pull the volume has %q, err %v", content, err)
		}
		<-done
		w.wantState(pod, "app:running")
	})
}

// 9.10: an image volume whose image cannot be pulled holds back the containers that
// mount it, with the same reasons as for an image.
func TestImageVolumeFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := volumeWorld(t)
		image := v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/data:1"}}
		pod := newPod(mounting(image), func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, container("other")) })
		remove := w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.PullImage, Func: func(c fake.Call) bool {
			r, ok := c.Request.(*runtimeapi.PullImageRequest)
			return ok && r.GetImage().GetImage() == "example.com/data:1"
		}}, Effect: fake.Effect{Err: errors.New("no route")}})
		for _, want := range []string{"ErrImagePull", "ImagePullBackOff"} {
			r := w.sync(pod)
			if got := w.m.WaitingReasons(pod.UID)["app"]; got.Reason != want || !strings.Contains(got.Message, `volume "v"`) {
				t.Errorf("waits for %+v, want %s", got, want)
			}
			if want == "ImagePullBackOff" && r.RetryAt.IsZero() {
				t.Error("no time for the next try")
			}
		}
		w.wantState(pod, "app:none other:running")
		remove()
		pass(600 * second)
		w.syncAll(pod)
		w.wantState(pod, "app:running other:running")
		never := newPod(mounting(image), func(p *v1.Pod) {
			p.UID, p.Name = "uid-2", "never"
			p.Spec.Volumes[0].Image = &v1.ImageVolumeSource{Reference: "example.com/absent:1", PullPolicy: v1.PullNever}
		})
		w.sync(never)
		if got := w.m.WaitingReasons("uid-2")["app"]; got.Reason != "ErrImageNeverPull" {
			t.Errorf("waits for %+v", got)
		}
		w.fake.Inject(fake.Fault{Match: fake.Match{Method: fake.CreateContainer}, Effect: fake.Effect{Err: runtime.ErrInvalid}})
		old := newPod(mounting(image), func(p *v1.Pod) { p.UID, p.Name = "uid-3", "old" })
		w.sync(old)
		if got := w.m.WaitingReasons("uid-3")["app"]; got.Reason != "CreateContainerError" || !strings.Contains(got.Message, "may not support") {
			t.Errorf("waits for %+v", got)
		}
	})
}

// TestEmptyDirMode: FD1. The folder has the mode of the manifest, on the disk and in memory; an
// impossible one keeps the container waiting.
func TestEmptyDirMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, at := volumeWorld(t)
		for mode, want := range map[int32]os.FileMode{0o750: 0o750, 0o1777: 0o777 | os.ModeSticky} {
			for _, medium := range []string{"", "Memory"} {
				if medium != "" && os.Geteuid() != 0 {
					continue // mounting needs root
				}
				uid := types.UID(fmt.Sprintf("uid-%o%s", mode, strings.ToLower(medium)))
				pod := newPod(mounting(emptyDirVolume(v1.StorageMedium(medium), "1Mi")), func(p *v1.Pod) {
					p.UID, p.Name, p.Spec.Volumes[0].EmptyDir.Mode = uid, string(uid), &mode
				})
				w.syncAll(pod)
				info, err := os.Stat(w.m.MountedVolumes(uid)["v"].HostPath)
				if err != nil || info.Mode() != want|os.ModeDir {
					t.Errorf("mode %#o %s: %v, err %v (%v)", mode, medium, info.Mode(), err, at().GetHostPath())
				}
				if err := w.m.TearDownVolumes(t.Context(), uid); err != nil {
					t.Error(err)
				}
			}
		}
		bad := newPod(mounting(emptyDirVolume("", "1Mi")), func(p *v1.Pod) {
			p.UID, p.Name, p.Spec.Volumes[0].EmptyDir.Mode = "uid-bad", "bad", ptr.To[int32](0o2777)
		})
		w.sync(bad)
		if reason := w.m.WaitingReasons("uid-bad")["app"]; !strings.Contains(reason.Message, "mode 02777 is not between") {
			t.Errorf("waits for %+v", reason)
		}
	})
}

// 12.1: a container whose sub-path of two parts is no file of the config map starts again after its end.
func TestMissingSubPathOfAConfigMap(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	synctest.Test(t, func(t *testing.T) {
		objects := newShelf()
		objects.configMaps["c"] = &v1.ConfigMap{Data: map[string]string{"k": "v"}}
		w, _ := volumeWorld(t, func(o *pods.Options) { o.Objects = objects })
		pod := newPod(mounting(configMapVolume("c"), func(vm *v1.VolumeMount) { vm.SubPath = "conf.d/extra" }))
		for range 2 {
			w.syncAll(pod)
			w.wantState(pod, "app:running")
			if err := w.fake.StopContainer(t.Context(), w.read(pod).Container("app").ID.ID, 0); err != nil {
				t.Fatal(err)
			}
			pass(600 * second)
		}
	})
}
