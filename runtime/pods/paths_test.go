package pods_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods"
)

func isTmpfs(t *testing.T, path string) bool {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		t.Fatal(err)
	}
	return s.Type == unix.TMPFS_MAGIC
}

// A manifest never makes the agent read or write outside its root and log folders,
// whatever its names and paths are; hostPath, which asks for it, left out.
func FuzzManifestPaths(f *testing.F) {
	for _, bad := range []string{"..", "../..", "a/b", "/", "/etc/passwd", ".", "\x00", "a\nb", "..data", "x/../../y", strings.Repeat("x/", 200)} {
		for field := range uint8(8) {
			f.Add(field, bad)
		}
	}
	f.Fuzz(func(t *testing.T, field uint8, text string) {
		base := t.TempDir()
		root, logs := filepath.Join(base, "root"), filepath.Join(base, "logs")
		precious := filepath.Join(base, "precious")
		if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, nil, func(o *pods.Options) {
			o.RootDir, o.LogDir = root, logs
			o.Objects = &store{configMaps: map[string]string{"c": "text"}}
		})
		pod := newPod(mounting(emptyDirVolume("", ""), func(vm *v1.VolumeMount) { vm.SubPath = "sub" }), func(p *v1.Pod) {
			source := configMapVolume("c")
			source.ConfigMap.Items = []v1.KeyToPath{{Key: "key", Path: "file"}}
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "c", VolumeSource: source})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "c", MountPath: "/c"})
		})
		targets := []*string{
			(*string)(&pod.UID), &pod.Name, &pod.Namespace, &pod.Spec.Containers[0].Name,
			&pod.Spec.Containers[0].VolumeMounts[0].SubPath, &pod.Spec.Volumes[1].ConfigMap.Items[0].Path,
			&pod.Spec.Containers[0].TerminationMessagePath, &pod.Spec.Volumes[0].Name,
		}
		*targets[int(field)%len(targets)] = text
		pod.Spec.Containers[0].VolumeMounts[0].Name = pod.Spec.Volumes[0].Name
		for range 3 {
			w.m.SyncPod(t.Context(), pod, nil)
		}
		for _, uid := range []types.UID{pod.UID, types.UID(text)} {
			_ = w.m.RemovePodDir(t.Context(), uid) // many are no UIDs
			_ = w.m.RemoveLogs(t.Context(), uid)
		}
		err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
			if inside := path == base || path == precious || path == root || path == logs ||
				strings.HasPrefix(path, root+"/") || strings.HasPrefix(path, logs+"/"); !inside {
				t.Errorf("field %d = %q made %s", field, text, path)
			}
			return err
		})
		if _, gone := os.Stat(precious); err != nil || gone != nil {
			t.Errorf("err %v, %v", err, gone)
		}
	})
}

// TestFoldersOfAPodHoldWhatIsItsOwn: a held sub-path (12.1) shows a folder of the node, which must not count as the pod's own use
// of the disk when the node evicts pods, or one of the pod's once more.
func TestFoldersOfAPodHoldWhatIsItsOwn(t *testing.T) {
	root := t.TempDir()
	w := newWorld(t, nil, func(o *pods.Options) { o.RootDir = root })
	pod := newPod()
	folders := w.m.PodFolders(pod)
	for path, counts := range map[string]bool{
		"volumes/kubernetes.io~empty-dir/cache/data": true, "containers/c/1": true, "volume-subpaths/host/c/0/data": false,
	} {
		within := slices.ContainsFunc(folders, func(dir string) bool {
			return strings.HasPrefix(filepath.Join(root, "pods", string(pod.UID), path), dir+"/")
		})
		if within != counts {
			t.Errorf("%s counts: %v, want %v; the folders are %v", path, within, counts, folders)
		}
	}
	pod.UID = "../x"
	if folders := w.m.PodFolders(pod); folders != nil {
		t.Errorf("a UID that leads elsewhere: %v", folders)
	}
}
