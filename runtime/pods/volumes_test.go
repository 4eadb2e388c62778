package pods_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/pods"
)

// store is an ObjectGetter whose objects tests change.
type store struct {
	mu         sync.Mutex
	configMaps map[string]string // name: the text of its key "key"
	secrets    map[string]string
	err        error
}

func (s *store) GetConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	text, err := s.get(s.configMaps, name)
	return &v1.ConfigMap{Data: map[string]string{"key": text}}, err
}

func (s *store) GetSecret(_ context.Context, _, name string) (*v1.Secret, error) {
	text, err := s.get(s.secrets, name)
	return &v1.Secret{Data: map[string][]byte{"key": []byte(text)}}, err
}

func (s *store) get(m map[string]string, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := m[name]
	if !ok && s.err == nil {
		return "", runtime.ErrNotFound
	}
	return text, s.err
}

// disks is a VolumeManager for NFS volumes.
type disks struct {
	volume pods.MountedVolume
	err    error
	// torn has the pods whose volumes were torn down.
	torn       []types.UID
	tearErr    error
	mounted    []string
	mountedErr error
}

func (d *disks) Handles(_ *v1.Pod, v *v1.Volume) bool { return v.NFS != nil }

func (d *disks) SetUp(context.Context, *v1.Pod, *v1.Volume) (pods.MountedVolume, error) {
	return d.volume, d.err
}

func (d *disks) TearDown(_ context.Context, uid types.UID) error {
	d.torn = append(d.torn, uid)
	return d.tearErr
}

func (d *disks) Mounted(context.Context, types.UID) ([]string, error) { return d.mounted, d.mountedErr }

func emptyDirVolume(medium v1.StorageMedium, limit string) v1.VolumeSource {
	e := &v1.EmptyDirVolumeSource{Medium: medium}
	if limit != "" {
		e.SizeLimit = ptr.To(resource.MustParse(limit))
	}
	return v1.VolumeSource{EmptyDir: e}
}

func configMapVolume(name string) v1.VolumeSource {
	return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
}

var nfs = v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}}

// mounting adds a volume "v" to the pod, mounted by its first container at /v.
func mounting(source v1.VolumeSource, change ...func(*v1.VolumeMount)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "v", VolumeSource: source})
		vm := v1.VolumeMount{Name: "v", MountPath: "/v"}
		for _, c := range change {
			c(&vm)
		}
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, vm)
	}
}

// volumeWorld is a world that ends its mounts; it has a way to see the mount at
// /v of every container that was made.
func volumeWorld(t *testing.T, opt ...func(*pods.Options)) (w *world, at func() *runtimeapi.Mount) {
	t.Helper()
	var last *runtimeapi.Mount
	w = newWorld(t, func(l fake.Launch) fake.Script {
		for _, m := range l.Config.GetMounts() {
			if m.GetContainerPath() == "/v" {
				last = m
			}
		}
		return fake.Script{}
	}, opt...)
	w.endMounts()
	return w, func() *runtimeapi.Mount { return last }
}

// endMounts ends the mounts of all pods at the end of the test.
func (w *world) endMounts() {
	w.t.Cleanup(func() {
		uids, err := w.m.PodDirs()
		for _, uid := range uids {
			err = errors.Join(err, w.m.TearDownVolumes(context.WithoutCancel(w.t.Context()), uid))
		}
		if err != nil {
			w.t.Error(err)
		}
	})
}

