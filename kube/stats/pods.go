package stats

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podwright/podwright/internal/podinfo"
	"github.com/podwright/podwright/internal/timing"
	"github.com/podwright/podwright/runtime"
)

// pod is what one pod uses. Its stats do not include the containers.
type pod struct {
	stats      stats.PodStats
	sandbox    string // its ID
	cgroup     string // empty if it has none of its own
	traffic    []traffic
	containers []container
}

// container is what a running container uses.
type container struct {
	stats   stats.ContainerStats
	id      string
	image   string
	cgroup  string // empty if not known
	details usage  // if they are part of the reading
	limits  limits // likewise
}

// members are the sandbox and the running containers of a pod.
type members struct {
	sandbox    *runtimeapi.PodSandbox
	containers map[string]*runtimeapi.Container // by name
}

// group finds the newest sandbox of each pod that the engine has, and the newest run of each of its
// containers.
func group(found *found, known map[string]*v1.Pod) map[string]*members {
	out := make(map[string]*members, len(known))
	for _, s := range found.sandboxes {
		uid := s.GetMetadata().GetUid()
		if known[uid] == nil {
			continue
		}
		if out[uid] == nil {
			out[uid] = &members{sandbox: s, containers: map[string]*runtimeapi.Container{}}
		} else if newer(s.GetMetadata().GetAttempt(), s.GetCreatedAt(), out[uid].sandbox.GetMetadata().GetAttempt(), out[uid].sandbox.GetCreatedAt()) {
			out[uid].sandbox = s
		}
	}
	for _, c := range found.containers {
		m := out[c.GetLabels()[runtime.LabelPodUID]]
		name := c.GetLabels()[runtime.LabelContainerName]
		if m == nil || name == "" || c.GetPodSandboxId() != m.sandbox.GetId() {
			continue
		}
		if had := m.containers[name]; had == nil || newer(c.GetMetadata().GetAttempt(), c.GetCreatedAt(), had.GetMetadata().GetAttempt(), had.GetCreatedAt()) {
			m.containers[name] = c
		}
	}
	return out
}

func newer(attempt uint32, created int64, thanAttempt uint32, thanCreated int64) bool {
	return cmp.Or(cmp.Compare(attempt, thanAttempt), cmp.Compare(created, thanCreated)) > 0
}

// assemble measures the pods that the engine has and the runtime runs, in the order of namespace
// and name; a pod comes before its successor of the same name.
func (s *Source) assemble(ctx context.Context, found *found, want parts, now time.Time) []pod {
	list := s.options.Engine.Pods()
	known := make(map[string]*v1.Pod, len(list))
	for i := range list {
		known[string(list[i].UID)] = &list[i]
	}
	if want&withDisk != 0 {
		s.disk.begin()
		defer s.disk.end()
	}
	walks, cancel := timing.WithTimeout(ctx, s.options.Clock, s.options.Timeout/4)
	defer cancel()
	out := make([]pod, 0, len(known))
	for uid, m := range group(found, known) {
		p := s.pod(known[uid], m, found, want, now)
		if want&withDisk != 0 {
			s.disk.add(walks, &p, known[uid], s.options.Engine, found, now)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b pod) int {
		x, y := a.stats.PodRef, b.stats.PodRef
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name),
			a.stats.StartTime.Compare(b.stats.StartTime.Time), cmp.Compare(x.UID, y.UID))
	})
	return out
}

// pod measures one pod except for its disk usage.
func (s *Source) pod(spec *v1.Pod, m *members, found *found, want parts, now time.Time) pod {
	uid := string(spec.UID)
	p := pod{
		sandbox: m.sandbox.GetId(), cgroup: podCgroup(s.paths[m.sandbox.GetId()], uid),
		stats: stats.PodStats{
			PodRef:    stats.PodReference{Name: spec.Name, Namespace: spec.Namespace, UID: uid},
			StartTime: metav1.NewTime(time.Unix(0, m.sandbox.GetCreatedAt())),
		},
	}
	var count *uint64 // of processes
	for name, c := range m.containers {
		measured := s.container(c, found.stats[c.GetId()], want, now)
		measured.stats.Name, measured.image = name, imageOf(c)
		var limit resource.Quantity
		if of := specOf(spec, name); of != nil {
			measured.image, limit = of.Image, podinfo.ContainerLimit(spec, of, v1.ResourceMemory)
		}
		available(measured.stats.Memory, limit)
		if p.cgroup == "" {
			p.cgroup = podCgroup(measured.cgroup, uid)
		}
		count = plus(count, measured.details.processes)
		p.containers = append(p.containers, measured)
	}
	slices.SortFunc(p.containers, func(a, b container) int { return cmp.Compare(a.stats.Name, b.stats.Name) })
	s.whole(&p, spec, found.podStats[p.sandbox], count, want, now)
	if want&withNetwork != 0 && !spec.Spec.HostNetwork {
		s.connect(&p, found.podStats[p.sandbox], want, now)
	}
	return p
}

