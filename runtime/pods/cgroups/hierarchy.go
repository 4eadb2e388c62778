package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podwright/podwright/internal/cgrouptree"
	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/runtime/pods"
	"github.com/podwright/podwright/runtime/pods/internal/cgroupname"
)

// ErrNoController, wrapped in errors of [New]: the machine lacks a controller that
// pods' cgroups need.
var ErrNoController = errors.New("no such cgroup controller")

// Options configures a [Hierarchy]. The zero value suits most machines.
type Options struct {
	// Root is where cgroups are mounted: the one tree of version 2, or the folder
	// with one mount per controller of version 1. Absolute. Empty: /sys/fs/cgroup.
	Root string
	// Parent names the cgroup of all pods below the root, in levels separated by
	// slashes. Empty: kubepods.
	Parent string
	// Systemd makes names as the systemd cgroup driver has them; it must be the
	// runtime's driver too. On a machine that systemd runs, [New] refuses it: the runtime has
	// systemd start the slices of these names, and systemd then resets what is set in them.
	// Set the runtime to its cgroupfs driver there.
	Systemd bool
	// Clock paces the wait for killed processes. Nil: the real clock.
	Clock clock.WithTicker
}

// Hierarchy is the cgroups of all pods. Its methods are safe for concurrent use for
// different pods.
type Hierarchy struct {
	root  string
	names cgroupname.Scheme
	clock clock.WithTicker
	// v1 has, on version 1, the folder of each managed controller below root; nil
	// on version 2.
	v1 map[string]string
	// trees are the folders whose trees hold pods, with the one that List reads last;
	// on version 2 that is just ".".
	trees []string
}

var _ pods.Cgroups = (*Hierarchy)(nil)

// managed are the controllers whose folders make up a pod's cgroup on version 1. The
// first two must exist.
var managed = []string{"cpu", "memory", "cpuacct", "pids"}

// hugetlb also gets a pod's folder where it is mounted, but a pod's cgroup is
// complete without it: many runtimes leave this controller alone.
const hugetlb = "hugetlb"

const (
	defaultRoot = "/sys/fs/cgroup"
	// systemdRuns is there if systemd runs the machine (sd_booted).
	systemdRuns = "/run/systemd/system"
)

