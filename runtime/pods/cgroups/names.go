package cgroups

import (
	"fmt"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime/pods/internal/poddir"
)

// Levels below the root of all pods; Guaranteed pods have none.
const (
	burstable  = "burstable"
	besteffort = "besteffort"

	podPrefix = "pod"
	slice     = ".slice"
)

// levelOf returns the level of a class.
func levelOf(class v1.PodQOSClass) (string, error) {
	switch class {
	case v1.PodQOSGuaranteed:
		return "", nil
	case v1.PodQOSBurstable:
		return burstable, nil
	case v1.PodQOSBestEffort:
		return besteffort, nil
	}
	return "", fmt.Errorf("QoS class %q has no cgroup", class)
}

// level returns the path of a level, "" being the one of all pods.
func (h *Hierarchy) level(name string) string {
	parts := h.parent
	if name != "" {
		parts = append(parts[:len(parts):len(parts)], name)
	}
	return h.join(parts)
}

// podPath returns the path of a pod's cgroup below a level (spec/runtime.md 3.3).
func (h *Hierarchy) podPath(level string, uid types.UID) (string, error) {
	if err := poddir.CheckName("pod UID", string(uid)); err != nil {
		return "", err
	}
	if h.systemd && strings.Contains(string(uid), "_") {
		return "", fmt.Errorf("pod UID %q contains an underscore, which stands for a dash in names of systemd", uid)
	}
	parts := h.parent[:len(h.parent):len(h.parent)]
	if level != "" {
		parts = append(parts, level)
	}
	name := h.join(append(parts, podPrefix+string(uid)))
	if err := poddir.CheckName("cgroup of the pod", path.Base(name)); err != nil {
		return "", err
	}
	return name, nil
}

// join makes a path of the parts. For systemd each folder's name repeats those above
// it, and a dash inside a part, which would be read as one more folder, becomes an
// underscore.
func (h *Hierarchy) join(parts []string) string {
	if !h.systemd {
		return path.Join(parts...)
	}
	folders := make([]string, len(parts))
	name := ""
	for i, part := range parts {
		if i > 0 {
			name += "-"
		}
		name += strings.ReplaceAll(part, "-", "_")
		folders[i] = name + slice
	}
	return path.Join(folders...)
}

// uidOf is the inverse of podPath for a folder's name in a level.
func (h *Hierarchy) uidOf(level, folder string) (types.UID, bool) {
	prefix := podPrefix
	if h.systemd {
		prefix = strings.TrimSuffix(path.Base(h.level(level)), slice) + "-" + podPrefix
		var ok bool
		if folder, ok = strings.CutSuffix(folder, slice); !ok {
			return "", false
		}
	}
	uid, ok := strings.CutPrefix(folder, prefix)
	if h.systemd {
		uid = strings.ReplaceAll(uid, "_", "-")
	}
	return types.UID(uid), ok && uid != ""
}
