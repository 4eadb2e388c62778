package stats

import (
	"path/filepath"
	"strings"

	"github.com/podwright/podwright/internal/cgrouptree"
)

// hierarchy reads cgroups of either version. Its only state is a buffer: use it from one goroutine.
type hierarchy struct {
	cgrouptree.Trees
	files reader
}

// read returns a file of a cgroup, valid until the next call; false if it does not exist.
func (h *hierarchy) read(controller, cgroup, file string) ([]byte, bool) {
	tree := h.Of(controller)
	if tree == "" {
		return nil, false
	}
	text, err := h.files.read(tree+"/"+cgroup+"/"+file, true)
	return text, err == nil
}

// podCgroup returns the cgroup of the pod that a container's cgroup is in, empty if the pod has no
// cgroup of its own.
func podCgroup(container, uid string) string {
	dir := filepath.Dir(container)
	name := strings.TrimSuffix(filepath.Base(dir), ".slice")
	if strings.HasSuffix(name, "pod"+uid) || strings.HasSuffix(name, "pod"+strings.ReplaceAll(uid, "-", "_")) {
		return dir
	}
	return ""
}
