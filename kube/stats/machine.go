package stats

import (
	"bytes"
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/internal/memory"
)

// machine reads what the kernel says about the whole machine.
type machine struct {
	proc  string
	files reader
}

// read returns a file below /proc, valid until the next call, nil if it does not exist.
func (m *machine) read(name string) []byte {
	text, err := m.files.read(m.proc+"/"+name, false)
	if err != nil {
		return nil
	}
	return text
}

// tick is the unit of times in /proc/stat, the same on all machines.
const tick = 10 * time.Millisecond

// cpu returns the time that all CPUs together have worked, when the machine started, and the number of CPUs.
func (m *machine) cpu() (worked *uint64, boot time.Time, cores int) {
	for line := range bytes.Lines(m.read("stat")) {
		fields := bytes.Fields(line)
		switch {
		case len(fields) >= 9 && string(fields[0]) == "cpu":
			var ticks uint64
			for _, i := range []int{1, 2, 3, 6, 7} { // user, nice, system, irq, softirq
				if n := unsigned(fields[i]); n != nil {
					ticks += *n
				}
			}
			worked = pointer(ticks * uint64(tick))
		case len(fields) >= 1 && bytes.HasPrefix(fields[0], []byte("cpu")):
			cores++
		case len(fields) == 2 && string(fields[0]) == "btime":
			if n := signed(fields[1]); n != nil {
				boot = time.Unix(*n, 0)
			}
		}
	}
	return worked, boot, cores
}

// memory returns what is in use, and the total.
func (m *machine) memory(now time.Time) (*stats.MemoryStats, *stats.SwapStats, uint64) {
	info := memory.Parse(string(m.read("meminfo")))
	total := info["MemTotal"]
	if total == 0 {
		return nil, nil, 0
	}
	at := metav1.NewTime(now)
	available := memory.Available(info)
	memory := &stats.MemoryStats{
		Time: at, AvailableBytes: pointer(available), WorkingSetBytes: pointer(total - available),
		UsageBytes: pointer(total - min(info["MemFree"], total)), RSSBytes: pointer(info["AnonPages"]),
	}
	faults := map[string]**uint64{"pgfault": &memory.PageFaults, "pgmajfault": &memory.MajorPageFaults}
	keyed(m.read("vmstat"), faults, "", nil)
	swap := &stats.SwapStats{Time: at, SwapAvailableBytes: pointer(info["SwapFree"]), SwapUsageBytes: pointer(info["SwapTotal"] - min(info["SwapFree"], info["SwapTotal"]))}
	return memory, swap, total
}

// node reads what needs no walk; with full, also network, file system and process numbers.
func (m *machine) node(name, root string, full bool, now time.Time, past *history) (out stats.NodeStats, capacity capacity) {
	at := metav1.NewTime(now)
	out.NodeName = name
	worked, boot, cores := m.cpu()
	out.StartTime, capacity.cores = metav1.NewTime(boot), cores
	if worked != nil {
		total, rate := past.rate("node", now, *worked)
		out.CPU = &stats.CPUStats{Time: at, UsageCoreNanoSeconds: &total, UsageNanoCores: rate, PSI: pressure(m.read("pressure/cpu"))}
	}
	if out.Memory, out.Swap, capacity.memory = m.memory(now); out.Memory != nil {
		out.Memory.PSI = pressure(m.read("pressure/memory"))
	}
	out.SystemContainers = m.self(boot, now, past)
	if !full {
		return out, capacity
	}
	if psi := pressure(m.read("pressure/io")); psi != nil {
		out.IO = &stats.IOStats{Time: at, PSI: psi}
	}
	way := defaultInterface(m.read("self/net/route"))
	capacity.traffic = ofNode(parseTraffic(m.read("self/net/dev")))
	out.Network = network(capacity.traffic, way, now)
	out.Rlimit = m.processes(now)
	if root != "" {
		out.Fs = fileSystem(root, now)
	}
	return out, capacity
}

// capacity is what the machine has, and the traffic of its interfaces.
type capacity struct {
	cores   int
	memory  uint64
	traffic []traffic
}