// What each kind of volume and each field of a mount becomes (spec/runtime.md 12).
func TestVolumeMounts(t *testing.T) {
	host := t.TempDir()
	hostPath := v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}}
	disk := &disks{volume: pods.MountedVolume{HostPath: host}}
	both := &runtimeapi.StatusResponse{
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}}},
		Features:        &runtimeapi.RuntimeFeatures{MountOptions: true},
	}
	recursive := func(mode v1.RecursiveReadOnlyMode) func(*v1.VolumeMount) {
		return func(vm *v1.VolumeMount) { vm.ReadOnly, vm.RecursiveReadOnly = true, &mode }
	}
	propagation := func(mode v1.MountPropagationMode) func(*v1.VolumeMount) {
		return func(vm *v1.VolumeMount) { vm.MountPropagation = &mode }
	}
	options := func(list ...string) func(*v1.VolumeMount) {
		return func(vm *v1.VolumeMount) { vm.BindMountOptions = list }
	}
	for _, tc := range []struct {
		name   string
		change func(*v1.Pod)
		status *runtimeapi.StatusResponse
		want   string // of the mount; empty: it cannot be
		err    string
	}{
		{"hostPath", mounting(hostPath), nil, "host", ""},
		{"12.2 read-only", mounting(hostPath, func(vm *v1.VolumeMount) { vm.ReadOnly = true }), nil, "host ro", ""},
		{"12.2 from the host", mounting(hostPath, propagation(v1.MountPropagationHostToContainer)), nil, "host PROPAGATION_HOST_TO_CONTAINER", ""},
		{"12.2 both ways", mounting(hostPath, propagation(v1.MountPropagationBidirectional)), nil, "host PROPAGATION_BIDIRECTIONAL", ""},
		{"12.2 none", mounting(hostPath, propagation(v1.MountPropagationNone)), nil, "host", ""},
		{"12.2 unknown", mounting(hostPath, propagation("Sideways")), nil, "", `mountPropagation "Sideways" is unknown`},
		{"12.3 enabled", mounting(hostPath, recursive(v1.RecursiveReadOnlyEnabled)), both, "host ro rro", ""},
		{"12.3 unsupported", mounting(hostPath, recursive(v1.RecursiveReadOnlyEnabled)), &runtimeapi.StatusResponse{}, "", "the runtime does not support recursiveReadOnly"},
		{"12.3 if possible", mounting(hostPath, recursive(v1.RecursiveReadOnlyIfPossible)), both, "host ro rro", ""},
		{"12.3 if possible, and it is not", mounting(hostPath, recursive(v1.RecursiveReadOnlyIfPossible)), &runtimeapi.StatusResponse{}, "host ro", ""},
		{"12.3 disabled", mounting(hostPath, recursive(v1.RecursiveReadOnlyDisabled)), nil, "host ro", ""},
		{"12.3 unknown", mounting(hostPath, recursive("Perhaps")), both, "", `"Perhaps" is unknown`},
		{"12.3 writable", mounting(hostPath, recursive(v1.RecursiveReadOnlyEnabled), func(vm *v1.VolumeMount) { vm.ReadOnly = false }), both, "", "needs readOnly"},
		{"12.3 propagated", mounting(hostPath, recursive(v1.RecursiveReadOnlyEnabled), propagation(v1.MountPropagationHostToContainer)), both, "", "needs mountPropagation None"},
		{"12.3 options", mounting(hostPath, options("noexec", "nosuid")), both, "host noexec,nosuid", ""},
		{"12.3 options unsupported", mounting(hostPath, options("noexec")), &runtimeapi.StatusResponse{}, "", "not supported by the runtime"},
		{"12.3 option unknown", mounting(hostPath, options("suid")), both, "", `"suid" is none of`},
		{"a plug-in's", mounting(nfs), nil, "host", ""},
		{"image", mounting(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/data:1"}}), nil, "image pulled ro", ""},
		{"9.10 part of an image", mounting(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/data:1"}}, func(vm *v1.VolumeMount) { vm.SubPath = "a/b" }), nil, "image pulled ro a/b", ""},
		{"outside an image", mounting(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/data:1"}}, func(vm *v1.VolumeMount) { vm.SubPath = "../b" }), nil, "", "without '..'"},
		{"edge 20, 12.1: an empty variable", mounting(hostPath, func(vm *v1.VolumeMount) { vm.SubPathExpr = "$(EMPTY)" }), nil, "", `variable "EMPTY" has no value`},
		{"12.1: out of the volume", mounting(hostPath, func(vm *v1.VolumeMount) { vm.SubPath = "../x" }), nil, "", "without '..'"},
		{"12.1: no such volume", func(p *v1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "no", MountPath: "/v"}}
		}, nil, "", "no volume of this name"},
		{"12.1: two of a name", func(p *v1.Pod) { mounting(hostPath)(p); p.Spec.Volumes = append(p.Spec.Volumes, p.Spec.Volumes[0]) }, nil, "", "the same name"},
		{"a name with a slash", func(p *v1.Pod) {
			mounting(emptyDirVolume("", ""))(p)
			p.Spec.Volumes[0].Name, p.Spec.Containers[0].VolumeMounts[0].Name = "a/../../b", "a/../../b"
		}, nil, "", "contains a slash"},
		{"12.1: for reading only nothing is made", mounting(hostPath, func(vm *v1.VolumeMount) { vm.SubPath, vm.ReadOnly = "missing", true }), nil, "", "there is nothing"},
		{"edge 20, 12.1: a link out of the volume", mounting(hostPath, func(vm *v1.VolumeMount) { vm.SubPath = "out" }), nil, "", "leads outside the volume"},
		{"huge pages", mounting(emptyDirVolume("HugePages-2Mi", "")), nil, "", `medium "HugePages-2Mi" is not supported`},
		{"hostPath of another type", mounting(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host, Type: ptr.To(v1.HostPathFile)}}), nil, "", "is not a File"},
		{"no type", mounting(v1.VolumeSource{}), nil, "", "type no type"},
		{"iSCSI", mounting(v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{}}), nil, "", "type iscsi: the engine does not make volumes of this type"},
		{"a token", mounting(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "t"}}}}}), nil, "", "needs an API server"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_ = os.Symlink("/etc", filepath.Join(host, "out"))
				w, at := volumeWorld(t, func(o *pods.Options) { o.Volumes = disk })
				w.withStatus(tc.status, nil)
				pod := newPod(tc.change)
				pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "EMPTY"}}
				pod.Spec.Containers = append(pod.Spec.Containers, container("other"))
				r := w.sync(pod)
				if len(starts(r)) != 2 || starts(r)[1].Err != nil {
					t.Fatalf("a container that does not use the volume suffers: %+v", starts(r))
				}
				if tc.want == "" {
					reason := w.m.WaitingReasons(pod.UID)["app"]
					want := "CreateContainerConfigError"
					if w.events.has("Warning FailedMount") {
						want = "ContainerCreating"
					}
					if reason.Reason != want || !strings.Contains(reason.Message, tc.err) {
						t.Errorf("waits for %+v, want %s and %q", reason, want, tc.err)
					}
					if strings.Contains(reason.Message, w.opts.RootDir) {
						t.Errorf("12.1: the message tells a path of the node: %s", reason.Message)
					}
					return
				}
				if got := describe(at(), host); got != tc.want {
					t.Errorf("mount %q, want %q", got, tc.want)
				}
			})
		})
	}
}