// container measures one container: what the runtime reports, and from its cgroup what the runtime
// does not report.
func (s *Source) container(c *runtimeapi.Container, said *runtimeapi.ContainerStats, want parts, now time.Time) container {
	out := container{id: c.GetId(), cgroup: s.paths[c.GetId()]}
	out.stats.StartTime = metav1.NewTime(time.Unix(0, c.GetCreatedAt()))
	out.stats.CPU, out.stats.Memory = cpuOf(said.GetCpu()), memoryOf(said.GetMemory())
	out.stats.Swap, out.stats.IO = swapOf(said.GetSwap()), ioOf(said.GetIo())
	if out.cgroup != "" {
		need := missing(out.stats.CPU, out.stats.Memory, out.stats.Swap)
		if want&withDisk != 0 {
			need |= processes | pressures
		}
		if want&withDetails != 0 {
			need |= memoryKinds | devices
			out.limits = s.limits(out.id, out.cgroup, now)
			if out.limits.quota != nil && *out.limits.quota > 0 {
				need |= throttling
			}
		}
		if need != 0 {
			out.details = s.cgroups.usage(out.cgroup, need, now)
			fill(&out.stats.CPU, &out.stats.Memory, &out.stats.Swap, &out.details)
		}
		if out.stats.IO == nil && out.details.ioPSI != nil {
			out.stats.IO = &stats.IOStats{Time: metav1.NewTime(now), PSI: out.details.ioPSI}
		}
	}
	s.count(out.stats.CPU, out.id)
	return out
}

// missing returns what the cgroup must provide because the runtime did not report it. Each page asks for all of it, or else what
// one shows would depend on whether it shares a reading with another.
func missing(cpu *stats.CPUStats, memory *stats.MemoryStats, swap *stats.SwapStats) (need facts) {
	if cpu == nil {
		need |= cpuTime
	}
	if memory == nil {
		need |= memoryUse
	}
	if swap == nil {
		need |= swapUse
	}
	return need
}

// limitsAge is how old limits may be: they change rarely, and take many files to read.
const limitsAge = time.Minute

// limits returns the limits of a container.
func (s *Source) limits(id, cgroup string, now time.Time) limits {
	known, ok := s.held[id]
	if age := now.Sub(known.at); !ok || age >= limitsAge || age < 0 {
		known = s.cgroups.limits(cgroup, now)
		s.held[id] = known
	}
	return known
}

// whole measures the pod as a whole: as the runtime reports it, from its cgroup, or as the sum of
// its containers.
func (s *Source) whole(p *pod, spec *v1.Pod, said *runtimeapi.LinuxPodSandboxStats, count *uint64, want parts, now time.Time) {
	p.stats.CPU, p.stats.Memory, p.stats.IO = cpuOf(said.GetCpu()), memoryOf(said.GetMemory()), ioOf(said.GetIo())
	need := missing(p.stats.CPU, p.stats.Memory, nil) // the CRI has no swap of pods
	if want&withDisk != 0 {
		need |= processes | pressures
	}
	if p.cgroup != "" && need != 0 {
		u := s.cgroups.usage(p.cgroup, need, now)
		fill(&p.stats.CPU, &p.stats.Memory, &p.stats.Swap, &u)
		if u.processes != nil {
			count = u.processes
		}
		if p.stats.IO == nil && u.ioPSI != nil {
			p.stats.IO = &stats.IOStats{Time: metav1.NewTime(now), PSI: u.ioPSI}
		}
	}
	if said.GetProcess().GetProcessCount() != nil {
		count = pointer(said.GetProcess().GetProcessCount().GetValue())
	}
	if count != nil {
		p.stats.ProcessStats = &stats.ProcessStats{ProcessCount: count}
	}
	if p.stats.CPU == nil {
		running := make(map[string]*uint64, len(p.containers))
		for i := range p.containers {
			running[p.containers[i].id] = nil
			if cpu := p.containers[i].stats.CPU; cpu != nil {
				running[p.containers[i].id] = cpu.UsageCoreNanoSeconds
			}
		}
		p.stats.CPU = &stats.CPUStats{Time: metav1.NewTime(now), UsageCoreNanoSeconds: pointer(s.past.add(p.stats.PodRef.UID, running))}
	}
	s.count(p.stats.CPU, "pod/"+p.stats.PodRef.UID)
	if p.stats.Memory == nil {
		p.stats.Memory = sumOfMemory(p.containers, now)
	}
	if p.stats.Swap == nil {
		for i := range p.containers {
			if swap := p.containers[i].stats.Swap; swap != nil {
				if p.stats.Swap == nil {
					p.stats.Swap = &stats.SwapStats{Time: swap.Time}
				}
				p.stats.Swap.SwapUsageBytes = plus(p.stats.Swap.SwapUsageBytes, swap.SwapUsageBytes)
			}
		}
	}
	limit := podinfo.LimitWithoutOverhead(spec, v1.ResourceMemory)
	if p.cgroup != "" { // what the overhead is for is in use there, too
		limit = podinfo.Limit(spec, v1.ResourceMemory)
	}
	available(p.stats.Memory, limit)
}

