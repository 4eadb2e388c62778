package stats

import (
	"net/http"
	"time"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// ServeContainers answers like the kubelet's /metrics/cadvisor, with the series that dashboards
// use. If the runtime does not answer in time, the page shows only the node, and
// container_scrape_error is 1.
func (s *Source) ServeContainers(w http.ResponseWriter, r *http.Request) {
	containersPage(s.read(r.Context(), withNetwork|withDetails)).serve(w, r)
}

// containersPage shows a reading under cAdvisor's names. The id "/" is the node as a whole.
func containersPage(r *reading) *page {
	var p page
	now := time.Time{} // zero: samples carry no time, so the scraper's counts
	if r.capacity.cores > 0 {
		p.gauge("machine_cpu_cores", "Number of logical CPUs.").add(nil, float64(r.capacity.cores), now)
	}
	if r.capacity.memory > 0 {
		p.gauge("machine_memory_bytes", "Memory of the machine in bytes.").add(nil, float64(r.capacity.memory), now)
	}
	p.gauge("container_scrape_error", "1 if the pods could not be measured, otherwise 0.").add(nil, failed(r.err), now)
	all := newBasics(&p)
	wires := newWires(&p)
	details := newDetails(&p, r.devices)
	root := labelsOf("", "/", "", "", "", "")
	all.add(root, r.node.CPU, r.node.Memory, r.node.Swap)
	for _, t := range r.capacity.traffic {
		wires.add(root.with("interface", t.name), t)
	}
	for i := range r.pods {
		pod := &r.pods[i]
		ref := pod.stats.PodRef
		whole := labelsOf("", idLabel(pod.cgroup, pod.sandbox), "", pod.sandbox, ref.Namespace, ref.Name)
		for _, t := range pod.traffic {
			wires.add(whole.with("interface", t.name), t)
		}
		if pod.cgroup != "" {
			all.add(labelsOf("", idLabel(pod.cgroup, ""), "", "", ref.Namespace, ref.Name), pod.stats.CPU, pod.stats.Memory, pod.stats.Swap)
		}
		for j := range pod.containers {
			c := &pod.containers[j]
			one := labelsOf(c.stats.Name, idLabel(c.cgroup, c.id), c.image, c.id, ref.Namespace, ref.Name)
			all.add(one, c.stats.CPU, c.stats.Memory, c.stats.Swap)
			details.add(one, c)
		}
	}
	return &p
}

// labelsOf returns the labels that cAdvisor has in a kubelet.
func labelsOf(container, id, image, name, namespace, pod string) labels {
	return label("container", container, "id", id, "image", image, "name", name, "namespace", namespace, "pod", pod)
}

// idLabel is the path of a cgroup, or the ID of an object without one.
func idLabel(cgroup, id string) string {
	if cgroup != "" {
		return "/" + cgroup
	}
	return "/" + id
}

// basics are the metrics that every object has.
type basics struct{ cpu, used, workingSet, rss, swap family }

func newBasics(p *page) basics {
	return basics{
		cpu:        p.counter("container_cpu_usage_seconds_total", "CPU time that was used, in seconds."),
		used:       p.gauge("container_memory_usage_bytes", "Memory in use in bytes, with caches."),
		workingSet: p.gauge("container_memory_working_set_bytes", "Memory in use in bytes, without what can be dropped."),
		rss:        p.gauge("container_memory_rss", "Anonymous memory in bytes."),
		swap:       p.gauge("container_memory_swap", "Swap in use in bytes."),
	}
}

func (b basics) add(l labels, cpu *stats.CPUStats, memory *stats.MemoryStats, swap *stats.SwapStats) {
	now := time.Time{}
	if cpu != nil {
		b.cpu.seconds(l.with("cpu", "total"), cpu.UsageCoreNanoSeconds, now)
	}
	if memory != nil {
		b.used.number(l, memory.UsageBytes, now)
		b.workingSet.number(l, memory.WorkingSetBytes, now)
		b.rss.number(l, memory.RSSBytes, now)
	}
	if swap != nil {
		b.swap.number(l, swap.SwapUsageBytes, now)
	}
}

// wires are the metrics of network interfaces.
type wires struct {
	received, receivedPackets, receiveErrors, rxDrop family
	sent, sentPackets, sendErrors, txDrop            family
}

func newWires(p *page) wires {
	return wires{
		received:        p.counter("container_network_receive_bytes_total", "Bytes received."),
		receivedPackets: p.counter("container_network_receive_packets_total", "Packets received."),
		receiveErrors:   p.counter("container_network_receive_errors_total", "Errors while receiving."),
		rxDrop:          p.counter("container_network_receive_packets_dropped_total", "Packets dropped while receiving."),
		sent:            p.counter("container_network_transmit_bytes_total", "Bytes sent."),
		sentPackets:     p.counter("container_network_transmit_packets_total", "Packets sent."),
		sendErrors:      p.counter("container_network_transmit_errors_total", "Errors while sending."),
		txDrop:          p.counter("container_network_transmit_packets_dropped_total", "Packets dropped while sending."),
	}
}

func (w wires) add(l labels, t traffic) {
	now := time.Time{}
	w.received.add(l, float64(t.received), now)
	w.receivedPackets.add(l, float64(t.receivedPackets), now)
	w.receiveErrors.add(l, float64(t.receiveErrors), now)
	w.rxDrop.add(l, float64(t.rxDrop), now)
	w.sent.add(l, float64(t.sent), now)
	w.sentPackets.add(l, float64(t.sentPackets), now)
	w.sendErrors.add(l, float64(t.sendErrors), now)
	w.txDrop.add(l, float64(t.txDrop), now)
}

// details are the metrics that only containers have.
type details struct {
	devices                                map[string]string
	start, cache                           family
	periods, throttled, throttledFor       family
	quota, period, shares, memoryLimit     family
	reads, readBytes, writes, writtenBytes family
}

func newDetails(p *page, devices map[string]string) details {
	return details{
		devices:      devices,
		start:        p.gauge("container_start_time_seconds", "When the container was started, in seconds since 1970."),
		cache:        p.gauge("container_memory_cache", "Page cache in bytes."),
		periods:      p.counter("container_cpu_cfs_periods_total", "Periods in which the CPU quota was enforced."),
		throttled:    p.counter("container_cpu_cfs_throttled_periods_total", "Periods in which the container had to wait for its CPU quota."),
		throttledFor: p.counter("container_cpu_cfs_throttled_seconds_total", "Time that the container had to wait for its CPU quota, in seconds."),
		quota:        p.gauge("container_spec_cpu_quota", "CPU quota per period in microseconds."),
		period:       p.gauge("container_spec_cpu_period", "Period of the CPU quota in microseconds."),
		shares:       p.gauge("container_spec_cpu_shares", "Weight among those that want CPU."),
		memoryLimit:  p.gauge("container_spec_memory_limit_bytes", "Limit of memory in bytes, 0 if there is none."),
		reads:        p.counter("container_fs_reads_total", "Reads from block devices."),
		readBytes:    p.counter("container_fs_reads_bytes_total", "Bytes read from block devices."),
		writes:       p.counter("container_fs_writes_total", "Writes to block devices."),
		writtenBytes: p.counter("container_fs_writes_bytes_total", "Bytes written to block devices."),
	}
}

func (d details) add(l labels, c *container) {
	now := time.Time{}
	u := &c.details
	d.start.add(l, seconds(c.stats.StartTime.Time), now)
	d.cache.number(l, u.cache, now)
	held := &c.limits
	d.shares.number(l, held.shares, now)
	d.memoryLimit.number(l, held.memory, now)
	if held.period != nil {
		d.period.add(l, float64(*held.period), now)
	}
	if held.quota != nil && *held.quota > 0 {
		d.quota.add(l, float64(*held.quota), now)
		d.periods.number(l, u.periods, now)
		d.throttled.number(l, u.throttled, now)
		d.throttledFor.seconds(l, u.throttledFor, now)
	}
	for _, io := range u.io {
		name := d.devices[io.number]
		if name == "" {
			name = io.number
		}
		one := l.with("device", name)
		d.reads.add(one, float64(io.reads), now)
		d.readBytes.add(one, float64(io.readBytes), now)
		d.writes.add(one, float64(io.writes), now)
		d.writtenBytes.add(one, float64(io.writtenBytes), now)
	}
}
