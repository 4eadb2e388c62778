package cgroupname

import (
	"fmt"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pods is the usual name of the cgroup of all pods.
const Pods = "kubepods"

// Level is a cgroup below that of all pods which holds the pods of one class.
type Level string

// The levels. Guaranteed pods lie in the cgroup of all pods itself.
const (
	Guaranteed Level = ""
	Burstable  Level = "burstable"
	BestEffort Level = "besteffort"
)

const (
	podPrefix = "pod"
	slice     = ".slice"
)

// Levels returns all levels.
func Levels() []Level { return []Level{Guaranteed, Burstable, BestEffort} }

// LevelOf returns the level of a class.
func LevelOf(class v1.PodQOSClass) (Level, error) {
	switch class {
	case v1.PodQOSGuaranteed:
		return Guaranteed, nil
	case v1.PodQOSBurstable:
		return Burstable, nil
	case v1.PodQOSBestEffort:
		return BestEffort, nil
	}
	return "", fmt.Errorf("QoS class %q has no cgroup", class)
}

// Scheme is how a node names cgroups.
type Scheme struct {
	// Parent is the cgroup of all pods: one element per folder below the mount.
	Parent []string
	// Systemd selects the names of the systemd driver.
	Systemd bool
}

// Level returns the path of a level.
func (s Scheme) Level(level Level) string { return s.join(level) }

// Pod returns the path of a pod's cgroup in a level. The caller has checked that the
// UID is one path element.
func (s Scheme) Pod(level Level, uid types.UID) string { return s.join(level, podPrefix+string(uid)) }

// UID returns the pod that a folder in a level belongs to; false if it belongs to
// none.
func (s Scheme) UID(level Level, folder string) (types.UID, bool) {
	prefix := podPrefix
	if s.Systemd {
		prefix = strings.TrimSuffix(path.Base(s.Level(level)), slice) + "-" + podPrefix
		var ok bool
		if folder, ok = strings.CutSuffix(folder, slice); !ok {
			return "", false
		}
	}
	uid, ok := strings.CutPrefix(folder, prefix)
	if s.Systemd {
		uid = strings.ReplaceAll(uid, "_", "-")
	}
	return types.UID(uid), ok && uid != ""
}

// join makes a path of the parent, a level and what lies in it. In a path of systemd
// each folder's name repeats the names above it, and a dash inside an element, which
// would read as one more folder, becomes an underscore.
func (s Scheme) join(level Level, below ...string) string {
	elements := append([]string(nil), s.Parent...)
	if level != Guaranteed {
		elements = append(elements, string(level))
	}
	elements = append(elements, below...)
	if !s.Systemd {
		return path.Join(elements...)
	}
	name := ""
	for i, element := range elements {
		if i > 0 {
			name += "-"
		}
		name += strings.ReplaceAll(element, "-", "_")
		elements[i] = name + slice
	}
	return path.Join(elements...)
}
