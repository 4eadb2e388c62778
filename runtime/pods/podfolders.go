package pods

import (
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// PodFolders returns the folders that hold the pod's own data on this node: its volumes
// and files, and its logs. They need not exist. The list is empty for a pod whose names
// could lead elsewhere.
func (m *Manager) PodFolders(pod *v1.Pod) []string {
	for _, name := range []string{string(pod.UID), pod.Namespace, pod.Name} {
		if poddir.CheckName("", name) != nil {
			return nil
		}
	}
	return []string{filepath.Join(m.dirs.Path, string(pod.UID)), m.logDirectory(pod)}
}
