package pods

import (
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// PodFolders returns the folders that hold the pod's own data on this node: its volumes
// and files, and its logs. They need not exist. The list is empty for a pod whose names
// could lead elsewhere.
func (m *Manager) PodFolders(pod *v1.Pod) []string {
	for _, name := range []string{string(pod.UID), pod.Namespace, pod.Name} {
		if podinfo.CheckName("", name) != nil {
			return nil
		}
	}
	return []string{filepath.Join(m.dirs.Path, string(pod.UID)), m.logDirectory(pod)}
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
	folders := m.PodFolders(pod)
	if folders == nil {
		return LocalStorage{}
	}
	out := LocalStorage{EmptyDirs: map[string]string{}, HostsFile: filepath.Join(folders[0], "etc-hosts"), Logs: map[string]string{}, Messages: map[string]string{}}
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
			out.Logs[c.spec.Name] = filepath.Join(folders[1], c.spec.Name)
			out.Messages[c.spec.Name] = filepath.Join(folders[0], "containers", c.spec.Name)
		}
	}
	return out
}
