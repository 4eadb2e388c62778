package pods_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podwright/podwright/runtime/pods"
)

// nest mounts more volumes of the world's store below the pod's volume "v".
func nest(p *v1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "tmp", VolumeSource: emptyDirVolume("", "")},
		v1.Volume{Name: "other", VolumeSource: configMapVolume("other")})
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "tmp", MountPath: "/v/cache"},
		v1.VolumeMount{Name: "other", MountPath: "/v/sub/other"}, v1.VolumeMount{Name: "tmp", MountPath: "/v/cache/deep"},
		v1.VolumeMount{Name: "other", MountPath: "/v/sub/other/more"})
	c.TerminationMessagePath = "/v/end"
}

// spec/runtime.md 12.1: what is mounted inside a volume of files has its mount point there, and keeps it whatever becomes of the
// files, also one that an earlier agent's runtime has made.
func TestMountsInsideVolumesOfFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := &store{configMaps: map[string]string{"c": "1", "other": "x"}}
		w, at := volumeWorld(t, func(o *pods.Options) { o.Objects = objects })
		pod := newPod(mounting(configMapVolume("c")), nest)
		w.syncAll(pod)
		w.wantState(pod, "app:running")
		volume := at().GetHostPath()
		points := map[string]bool{"cache": true, "sub/other": true, "end": false, "../other/more": true}
		before := map[string]os.FileInfo{}
		look := func(when string) {
			t.Helper()
			for name, folder := range points {
				info, err := os.Lstat(filepath.Join(volume, name))
				if err != nil || info.IsDir() != folder {
					t.Errorf("12.1: %s: mount point %s: %v", when, name, err)
					continue
				}
				if old := before[name]; old != nil && !os.SameFile(old, info) {
					t.Errorf("12.1: %s: mount point %s was made again: what was mounted there is gone", when, name)
				}
				before[name] = info
			}
		}
		look("at the start")
		for _, folder := range []string{filepath.Join(volume, "cache"), filepath.Join(w.opts.RootDir, "pods/uid-1/volumes/kubernetes.io~empty-dir/tmp")} {
			if entries, err := os.ReadDir(folder); err != nil || len(entries) != 0 {
				t.Errorf("12.1: %s has %v, err %v: the runtime makes what it can make itself", folder, entries, err)
			}
		}
		w.sync(pod)
		look("nothing changed")
		objects.configMaps["c"] = "2"
		w.sync(pod)
		look("the files changed")
		delete(objects.configMaps, "c")
		w.sync(pod)
		look("the files cannot be read")
		objects.configMaps["c"] = "3"
		w.restart()
		w.sync(pod)
		look("the agent was restarted")
		if text, err := os.ReadFile(filepath.Join(volume, "key")); err != nil || string(text) != "3" {
			t.Errorf("the files are not brought up to date: %q, %v", text, err)
		}
		pod.Spec.Containers[0].Image = "example.com/new:1" // it starts again
		w.syncAll(pod)
		look("another start")
	})
}

// spec/runtime.md 12.1: a file that gets the name of a mount point later does not take its place, and one that was there first
// stays.
func TestFilesBesideMountPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := &store{configMaps: map[string]string{"c": "1", "other": "x"}}
		w, at := volumeWorld(t, func(o *pods.Options) { o.Objects = objects })
		source := configMapVolume("c")
		source.ConfigMap.Items = []v1.KeyToPath{{Key: "key", Path: "first"}}
		pod := newPod(mounting(source), nest)
		w.syncAll(pod)
		volume := at().GetHostPath()
		for _, name := range []string{"cache", "sub/file", "end"} {
			source.ConfigMap.Items[0].Path = name
			if r := w.sync(pod); r.Err != nil {
				t.Errorf("%s: %v", name, r.Err)
			}
			first, _, _ := strings.Cut(name, "/")
			if info, err := os.Lstat(filepath.Join(volume, first)); err != nil || info.Mode()&os.ModeSymlink != 0 {
				t.Errorf("12.1: a file has taken the place of the mount point %s, err %v", first, err)
			}
		}
		source.ConfigMap.Items[0].Path = "last"
		w.sync(pod)
		if text, err := os.ReadFile(filepath.Join(volume, "last")); err != nil || string(text) != "1" {
			t.Errorf("%q, err %v", text, err)
		}
	})
}

// spec/runtime.md 12.1: a file that a sub-path has waited for takes the place of the folder that was made for it, even if the
// container has mounted it at its own name.
func TestFileOfSubPathAtItsOwnName(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("sub-paths need root")
	}
	t.Run("subPath", func(t *testing.T) { fileOfSubPath(t, v1.VolumeMount{Name: "v", MountPath: "/v/late", SubPath: "late"}) })
	t.Run("subPathExpr", func(t *testing.T) {
		fileOfSubPath(t, v1.VolumeMount{Name: "v", MountPath: "/v/late", SubPathExpr: "$(LATE)"})
	})
}