// spec/runtime.md 12.3: each part of a volume that is mounted gets the container's label, and what is mounted twice gets it once.
func TestPartsOfVolumesAreRelabelled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("sub-paths need root")
	}
	synctest.Test(t, func(t *testing.T) {
		w, _ := volumeWorld(t, func(o *pods.Options) { o.Machine = &pods.Machine{SELinux: true} })
		pod := newPod(mounting(emptyDirVolume("", ""), func(vm *v1.VolumeMount) { vm.SubPath = "a" }), func(p *v1.Pod) {
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "v", MountPath: "/w", SubPath: "b"},
				v1.VolumeMount{Name: "v", MountPath: "/x"}, v1.VolumeMount{Name: "v", MountPath: "/y"})
		})
		w.syncAll(pod)
		want := map[string]bool{"/v": true, "/w": true, "/x": true, "/y": false}
		for _, m := range w.lastContainer().GetConfig().GetMounts() {
			if relabel, ok := want[m.GetContainerPath()]; ok && m.GetSelinuxRelabel() != relabel {
				t.Errorf("12.3: %s is relabelled: %v", m.GetContainerPath(), !relabel)
			}
		}
	})
}

// describe writes a mount as a test can compare it.
func describe(m *runtimeapi.Mount, host string) string {
	out := []string{"host"}
	switch {
	case m.GetImage() != nil:
		out = []string{"image"}
		if strings.HasPrefix(m.GetImage().GetImage(), "sha256:") {
			out = append(out, "pulled")
		}
	case m.GetHostPath() != host:
		out = []string{m.GetHostPath()}
	}
	if m.GetReadonly() {
		out = append(out, "ro")
	}
	if m.GetRecursiveReadOnly() {
		out = append(out, "rro")
	}
	if m.GetPropagation() != 0 {
		out = append(out, m.GetPropagation().String())
	}
	if len(m.GetMountOptions()) > 0 {
		out = append(out, strings.Join(m.GetMountOptions(), ","))
	}
	if m.GetImageSubPath() != "" {
		out = append(out, m.GetImageSubPath())
	}
	return strings.Join(out, " ")
}