// processes returns how many processes there are and may be, threads included.
func (m *machine) processes(now time.Time) *stats.RlimitStats {
	out := &stats.RlimitStats{Time: metav1.NewTime(now)}
	if fields := bytes.Fields(m.read("loadavg")); len(fields) >= 4 { // the fourth is running/existing
		_, existing, _ := bytes.Cut(fields[3], []byte("/"))
		out.NumOfRunningProcesses = signed(existing)
	}
	for _, name := range []string{"pid_max", "threads-max"} {
		if n := signed(m.read("sys/kernel/" + name)); n != nil && (out.MaxPID == nil || *n < *out.MaxPID) {
			out.MaxPID = n
		}
	}
	return out
}

// self measures this process, which a summary shows as the kubelet.
func (m *machine) self(boot, now time.Time, past *history) []stats.ContainerStats {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return nil
	}
	at := metav1.NewTime(now)
	total, rate := past.rate("self", now, uint64(used.Utime.Nano()+used.Stime.Nano()))
	out := stats.ContainerStats{
		Name: stats.SystemContainerKubelet, StartTime: metav1.NewTime(boot),
		CPU: &stats.CPUStats{Time: at, UsageCoreNanoSeconds: &total, UsageNanoCores: rate},
	}
	if fields := bytes.Fields(m.read("self/stat")); len(fields) > 21 {
		if ticks := signed(fields[21]); ticks != nil { // since the machine started
			out.StartTime = metav1.NewTime(boot.Add(time.Duration(*ticks) * tick))
		}
	}
	if fields := bytes.Fields(m.read("self/statm")); len(fields) >= 3 {
		if pages := unsigned(fields[1]); pages != nil {
			resident := *pages * uint64(os.Getpagesize())
			out.Memory = &stats.MemoryStats{Time: at, WorkingSetBytes: &resident, RSSBytes: &resident, UsageBytes: &resident}
		}
	}
	return []stats.ContainerStats{out}
}

// fileSystem returns how full the file system of a folder is, nil if that is not known.
func fileSystem(dir string, now time.Time) *stats.FsStats {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return nil
	}
	size := uint64(s.Frsize)
	out := &stats.FsStats{
		Time: metav1.NewTime(now), AvailableBytes: pointer(s.Bavail * size), CapacityBytes: pointer(s.Blocks * size),
		UsedBytes: pointer((s.Blocks - min(s.Bfree, s.Blocks)) * size),
	}
	if s.Files > 0 { // some file systems have no fixed number
		out.Inodes, out.InodesFree, out.InodesUsed = pointer(s.Files), pointer(s.Ffree), pointer(s.Files-min(s.Ffree, s.Files))
	}
	return out
}

// runtimeFs asks the runtime where it keeps images and layers; what it does not answer is omitted.
func runtimeFs(ctx context.Context, images ImageFs, now time.Time) *stats.RuntimeStats {
	response, err := images.ImageFsInfo(ctx)
	if err != nil || len(response.GetImageFilesystems()) == 0 {
		return nil
	}
	of := response.GetImageFilesystems()[0]
	out := &stats.RuntimeStats{ImageFs: fileSystem(of.GetFsId().GetMountpoint(), now)}
	if out.ImageFs == nil {
		out.ImageFs = &stats.FsStats{Time: metav1.NewTime(now)}
	}
	if of.GetUsedBytes() != nil {
		out.ImageFs.UsedBytes = pointer(of.GetUsedBytes().GetValue())
	}
	if of.GetInodesUsed() != nil {
		out.ImageFs.InodesUsed = pointer(of.GetInodesUsed().GetValue())
	}
	out.ContainerFs = out.ImageFs
	if list := response.GetContainerFilesystems(); len(list) > 0 && list[0].GetFsId().GetMountpoint() != of.GetFsId().GetMountpoint() {
		out.ContainerFs = fileSystem(list[0].GetFsId().GetMountpoint(), now)
		if out.ContainerFs != nil && list[0].GetUsedBytes() != nil {
			out.ContainerFs.UsedBytes = pointer(list[0].GetUsedBytes().GetValue())
		}
	}
	return out
}

// devices returns the names of block devices by number, for example 8:0 to /dev/sda.
func (m *machine) devices() map[string]string {
	out := map[string]string{}
	for line := range bytes.Lines(m.read("diskstats")) {
		if fields := bytes.Fields(line); len(fields) > 3 {
			out[string(fields[0])+":"+string(fields[1])] = "/dev/" + string(fields[2])
		}
	}
	return out
}
