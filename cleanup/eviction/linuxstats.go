package eviction

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/cgrouptree"
	"github.com/podwright/podwright/internal/foreign"
	"github.com/podwright/podwright/internal/memory"
)

// LinuxStatsOptions configures a [LinuxStats]. The zero value reads memory and process IDs of the
// whole machine, and no disk.
type LinuxStatsOptions struct {
	// Proc is where procfs is mounted. Empty: /proc.
	Proc string
	// Cgroups is where cgroups are mounted: the single tree of version 2, or the folder with one
	// mount per controller of version 1. Empty: /sys/fs/cgroup.
	Cgroups string
	// Cgroup is a cgroup, below the root, whose limits apply to all pods together, such as
	// kubepods: what it has left counts if that is less than what the machine has left. Empty: only
	// the machine counts.
	Cgroup string
	// NodeFs is a folder on the file system of volumes and logs. Empty: its signals are
	// not read.
	NodeFs string
	// ImageFs returns a folder on the file system of images and container layers. Nil, or an empty
	// result: its signals are not read. If it is another file system than that of NodeFs, layers count
	// only for imagefs, and folders only for nodefs.
	ImageFs func(ctx context.Context) (string, error)

	// PodCgroup returns the cgroup of a pod below the root. If it is nil or returns "", the memory
	// and process IDs that the pod uses are not known from cgroups.
	PodCgroup func(pod *v1.Pod) (string, error)
	// PodDirs returns the folders whose content counts as the pod's disk usage. Nil:
	// none.
	PodDirs func(pod *v1.Pod) []string
	// PodLayers returns what a pod uses besides its folders: the layers of its containers, and what
	// the runtime measures where there is no cgroup. It is not called for memory and process IDs
	// that a cgroup tells. Nil: nothing.
	PodLayers func(ctx context.Context, pod *v1.Pod) (Usage, error)
	// Clock is the time of limits. Nil: the real clock.
	Clock clock.Clock
}

// LinuxStats reads a Linux machine. It is safe for concurrent use.
type LinuxStats struct {
	options LinuxStatsOptions
	// apart: images have a file system of their own. Nil: not known yet.
	apart atomic.Pointer[bool]
	walks *turns
	// calls are those that look at disks, with inspect.
	calls   *foreign.Calls
	inspect func(path string) (fileSystem, error)
}

// maxWalks is how many walks through pods' folders make progress at once.
const maxWalks = 4

var _ Stats = (*LinuxStats)(nil)

// NewLinuxStats returns a reader, or an error that says what is wrong with the options.
func NewLinuxStats(o LinuxStatsOptions) (*LinuxStats, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Cgroups == "" {
		o.Cgroups = "/sys/fs/cgroup"
	}
	for _, dir := range []string{o.Proc, o.Cgroups, o.NodeFs} {
		if dir != "" && !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("eviction: %q is not an absolute path", dir)
		}
	}
	if o.Cgroup = strings.Trim(o.Cgroup, "/"); o.Cgroup != "" && !filepath.IsLocal(o.Cgroup) {
		return nil, fmt.Errorf("eviction: cgroup %q leads out of the tree", o.Cgroup)
	}
	return &LinuxStats{options: o, walks: newTurns(o.Clock, maxWalks), calls: foreign.New(o.Clock), inspect: inspect}, nil
}

// Node reads every signal it can.
func (m *LinuxStats) Node(ctx context.Context) (map[Signal]Observation, error) {
	out := map[Signal]Observation{}
	var problems []error
	fail := func(signal Signal, err error) { problems = append(problems, &signalError{signal, err}) }
	note := func(signal Signal, o Observation, err error) {
		if err != nil {
			fail(signal, err)
		}
		if o.Capacity > 0 { // without its cgroup, there is still the machine
			out[signal] = o
		}
	}
	memory, err := m.memory()
	note(MemoryAvailable, memory, err)
	ids, err := m.ids()
	note(PIDAvailable, ids, err)
	disk := func(s *syscall.Statfs_t, bytes, inodes Signal, err error) {
		switch {
		case err != nil:
			fail(bytes, err)
			fail(inodes, err)
		case s != nil:
			out[bytes] = Observation{Available: s.Bavail * uint64(s.Frsize), Capacity: s.Blocks * uint64(s.Frsize)}
			if s.Files > 0 { // some file systems have no fixed number
				out[inodes] = Observation{Available: s.Ffree, Capacity: s.Files}
			}
		}
	}
	node, image := m.disks(ctx)
	disk(node.statfs(), NodeFsAvailable, NodeFsInodesFree, node.err)
	disk(image.statfs(), ImageFsAvailable, ImageFsInodesFree, image.err)
	return out, errors.Join(append(problems, ctx.Err())...)
}

// Pod reads a pod's usage.
func (m *LinuxStats) Pod(ctx context.Context, pod *v1.Pod, signal Signal) (Usage, error) {
	if signal.kind().disk {
		return m.podDisk(ctx, pod, signal)
	}
	out, read, err := m.podCgroup(pod, signal)
	if read || m.options.PodLayers == nil {
		return out, err
	}
	out, layersErr := m.options.PodLayers(ctx, pod)
	return out, errors.Join(err, layersErr)
}

// podDisk returns what a pod has on the file system that a signal is about.
func (m *LinuxStats) podDisk(ctx context.Context, pod *v1.Pod, signal Signal) (Usage, error) {
	folders, layers := m.options.PodDirs != nil, m.options.PodLayers != nil
	if m.imagesApart(ctx) {
		image := signal == ImageFsAvailable || signal == ImageFsInodesFree
		folders, layers = folders && !image, layers && image
	}
	var out Usage
	var problems []error
	if layers {
		used, err := m.options.PodLayers(ctx, pod)
		problems = append(problems, err)
		out = used
	}
	if folders {
		for _, dir := range m.options.PodDirs(pod) {
			bytes, files, err := walk{turns: m.walks}.size(ctx, dir)
			problems = append(problems, err)
			out.Disk, out.Inodes = out.Disk+bytes, out.Inodes+files
		}
	}
	return out, errors.Join(problems...)
}