// A volume that cannot be made is an event that names it and its type, and the
// container starts once it can be made.
func TestFailedMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &disks{volume: pods.MountedVolume{HostPath: t.TempDir()}, err: errors.New("the server is away")}
		w, _ := volumeWorld(t, func(o *pods.Options) { o.Volumes = disk })
		pod := newPod(mounting(nfs))
		pod.Spec.InitContainers = []v1.Container{container("init")}
		pod.Spec.InitContainers[0].VolumeMounts = pod.Spec.Containers[0].VolumeMounts
		w.sync(pod)
		if got := w.m.WaitingReasons(pod.UID)["init"]; got.Reason != "PodInitializing" || got.Message != `volume "v": type nfs: the server is away` {
			t.Errorf("22.1: waits for %+v", got)
		}
		if want := `Warning FailedMount  MountVolume.SetUp failed for volume "v" of type nfs: the server is away`; !w.events.has(want) {
			t.Errorf("no event %q in %q", want, w.events.list())
		}
		disk.err = nil
		w.syncAll(pod)
		w.wantState(pod, "init:running app:none")
	})
}

// What a plug-in says of its volume reaches the runtime: groups, read-only,
// devices; and what it says wrong does not.
func TestPluginVolume(t *testing.T) {
	for _, tc := range []struct {
		name   string
		volume pods.MountedVolume
		device bool
		want   string // of the container: groups and devices
		err    string
	}{
		{"14.8, 3.5 groups", pods.MountedVolume{HostPath: "/disk", Groups: []int64{30, 31}}, false, "[20 30 31 40] []", ""},
		{"12.6 device", pods.MountedVolume{DevicePath: "/dev/sdz"}, true, "[20 40] [/dev/sdz at /dev/x mrw]", ""},
		{"12.6 read-only", pods.MountedVolume{DevicePath: "/dev/sdz", ReadOnly: true}, true, "[20 40] [/dev/sdz at /dev/x r]", ""},
		{"12.6 a device that is mounted", pods.MountedVolume{DevicePath: "/dev/sdz"}, false, "", "it is a block device"},
		{"12.6 no device", pods.MountedVolume{HostPath: "/disk"}, true, "", "it is not a block device"},
		{"no path", pods.MountedVolume{}, false, "", "gives no path"},
		{"a relative path", pods.MountedVolume{HostPath: "../x"}, false, "", "not absolute"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := volumeWorld(t, func(o *pods.Options) { o.Volumes = &disks{volume: tc.volume} })
				pod := newPod(mounting(nfs), func(p *v1.Pod) {
					p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](20), SupplementalGroups: []int64{40}}
					if tc.device {
						p.Spec.Containers[0].VolumeMounts = nil
						p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "v", DevicePath: "/dev/x"}}
					}
				})
				w.sync(pod)
				if tc.want == "" {
					if reason := w.m.WaitingReasons(pod.UID)["app"]; !strings.Contains(reason.Message, tc.err) {
						t.Errorf("waits for %+v, want %q", reason, tc.err)
					}
					return
				}
				config := w.lastContainer().GetConfig()
				devices := []string{}
				for _, d := range config.GetDevices() {
					devices = append(devices, fmt.Sprintf("%s at %s %s", d.GetHostPath(), d.GetContainerPath(), d.GetPermissions()))
				}
				groups := config.GetLinux().GetSecurityContext().GetSupplementalGroups()
				if got := fmt.Sprint(groups, " ", devices); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
				if got := w.lastSandbox().GetConfig().GetLinux().GetSecurityContext().GetSupplementalGroups(); !slices.Equal(got, groups) {
					t.Errorf("3.5: the sandbox has groups %v", got)
				}
			})
		})
	}
}