// spec/runtime.md 12.1: the sub-path of an expression that is not this entry, or is not known, is a mount point that stays.
func TestSubPathElsewhereIsAMountPoint(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("sub-paths need root")
	}
	for _, env := range []v1.EnvVar{
		{Name: "MODE", Value: "prod"},
		{Name: "MODE", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, at := volumeWorld(t, func(o *pods.Options) { o.Objects = &store{configMaps: map[string]string{"c": "1"}} })
			source := configMapVolume("c")
			source.ConfigMap.Items = []v1.KeyToPath{{Key: "key", Path: "first"}}
			pod := newPod(mounting(source), func(p *v1.Pod) {
				c := &p.Spec.Containers[0]
				c.Env = append(c.Env, env)
				c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "v", MountPath: "/v/current", SubPathExpr: "$(MODE)"})
			})
			w.syncAll(pod)
			point := filepath.Join(at().GetHostPath(), "current")
			source.ConfigMap.Items[0].Path = "current"
			w.sync(pod)
			if info, err := os.Lstat(point); err != nil || !info.IsDir() {
				t.Errorf("12.1: the mount point of %v is gone: %v, %v", env, info, err)
			}
		})
	}
}

func fileOfSubPath(t *testing.T, mount v1.VolumeMount) {
	synctest.Test(t, func(t *testing.T) {
		w, at := volumeWorld(t, func(o *pods.Options) {
			o.Objects, o.Grants = &store{configMaps: map[string]string{"c": "1"}}, &warehouse{}
		})
		source := configMapVolume("c")
		source.ConfigMap.Items = []v1.KeyToPath{{Key: "key", Path: "first"}}
		pod := newPod(mounting(source), func(p *v1.Pod) {
			c := &p.Spec.Containers[0]
			c.Env = append(c.Env, v1.EnvVar{Name: "LATE", Value: "late"})
			c.VolumeMounts = append(c.VolumeMounts, mount)
		})
		w.syncAll(pod)
		late := filepath.Join(at().GetHostPath(), "late")
		if info, err := os.Lstat(late); err != nil || !info.IsDir() {
			t.Fatal(err)
		}
		source.ConfigMap.Items[0].Path = "late"
		w.sync(pod)
		if text, err := os.ReadFile(late); err != nil || string(text) != "1" {
			t.Errorf("12.1: %q, err %v", text, err)
		}
	})
}

// spec/runtime.md 12.1: where a mount point would not last, or cannot be, the container waits and says why.
func TestMountsThatCannotBeInside(t *testing.T) {
	for _, tc := range []struct{ name, file, at, want string }{
		{"in a folder of the files", "d/f", "/v/d/cache", `mount at "/v/d/cache", inside volume "v": d is replaced when the files change`},
		{"in a generation of the files", "f", "/v/..data/cache", "..data is replaced when the files change"},
		{"below a file", "f", "/v/f/cache", "not a directory"},
		{"on a folder of the files", "d/f", "/v/d", ""},
		{"on a file", "f", "/v/f", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := volumeWorld(t, func(o *pods.Options) { o.Objects = &store{configMaps: map[string]string{"c": "1"}} })
				source := configMapVolume("c")
				source.ConfigMap.Items = []v1.KeyToPath{{Key: "key", Path: tc.file}}
				pod := newPod(mounting(source), func(p *v1.Pod) {
					p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "tmp", VolumeSource: emptyDirVolume("", "")})
					c := &p.Spec.Containers[0]
					c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "tmp", MountPath: tc.at})
				})
				w.sync(pod)
				if tc.want == "" {
					w.wantState(pod, "app:running")
					return
				}
				reason := w.m.WaitingReasons(pod.UID)["app"]
				if reason.Reason != "CreateContainerConfigError" || !strings.Contains(reason.Message, tc.want) || strings.Contains(reason.Message, w.opts.RootDir) {
					t.Errorf("12.1: waits for %+v, want %q", reason, tc.want)
				}
			})
		})
	}
}

// spec/runtime.md 12.1: nothing is made in paths of the node, in other volumes and where mounts would reach the node.
func TestMountPointsOfOtherVolumesAreTheRuntimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := t.TempDir()
		w, at := volumeWorld(t, func(o *pods.Options) {
			o.Volumes = &disks{volume: pods.MountedVolume{HostPath: host, ReadOnly: true}}
			o.Objects = &store{configMaps: map[string]string{"c": "1"}}
		})
		pod := newPod(mounting(nfs), func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "tmp", VolumeSource: emptyDirVolume("", "")},
				v1.Volume{Name: "node", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}}},
				v1.Volume{Name: "both", VolumeSource: configMapVolume("c")})
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "tmp", MountPath: "/v/cache"},
				v1.VolumeMount{Name: "node", MountPath: "/n", ReadOnly: true}, v1.VolumeMount{Name: "tmp", MountPath: "/n/cache"},
				v1.VolumeMount{Name: "both", MountPath: "/b", MountPropagation: ptr.To(v1.MountPropagationBidirectional)},
				v1.VolumeMount{Name: "tmp", MountPath: "/b/cache"})
		})
		w.syncAll(pod)
		if entries, err := os.ReadDir(host); err != nil || len(entries) != 0 || at().GetHostPath() != host {
			t.Errorf("12.1: made %v, err %v", entries, err)
		}
		shared := filepath.Join(w.opts.RootDir, "pods/uid-1/volumes/kubernetes.io~configmap/both")
		if _, err := os.Lstat(filepath.Join(shared, "cache")); err == nil || len(w.config("app").GetMounts()) < 6 {
			t.Errorf("12.1: made a mount point that reaches the node, err %v", err)
		}
	})
}