// podCgroup returns what the cgroup of a pod tells, if it does.
func (m *LinuxStats) podCgroup(pod *v1.Pod, signal Signal) (out Usage, read bool, err error) {
	if m.options.PodCgroup == nil {
		return Usage{}, false, nil
	}
	cgroup, err := m.options.PodCgroup(pod)
	if err == nil && cgroup != "" {
		switch signal {
		case MemoryAvailable:
			out.Memory, err = m.workingSet(cgroup)
			read = err == nil
		case PIDAvailable:
			out.PIDs, err = m.number("pids", cgroup, "pids.current")
			read = err == nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the pod has none yet, or no longer
	}
	return out, read, err
}

// memory returns what can be used without displacing anything in use: on the machine, or in the
// cgroup if that is less. If the cgroup cannot be read, the machine's is returned with the error.
func (m *LinuxStats) memory() (Observation, error) {
	info, err := m.memInfo()
	if err != nil {
		return Observation{}, err
	}
	total := info["MemTotal"]
	out := Observation{Available: memory.Available(info), Capacity: total}
	if m.options.Cgroup == "" {
		return out, nil
	}
	limit, err := m.number("memory", m.options.Cgroup, m.choose("memory.limit_in_bytes", "memory.max"))
	if err != nil || limit >= total {
		return out, err // no limit of its own
	}
	used, err := m.workingSet(m.options.Cgroup)
	if err != nil {
		return out, err
	}
	return Observation{Available: min(out.Available, limit-min(used, limit)), Capacity: limit}, nil
}

// memInfo reads the kernel's table of memory, which must have what is needed of it.
func (m *LinuxStats) memInfo() (map[string]uint64, error) {
	amounts, err := memory.Table(m.options.Proc)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"MemTotal", "MemFree", "Inactive(file)"} {
		if _, ok := amounts[name]; !ok {
			return nil, fmt.Errorf("meminfo has no %s", name)
		}
	}
	return amounts, nil
}

// ids returns how many more processes and threads there can be: on the machine, or in the cgroup if
// that is fewer. If the cgroup cannot be read, the machine's are returned with the error.
func (m *LinuxStats) ids() (Observation, error) {
	out := Observation{Capacity: math.MaxUint64}
	for _, name := range []string{"pid_max", "threads-max"} {
		text, err := os.ReadFile(filepath.Join(m.options.Proc, "sys", "kernel", name))
		if err != nil {
			return Observation{}, err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return Observation{}, fmt.Errorf("%s: %w", name, err)
		}
		out.Capacity = min(out.Capacity, n)
	}
	text, err := os.ReadFile(filepath.Join(m.options.Proc, "loadavg"))
	if err != nil {
		return Observation{}, err
	}
	fields := strings.Fields(string(text)) // the fourth is running/existing
	if len(fields) < 4 {
		return Observation{}, fmt.Errorf("loadavg has %d fields", len(fields))
	}
	_, existing, _ := strings.Cut(fields[3], "/")
	used, err := strconv.ParseUint(existing, 10, 64)
	if err != nil {
		return Observation{}, fmt.Errorf("loadavg: %w", err)
	}
	out.Available = out.Capacity - min(used, out.Capacity)
	if m.options.Cgroup == "" {
		return out, nil
	}
	limit, err := m.number("pids", m.options.Cgroup, "pids.max")
	if err != nil || limit >= out.Capacity {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the controller is not in use
		}
		return out, err
	}
	if used, err = m.number("pids", m.options.Cgroup, "pids.current"); err != nil {
		return out, err
	}
	return Observation{Available: min(out.Available, limit-min(used, limit)), Capacity: limit}, nil
}

// workingSet returns the memory of a cgroup and those below it that cannot be dropped.
func (m *LinuxStats) workingSet(cgroup string) (uint64, error) {
	used, err := m.number("memory", cgroup, m.choose("memory.usage_in_bytes", "memory.current"))
	if err != nil {
		return 0, err
	}
	text, err := m.read("memory", cgroup, "memory.stat")
	if err != nil {
		return 0, err
	}
	name := m.choose("total_inactive_file ", "inactive_file ")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok {
			idle, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("memory.stat of %s: %w", cgroup, err)
			}
			return used - min(idle, used), nil
		}
	}
	return used, nil
}

// choose returns the first value for cgroup version 1, the second for version 2.
func (m *LinuxStats) choose(first, second string) string {
	if cgrouptree.Unified(m.options.Cgroups) {
		return second
	}
	return first
}

// number reads a file with one number; "max" is the largest.
func (m *LinuxStats) number(controller, cgroup, file string) (uint64, error) {
	text, err := m.read(controller, cgroup, file)
	if err != nil {
		return 0, err
	}
	text = strings.TrimSpace(text)
	if text == "max" {
		return math.MaxUint64, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s of cgroup %s: %w", file, cgroup, err)
	}
	return n, nil
}

// maxControl bounds what is read of a cgroup file.
const maxControl = 1 << 20

// read reads a file of a cgroup. Names of pods' cgroups come from manifests, but none leads out of
// the tree.
func (m *LinuxStats) read(controller, cgroup, file string) (string, error) {
	root, err := os.OpenRoot(m.options.Cgroups)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if cgrouptree.Unified(m.options.Cgroups) {
		controller = ""
	}
	f, err := root.Open(path.Join(controller, strings.Trim(cgroup, "/"), file))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxControl))
	return string(text), err
}
