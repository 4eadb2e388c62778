package containerdtest

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podwright/podwright/internal/cgrouptree"
)

// CgroupRoot is where control groups are mounted.
const CgroupRoot = "/sys/fs/cgroup"

// Cgroup is where processes are accounted, on either version of control groups, whatever the
// runtime calls it.
type Cgroup struct {
	// folders has the folder of each controller of version 1. On version 2 there is one, under "".
	folders map[string]string
}

// CgroupOf finds the cgroup of a process of this machine.
func CgroupOf(pid int) (Cgroup, error) { return cgroupOf("/proc", CgroupRoot, pid) }

func cgroupOf(proc, root string, pid int) (Cgroup, error) {
	table, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return Cgroup{}, err
	}
	unified, c := cgrouptree.Unified(root), Cgroup{folders: map[string]string{}}
	for line := range strings.Lines(string(table)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		switch {
		case len(fields) < 3:
			return Cgroup{}, fmt.Errorf("cgroup of process %d: line %q", pid, line)
		case unified && fields[1] == "":
			c.folders[""] = filepath.Join(root, fields[2])
		case !unified && fields[1] != "":
			for name := range strings.SplitSeq(fields[1], ",") {
				c.folders[name] = filepath.Join(root, name, fields[2])
			}
		}
	}
	if len(c.folders) == 0 {
		return Cgroup{}, fmt.Errorf("process %d has no cgroup below %s", pid, root)
	}
	return c, nil
}

// Above returns the cgroup of this name that this one is, or is below.
func (c Cgroup) Above(name string) (Cgroup, error) {
	out := Cgroup{folders: map[string]string{}}
	for controller, folder := range c.folders {
		for at := folder; at != "/" && at != "."; at = path.Dir(at) {
			if path.Base(at) == name {
				out.folders[controller] = at
				break
			}
		}
	}
	if len(out.folders) == 0 {
		return out, fmt.Errorf("no cgroup %s above %v", name, c.folders)
	}
	return out, nil
}

// Settings are the settings of a cgroup in the units of version 1. Zero means that the setting does
// not matter, -1 that there is no limit.
type Settings struct{ CPUShares, CPUQuota, Memory int64 }

// Differences returns how the cgroup differs from want. Runtimes convert shares into the weight of
// version 2 by one of two formulas; it accepts the result of either.
func (c Cgroup) Differences(want Settings) error {
	folder, unified := c.folders[""]
	var problems []error
	check := func(controller, file string, accepted ...string) {
		if !unified {
			folder = c.folders[controller]
		}
		text, err := os.ReadFile(filepath.Join(folder, file))
		if got := strings.TrimSpace(string(text)); err != nil || !slices.Contains(accepted, got) {
			problems = append(problems, errors.Join(fmt.Errorf("%s of %s is %q, want %q", file, folder, got, accepted), err))
		}
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	switch {
	case want.CPUShares == 0:
	case unified:
		check("", "cpu.weight", number(linearWeight(want.CPUShares)), number(logarithmicWeight(want.CPUShares)))
	default:
		check("cpu", "cpu.shares", number(want.CPUShares))
	}
	switch {
	case want.CPUQuota == 0:
	case !unified:
		check("cpu", "cpu.cfs_quota_us", number(want.CPUQuota))
	case want.CPUQuota < 0:
		check("", "cpu.max", "max 100000")
	default:
		check("", "cpu.max", number(want.CPUQuota)+" 100000")
	}
	switch {
	case want.Memory == 0:
	case !unified:
		check("memory", "memory.limit_in_bytes", number(want.Memory))
	case want.Memory < 0:
		check("", "memory.max", "max")
	default:
		check("", "memory.max", number(want.Memory))
	}
	return errors.Join(problems...)
}

// SetMemory limits the memory of the cgroup to this many bytes. It fails while only other controllers
// have the cgroup.
func (c Cgroup) SetMemory(limit int64) error {
	folder, name := c.folders["memory"], "memory.limit_in_bytes"
	if unified, ok := c.folders[""]; ok {
		folder, name = unified, "memory.max"
	}
	if folder == "" {
		return fmt.Errorf("%w: the cgroup has no memory controller", fs.ErrNotExist)
	}
	return os.WriteFile(filepath.Join(folder, name), []byte(strconv.FormatInt(limit, 10)), 0o600)
}

// CgroupNamed returns the cgroup of a path below the root of control groups.
func CgroupNamed(name string) (Cgroup, error) { return cgroupNamed(CgroupRoot, name) }

func cgroupNamed(root, name string) (Cgroup, error) {
	pattern, c := filepath.Join(root, "*", name), Cgroup{folders: map[string]string{}}
	if cgrouptree.Unified(root) {
		c.folders[""] = filepath.Join(root, name)
		_, err := os.Stat(c.folders[""])
		return c, err
	}
	found, err := filepath.Glob(pattern)
	for _, folder := range found {
		tree, _, _ := strings.Cut(strings.TrimPrefix(folder, root+"/"), "/")
		for controller := range strings.SplitSeq(tree, ",") {
			c.folders[controller] = folder
		}
	}
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: cgroup %s", fs.ErrNotExist, name)
	}
	return c, err
}

// Children returns the names of the cgroups directly below that begin with a prefix, sorted.
func (c Cgroup) Children(prefix string) ([]string, error) {
	var out []string
	for _, folder := range c.folders {
		entries, err := os.ReadDir(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is gone
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
				out = append(out, e.Name())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// The range of shares, and of the weights that replace them.
const (
	minShares, maxShares = 2, 262144
	minWeight, maxWeight = 1, 10000
)

// linearWeight spreads the shares evenly over the weights.
func linearWeight(shares int64) int64 {
	return minWeight + (shares-minShares)*(maxWeight-minWeight)/(maxShares-minShares)
}

// logarithmicWeight turns 1024 shares into 100, the default weight of a cgroup, as newer runtimes
// do.
func logarithmicWeight(shares int64) int64 {
	switch {
	case shares <= minShares:
		return minWeight
	case shares >= maxShares:
		return maxWeight
	}
	l := math.Log2(float64(shares))
	return int64(math.Ceil(math.Pow(10, (l*l+125*l)/612-7.0/34)))
}
