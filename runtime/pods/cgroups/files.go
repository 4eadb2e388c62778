package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/podwright/podwright/internal/durable"
	"github.com/podwright/podwright/runtime/pods"
)

// The range of shares on version 1, and of the weight that takes their place.
const (
	minShares = 2
	maxShares = 262144
	minWeight = 1
	maxWeight = 10000
)

// unlimited is how version 2 writes that there is no limit.
const unlimited = "max"

// v1Unlimited is above every real limit: where there is no limit, version 1 shows
// the largest number of whole pages.
const v1Unlimited = math.MaxInt64 &^ (1<<20 - 1)

// weight turns shares into the weight of version 2.
func weight(shares int64) int64 {
	shares = min(max(shares, minShares), maxShares)
	return minWeight + (shares-minShares)*(maxWeight-minWeight)/(maxShares-minShares)
}

// shares is the inverse of weight, as far as there is one.
func shares(weight int64) int64 {
	weight = min(max(weight, minWeight), maxWeight)
	const steps = maxWeight - minWeight
	return minShares + ((weight-minWeight)*(maxShares-minShares)+steps-1)/steps
}

// setting is a file and what to write to it.
type setting struct{ file, value string }

// settings translates resources, in the order to write them.
func (h *Hierarchy) settings(r pods.CgroupResources) []setting {
	var out []setting
	if h.v1 != nil {
		add := func(controller, file string, value int64) {
			if value != 0 {
				out = append(out, setting{path.Join(h.v1[controller], "?", file), strconv.FormatInt(value, 10)})
			}
		}
		add("memory", "memory.limit_in_bytes", r.MemoryLimit)
		add("cpu", "cpu.shares", r.CPUShares)
		add("cpu", "cpu.cfs_period_us", r.CPUPeriod)
		add("cpu", "cpu.cfs_quota_us", r.CPUQuota)
		return out
	}
	if r.MemoryLimit != 0 {
		out = append(out, setting{"?/memory.max", orMax(r.MemoryLimit)})
	}
	if r.CPUShares != 0 {
		out = append(out, setting{"?/cpu.weight", strconv.FormatInt(weight(r.CPUShares), 10)})
	}
	if r.CPUQuota != 0 {
		text := orMax(r.CPUQuota)
		if r.CPUPeriod > 0 {
			text += " " + strconv.FormatInt(r.CPUPeriod, 10)
		}
		out = append(out, setting{"?/cpu.max", text})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Unified)) {
		out = append(out, setting{"?/" + name, r.Unified[name]})
	}
	return out
}

// orMax writes a limit as version 2 has it.
func orMax(n int64) string {
	if n < 0 {
		return unlimited
	}
	return strconv.FormatInt(n, 10)
}

// set writes resources to a cgroup. The first error ends it.
func (h *Hierarchy) set(root *os.Root, name string, r pods.CgroupResources) error {
	huge, err := h.hugePages(root, name, r.HugePages)
	if err != nil {
		return fmt.Errorf("set cgroup: %w", err)
	}
	settings := append(h.settings(r), huge...)
	for _, s := range settings {
		if err := write(root, strings.Replace(s.file, "?", name, 1), s.value); err != nil {
			return fmt.Errorf("set cgroup: %w", err)
		}
	}
	return nil
}

// hugePages translates limits of huge pages. Where the kernel also counts pages that are
// reserved but not used yet, those are limited too, so that no pod takes them from the
// others. A kernel without the controller limits nothing.
func (h *Hierarchy) hugePages(root *os.Root, name string, limits map[string]int64) ([]setting, error) {
	if len(limits) == 0 {
		return nil, nil
	}
	tree, suffix := ".", ".max"
	if h.v1 != nil {
		if tree, suffix = h.v1[hugetlb], ".limit_in_bytes"; tree == "" {
			return nil, nil
		}
	} else {
		text, err := read(root, "cgroup.controllers")
		if err != nil || !slices.Contains(strings.Fields(text), hugetlb) {
			return nil, err
		}
	}
	var out []setting
	for _, size := range slices.Sorted(maps.Keys(limits)) {
		value := strconv.FormatInt(limits[size], 10)
		out = append(out, setting{path.Join(tree, "?", "hugetlb."+size+suffix), value})
		reserved := path.Join(tree, "?", "hugetlb."+size+".rsvd"+suffix)
		if _, err := root.Stat(strings.Replace(reserved, "?", name, 1)); err == nil {
			out = append(out, setting{reserved, value})
		}
	}
	return out, nil
}