// New examines the root and returns its hierarchy. It changes nothing.
func New(o Options) (*Hierarchy, error) {
	if o.Root == "" {
		o.Root = defaultRoot
	}
	if !filepath.IsAbs(o.Root) {
		return nil, fmt.Errorf("cgroups: Root %q is not absolute", o.Root)
	}
	if err := o.checkDriver(systemdRuns); err != nil {
		return nil, err
	}
	if o.Parent == "" {
		o.Parent = cgroupname.Pods
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	h := &Hierarchy{root: o.Root, names: cgroupname.Scheme{Parent: strings.Split(o.Parent, "/"), Systemd: o.Systemd}, clock: o.Clock}
	for _, part := range h.names.Parent {
		if err := podinfo.CheckName("cgroups: Parent level", part); err != nil {
			return nil, err
		}
	}
	return h, h.examine()
}

// checkDriver refuses slices in a tree that systemd manages, which it does if the file is there.
func (o *Options) checkDriver(systemdRuns string) error {
	if !o.Systemd || filepath.Clean(o.Root) != defaultRoot {
		return nil
	}
	if _, err := os.Stat(systemdRuns); err != nil {
		return nil
	}
	return errors.New("cgroups: Systemd: systemd resets the limits of slices that it has not made: use the runtime's cgroupfs driver")
}

// examine finds out which version the root holds.
func (h *Hierarchy) examine() error {
	if cgrouptree.Unified(h.root) {
		h.trees = []string{"."}
		return nil
	}
	entries, err := os.ReadDir(h.root)
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	h.v1 = map[string]string{}
	for _, e := range entries {
		if !e.IsDir() { // a link is another name of a tree that is also there
			continue
		}
		h.trees = append(h.trees, e.Name())
		for name := range strings.SplitSeq(e.Name(), ",") {
			if name == hugetlb || slices.Contains(managed, name) {
				h.v1[name] = e.Name()
			}
		}
	}
	for _, name := range managed[:2] {
		if h.v1[name] == "" {
			return fmt.Errorf("cgroups: %w: %s in %s", ErrNoController, name, h.root)
		}
	}
	anchor := h.anchor()
	h.trees = append(slices.DeleteFunc(h.trees, func(t string) bool { return t == anchor }), anchor)
	return nil
}

// anchor is the tree that shows which pods have cgroups: Destroy empties it last.
func (h *Hierarchy) anchor() string {
	if h.v1 == nil {
		return "."
	}
	return h.v1["memory"]
}

// folders returns the trees of these controllers, the anchor last if it is among them.
func (h *Hierarchy) folders(controllers ...string) []string {
	if h.v1 == nil {
		return []string{"."}
	}
	var out []string
	for _, tree := range h.trees {
		for _, name := range controllers {
			if h.v1[name] == tree && !slices.Contains(out, tree) {
				out = append(out, tree)
			}
		}
	}
	return out
}

// Setup makes the levels that all pods are below: the one of all pods and one per
// class. Best-effort pods get the smallest weight there is. Repeating it is harmless.
func (h *Hierarchy) Setup() error {
	root, err := os.OpenRoot(h.root)
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	defer root.Close()
	for _, level := range []cgroupname.Level{cgroupname.Burstable, cgroupname.BestEffort} {
		if err := h.mkdir(root, h.names.Level(level)); err != nil {
			return err
		}
	}
	return h.set(root, h.names.Level(cgroupname.BestEffort), pods.CgroupResources{CPUShares: minShares})
}

// SetBurstableShares sets the weight of all burstable pods together: the sum of
// what they request, in cgroup shares.
func (h *Hierarchy) SetBurstableShares(shares int64) error {
	root, err := os.OpenRoot(h.root)
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	defer root.Close()
	return h.set(root, h.names.Level(cgroupname.Burstable), pods.CgroupResources{CPUShares: min(max(shares, minShares), maxShares)})
}

// SetReservations sets what all Guaranteed pods together keep of their memory under pressure, and what all Burstable pods
// together keep while anything else can be reclaimed, in bytes. Without it the kernel protects no pod: it gives children a
// share of what their parent is protected with. 0 protects none, and is no error where the memory controller is missing. Version 1
// has no such protection; nothing is done there (spec/runtime.md 13.6).
func (h *Hierarchy) SetReservations(guaranteed, burstable int64) error {
	if h.v1 != nil {
		return nil
	}
	root, err := os.OpenRoot(h.root)
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	defer root.Close()
	hard, soft := strconv.FormatInt(guaranteed, 10), strconv.FormatInt(burstable, 10)
	for level, unified := range map[cgroupname.Level]map[string]string{
		cgroupname.Guaranteed: {"memory.min": hard, "memory.low": soft}, cgroupname.Burstable: {"memory.low": soft},
	} {
		err = h.set(root, h.names.Level(level), pods.CgroupResources{Unified: unified})
		none := guaranteed == 0 && burstable == 0 && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) // no file can be made there
		if err != nil && !none {
			return err
		}
	}
	return nil
}

// List returns the UIDs that have a cgroup in any level, sorted.
func (h *Hierarchy) List() ([]types.UID, error) {
	root, err := os.OpenRoot(h.root)
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	defer root.Close()
	var out []types.UID
	for _, level := range cgroupname.Levels() {
		entries, err := fs.ReadDir(root.FS(), path.Join(h.anchor(), h.names.Level(level)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list cgroups of pods: %w", err)
		}
		for _, e := range entries {
			if uid, ok := h.names.UID(level, e.Name()); ok && e.IsDir() {
				out = append(out, uid)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