// fsGroup is applied to a volume whose manager wants it, once.
func TestPluginFSGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("other groups need root")
	}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		disk := &disks{volume: pods.MountedVolume{HostPath: dir, FSGroup: true, SizeLimit: 5}}
		w, _ := volumeWorld(t, func(o *pods.Options) {
			o.Volumes = disk
		})
		pod := newPod(mounting(nfs), func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](20)}
		})
		w.syncAll(pod)
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&os.ModeSetgid == 0 {
			t.Errorf("14.8: mode %v, err %v", info.Mode(), err)
		}
		if got := w.m.MountedVolumes(pod.UID)["v"].SizeLimit; got != 5 {
			t.Errorf("limit %d", got)
		}
		// A start that fails leaves the volume as it is.
		disk.err = errors.New("no answer")
		pod.Spec.Containers[0].Image = "example.com/next:1"
		for range 3 {
			w.sync(pod)
		}
		if !strings.Contains(strings.Join(w.events.list(), "\n"), "no answer") {
			t.Error("no start has failed")
		}
		disk.err = nil
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		pod.Spec.Containers[0].Image = "example.com/new:1" // it starts again
		w.syncAll(pod)
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("applied again: mode %v, err %v", info.Mode(), err)
		}
	})
}

// spec/cleanup.md OD2, edge cases 10, 11: while a volume manager says that a volume may
// be mounted, or cannot say, the pod's folder stays.
func TestRemovePodDirAsksTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &disks{volume: pods.MountedVolume{HostPath: t.TempDir()}}
		w, _ := volumeWorld(t, func(o *pods.Options) { o.Volumes = disk })
		pod := newPod(mounting(nfs))
		w.syncAll(pod)
		if err := w.m.KillPod(t.Context(), pod, nil, nil); err != nil {
			t.Fatal(err)
		}
		var others []string // ND9
		for _, dir := range []string{"plugins", "plugins_registry", "pod-resources", "checkpoints"} {
			others = append(others, filepath.Join(w.opts.RootDir, dir, "uid-1"))
		}
		for _, path := range others {
			if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o750), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct {
			name    string
			prepare func()
			says    string
		}{
			{"HI3: it cannot tear down", func() { disk.tearErr = errors.New("busy") }, "busy"},
			{"OD2: still mounted", func() { disk.tearErr, disk.mounted = nil, []string{"v"} }, "volumes v are still mounted"},
			{"edge 11: it does not know", func() { disk.mounted, disk.mountedErr = nil, errors.New("no idea") }, "no idea"},
		} {
			step.prepare()
			err := w.m.RemovePodDir(t.Context(), pod.UID)
			if err == nil || !strings.Contains(err.Error(), step.says) {
				t.Errorf("%s: err %v", step.name, err)
			}
			if rule := pods.RemovalRule(err); rule != "OD2" {
				t.Errorf("%s: operators read the rule %q for %v", step.name, rule, err)
			}
			if dirs, err := w.m.PodDirs(); err != nil || len(dirs) != 1 {
				t.Errorf("%s: OD5: folders %v, err %v", step.name, dirs, err)
			}
		}
		disk.mountedErr = nil
		if err := errors.Join(w.m.RemovePod(t.Context(), pod.UID), w.m.RemovePodDir(t.Context(), pod.UID)); err != nil {
			t.Error(err)
		}
		if dirs, err := w.m.PodDirs(); err != nil || len(dirs) != 0 || !slices.Contains(disk.torn, pod.UID) {
			t.Errorf("OD7: folders %v, err %v, torn down %v", dirs, err, disk.torn)
		}
		for _, path := range others {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("ND9: %v", err)
			}
		}
	})
}