// get reads the resources of a cgroup.
func (h *Hierarchy) get(root *os.Root, name string) (r pods.CgroupResources, err error) {
	if h.v1 == nil {
		return getV2(root, name)
	}
	for _, field := range []struct {
		to               *int64
		controller, file string
	}{
		{&r.MemoryLimit, "memory", "memory.limit_in_bytes"},
		{&r.CPUShares, "cpu", "cpu.shares"},
		{&r.CPUPeriod, "cpu", "cpu.cfs_period_us"},
		{&r.CPUQuota, "cpu", "cpu.cfs_quota_us"},
	} {
		if *field.to, err = readNumber(root, path.Join(h.v1[field.controller], name, field.file)); err != nil {
			return r, err
		}
	}
	if r.MemoryLimit >= v1Unlimited {
		r.MemoryLimit = -1
	}
	return r, nil
}

func getV2(root *os.Root, name string) (r pods.CgroupResources, err error) {
	if r.MemoryLimit, err = readNumber(root, path.Join(name, "memory.max")); err != nil {
		return r, err
	}
	w, err := readNumber(root, path.Join(name, "cpu.weight"))
	if err != nil {
		return r, err
	}
	r.CPUShares = shares(w)
	text, err := read(root, path.Join(name, "cpu.max"))
	if err != nil {
		return r, err
	}
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return r, fmt.Errorf("read cgroup: cpu.max is %q", text)
	}
	if r.CPUQuota, err = number(fields[0]); err != nil {
		return r, fmt.Errorf("read cgroup: cpu.max: %w", err)
	}
	if r.CPUPeriod, err = number(fields[1]); err != nil {
		return r, fmt.Errorf("read cgroup: cpu.max: %w", err)
	}
	return r, nil
}

// enableControllers makes version 2 offer its controllers in every level down to
// the cgroup itself.
func enableControllers(root *os.Root, name string) error {
	text, err := read(root, "cgroup.controllers")
	if err != nil {
		return err
	}
	var wanted []string
	for controller := range strings.FieldsSeq(text) {
		if slices.Contains([]string{"cpu", "memory", "pids", "cpuset", "hugetlb", "io"}, controller) {
			wanted = append(wanted, "+"+controller)
		}
	}
	level := "."
	for part := range strings.SplitSeq("./"+name, "/") {
		level = path.Join(level, part)
		if err := write(root, path.Join(level, "cgroup.subtree_control"), strings.Join(wanted, " ")); err != nil {
			return fmt.Errorf("offer controllers in %s: %w", level, err)
		}
	}
	return nil
}

// maxFile bounds what is read of a file.
const maxFile = 1 << 20

func read(root *os.Root, name string) (string, error) {
	text, err := durable.Read(root, name, maxFile)
	if err != nil {
		return "", fmt.Errorf("read cgroup: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func readNumber(root *os.Root, name string) (int64, error) {
	text, err := read(root, name)
	if err != nil {
		return 0, err
	}
	n, err := number(text)
	if err != nil {
		return 0, fmt.Errorf("read cgroup: %s: %w", path.Base(name), err)
	}
	return n, nil
}

// number reads an amount; "max" is -1, and a number too large for the type is its largest.
func number(text string) (int64, error) {
	if text == unlimited {
		return -1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return math.MaxInt64, nil
	}
	return n, err
}

// write sets one file. The kernel's files exist already; the flag that creates files
// lets tests use a plain folder as the hierarchy.
func write(root *os.Root, name, value string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fs.FileMode(0o644))
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
