package node

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/memory"
)

// cpus is how many CPUs of the machine are online, whichever of them this process may use. Where the kernel does not say it,
// those that this process may use count.
func cpus(root string) int {
	list, _ := os.ReadFile(filepath.Join(root, "sys/devices/system/cpu/online"))
	online := 0
	for part := range strings.SplitSeq(strings.TrimSpace(string(list)), ",") { // such as 0-3,6
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || to < from {
			return goruntime.NumCPU()
		}
		online += int(to-from) + 1
	}
	return online
}

// memoryBytes is the machine's memory; 0 means unknown.
func memoryBytes(root string) int64 {
	amounts, _ := memory.Table(filepath.Join(root, "proc"))
	return int64(amounts["MemTotal"])
}

// hugePages returns the bytes that the machine keeps as huge pages, for each size that its kernel has.
func hugePages(root string) v1.ResourceList {
	list := v1.ResourceList{}
	for size, kept := range memory.HugePages(filepath.Join(root, "sys")) {
		name := v1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String()
		list[v1.ResourceName(name)] = *resource.NewQuantity(kept, resource.BinarySI)
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
