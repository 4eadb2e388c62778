package memory

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Table reads the file meminfo of a folder like /proc, as [Parse] does.
func Table(proc string) (map[string]uint64, error) {
	text, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		return nil, err
	}
	return Parse(string(text)), nil
}

// Parse returns what a text like that of /proc/meminfo says: amounts in bytes, by names such as MemTotal. Lines that are
// not amounts of memory are left out.
func Parse(text string) map[string]uint64 {
	amounts := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		number, isAmount := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if kibibytes, err := strconv.ParseUint(strings.TrimSpace(number), 10, 54); isAmount && err == nil {
			amounts[name] = kibibytes << 10
		}
	}
	return amounts
}

// Available returns how many bytes of a table can be used without displacing anything that is in use.
func Available(amounts map[string]uint64) uint64 {
	return min(amounts["MemFree"]+amounts["Inactive(file)"], amounts["MemTotal"])
}

// HugePages reads how many bytes the kernel keeps as huge pages, by the size of the pages in bytes, from a folder like
// /sys. Sizes that the kernel has and keeps no pages of are 0; what cannot be read is left out.
func HugePages(sys string) map[int64]int64 {
	kept := map[int64]int64{}
	counts, _ := filepath.Glob(filepath.Join(sys, "kernel/mm/hugepages/hugepages-*kB/nr_hugepages"))
	for _, file := range counts {
		text := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "hugepages-"), "kB")
		kibibytes, err := strconv.ParseInt(text, 10, 53)
		if err != nil || kibibytes <= 0 {
			continue
		}
		content, _ := os.ReadFile(file)
		pages, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		if size := kibibytes << 10; err == nil && pages >= 0 && pages <= math.MaxInt64/size {
			kept[size] = pages * size
		}
	}
	return kept
}
