package pods

import (
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// PodFolders returns the folders that hold the pod's own data on this node: its volumes, its
// termination messages and its logs. They need not exist. The list is empty for a pod whose names
// could lead elsewhere. Held sub-paths are not in it: they show folders of the node, or the pod's once more.
func (m *Manager) PodFolders(pod *v1.Pod) []string {
	if !ownNames(pod) {
		return nil
	}
	dir := filepath.Join(m.dirs.Path, string(pod.UID))
	return []string{filepath.Join(dir, "volumes"), filepath.Join(dir, "containers"), m.logDirectory(pod)}
}

// ownNames reports whether paths made of the pod's names stay below its folders.
func ownNames(pod *v1.Pod) bool {
	for _, name := range []string{string(pod.UID), pod.Namespace, pod.Name} {
		if podinfo.CheckName("", name) != nil {
			return false
		}
	}
	return true
}

// LocalStorage says where a pod keeps what counts as its own ephemeral storage.
type LocalStorage struct {
	// EmptyDirs are the folders of the emptyDirs on the disk that the engine makes, by name.
	EmptyDirs map[string]string
	// HostsFile is the pod's hosts file.
	HostsFile string
	// Logs are the log folders of its containers, by name.
	Logs map[string]string
	// Messages are the folders of its containers' termination messages, by name.
	Messages map[string]string
}

// LocalStorage returns where the pod's ephemeral storage is, except for container layers,
// whether this process made it or an earlier one. The folders and files need not exist. It is
// empty for a pod whose names could lead elsewhere.
func (m *Manager) LocalStorage(pod *v1.Pod) LocalStorage {
	if !ownNames(pod) {
		return LocalStorage{}
	}
	dir, logs := filepath.Join(m.dirs.Path, string(pod.UID)), m.logDirectory(pod)
	out := LocalStorage{EmptyDirs: map[string]string{}, HostsFile: filepath.Join(dir, "etc-hosts"), Logs: map[string]string{}, Messages: map[string]string{}}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.Medium != v1.StorageMediumDefault || m.options.Volumes != nil && m.options.Volumes.Handles(pod, v) {
			continue
		}
		if path := m.dirs.VolumePath(pod.UID, poddir.EmptyDir, v.Name); path != "" {
			out.EmptyDirs[v.Name] = path
		}
	}
	for _, c := range containersOf(pod) {
		if podinfo.CheckName("", c.spec.Name) == nil {
			out.Logs[c.spec.Name] = filepath.Join(logs, c.spec.Name)
			out.Messages[c.spec.Name] = filepath.Join(dir, "containers", c.spec.Name)
		}
	}
	return out
}