// count keeps a counter from decreasing, and sets its rate. The runtime's rate is used until this source
// has one: containerd 1.6 computes its rate since any client's last request, 0 for the first one.
func (s *Source) count(cpu *stats.CPUStats, key string) {
	if cpu == nil || cpu.UsageCoreNanoSeconds == nil {
		return
	}
	total, rate := s.past.rate(key, cpu.Time.Time, *cpu.UsageCoreNanoSeconds)
	cpu.UsageCoreNanoSeconds = &total
	if rate != nil || cpu.UsageNanoCores != nil && *cpu.UsageNanoCores == 0 {
		cpu.UsageNanoCores = rate
	}
}

// connect measures the traffic of the pod's interfaces.
func (s *Source) connect(p *pod, said *runtimeapi.LinuxPodSandboxStats, want parts, now time.Time) {
	if n := said.GetNetwork(); n.GetDefaultInterface() != nil {
		p.stats.Network = networkOf(n)
		if want&withDetails == 0 {
			return
		}
	}
	cgroups := []string{s.paths[p.sandbox]}
	for i := range p.containers {
		cgroups = append(cgroups, p.containers[i].cgroup)
	}
	for _, cgroup := range cgroups {
		process := s.process(cgroup)
		if process == "" {
			continue
		}
		if p.traffic = parseTraffic(s.machine.read(process + "/net/dev")); len(p.traffic) > 0 && p.stats.Network == nil {
			p.stats.Network = network(p.traffic, podDefault(p.traffic), now)
		}
		return
	}
}

// process returns a process of a cgroup, empty if it has none.
func (s *Source) process(cgroup string) string {
	if cgroup == "" {
		return ""
	}
	text, _ := s.cgroups.read("memory", cgroup, "cgroup.procs")
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if id, err := strconv.ParseUint(string(first), 10, 31); err != nil || id == 0 { // 0: in another PID namespace
		return ""
	}
	return string(first)
}

// imageOf returns the name of a container's image as its user knows it.
func imageOf(c *runtimeapi.Container) string {
	return cmp.Or(c.GetImage().GetUserSpecifiedImage(), c.GetImage().GetImage(), c.GetImageRef())
}

// fill sets from a cgroup what the runtime did not report.
func fill(cpu **stats.CPUStats, memory **stats.MemoryStats, swap **stats.SwapStats, u *usage) {
	at := metav1.NewTime(u.at)
	if *cpu == nil && u.cpu != nil {
		*cpu = &stats.CPUStats{Time: at, UsageCoreNanoSeconds: u.cpu, PSI: u.cpuPSI}
	}
	if *memory == nil && u.workingSet != nil {
		*memory = &stats.MemoryStats{
			Time: at, UsageBytes: u.memory, WorkingSetBytes: u.workingSet, RSSBytes: u.rss,
			PageFaults: u.pageFaults, MajorPageFaults: u.majorPageFaults, PSI: u.memoryPSI,
		}
	}
	if *cpu != nil && (*cpu).PSI == nil {
		(*cpu).PSI = u.cpuPSI
	}
	if *memory != nil && (*memory).PSI == nil {
		(*memory).PSI = u.memoryPSI
	}
	if *swap == nil && u.swap != nil {
		*swap = &stats.SwapStats{Time: at, SwapUsageBytes: u.swap}
	}
}

// available sets what remains below a limit, if there is one.
func available(memory *stats.MemoryStats, limit resource.Quantity) {
	if memory == nil || memory.WorkingSetBytes == nil {
		return
	}
	if limit.Sign() > 0 {
		memory.AvailableBytes = less(pointer(uint64(limit.Value())), *memory.WorkingSetBytes)
	} else if memory.AvailableBytes != nil && *memory.AvailableBytes == 0 {
		memory.AvailableBytes = nil // some runtimes report no limit in this way
	}
}

// specOf returns a container's spec in a pod, nil if there is none, as for an ephemeral container.
func specOf(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c v1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// sumOfMemory adds up what containers use, nil if nothing is known.
func sumOfMemory(list []container, now time.Time) *stats.MemoryStats {
	var out *stats.MemoryStats
	for i := range list {
		m := list[i].stats.Memory
		if m == nil {
			continue
		}
		if out == nil {
			out = &stats.MemoryStats{Time: metav1.NewTime(now)}
		}
		out.UsageBytes, out.WorkingSetBytes = plus(out.UsageBytes, m.UsageBytes), plus(out.WorkingSetBytes, m.WorkingSetBytes)
		out.RSSBytes = plus(out.RSSBytes, m.RSSBytes)
	}
	return out
}

// plus adds what is known; nil if neither is.
func plus(a, b *uint64) *uint64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return pointer(*a + *b)
}
