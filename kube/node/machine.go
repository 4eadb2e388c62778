package node

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func cpus() int { return goruntime.NumCPU() }

// memoryBytes is the machine's memory; 0 means unknown.
func memoryBytes(root string) int64 {
	content, _ := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	fields := strings.Fields(valueOf(content, "MemTotal:"))
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10
}

// hugePages returns the bytes that the machine keeps as huge pages, for each size that its kernel has.
func hugePages(root string) v1.ResourceList {
	list := v1.ResourceList{}
	files, _ := filepath.Glob(filepath.Join(root, "sys/kernel/mm/hugepages/hugepages-*kB/nr_hugepages"))
	for _, file := range files {
		text := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "hugepages-"), "kB")
		kib, err := strconv.ParseInt(text, 10, 64)
		content, readErr := os.ReadFile(file)
		pages, countErr := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		if errors.Join(err, readErr, countErr) != nil {
			continue
		}
		size := resource.NewQuantity(kib<<10, resource.BinarySI)
		list[v1.ResourceName(v1.ResourceHugePagesPrefix+size.String())] = *resource.NewQuantity(pages*kib<<10, resource.BinarySI)
	}
	return list
}

// examineMachine examines this machine, from the files below root. What cannot be read stays empty.
func examineMachine(root string) v1.NodeSystemInfo {
	read := func(name string) []byte {
		content, _ := os.ReadFile(filepath.Join(root, name))
		return content
	}
	word := func(names ...string) string {
		for _, name := range names {
			if s := strings.TrimSpace(string(read(name))); s != "" {
				return s
			}
		}
		return ""
	}
	release := read("etc/os-release")
	if len(release) == 0 {
		release = read("usr/lib/os-release")
	}
	info := v1.NodeSystemInfo{
		MachineID:       word("etc/machine-id", "var/lib/dbus/machine-id"),
		SystemUUID:      word("sys/class/dmi/id/product_uuid", "sys/hypervisor/uuid"),
		BootID:          word("proc/sys/kernel/random/boot_id"),
		KernelVersion:   word("proc/sys/kernel/osrelease"),
		OSImage:         strings.Trim(valueOf(release, "PRETTY_NAME="), `"'`),
		OperatingSystem: goruntime.GOOS, Architecture: goruntime.GOARCH,
		KubeletVersion: version,
	}
	if info.SystemUUID == "" {
		info.SystemUUID = info.MachineID // for machines without firmware tables
	}
	return info
}

// valueOf returns the rest of the first line that begins with key.
func valueOf(content []byte, key string) string {
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), key); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// completeInfo fills the empty fields of set from found.
func completeInfo(set, found v1.NodeSystemInfo) v1.NodeSystemInfo {
	for _, field := range []struct {
		set   *string
		found string
	}{
		{&set.MachineID, found.MachineID},
		{&set.SystemUUID, found.SystemUUID},
		{&set.BootID, found.BootID},
		{&set.KernelVersion, found.KernelVersion},
		{&set.OSImage, found.OSImage},
		{&set.KubeletVersion, found.KubeletVersion},
		{&set.OperatingSystem, found.OperatingSystem},
		{&set.Architecture, found.Architecture},
	} {
		if *field.set == "" {
			*field.set = field.found
		}
	}
	return set
}
