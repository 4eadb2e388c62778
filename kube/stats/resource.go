package stats

import (
	"net/http"
	"time"
)

// ServeResource answers like the kubelet's /metrics/resource, which metrics-server reads. Samples
// carry the time of their measurement. If the runtime does not answer in time, the page shows only
// the node, and resource_scrape_error is 1.
func (s *Source) ServeResource(w http.ResponseWriter, r *http.Request) {
	resourcePage(s.read(r.Context(), 0)).serve(w, r)
}

// resourcePage shows a reading. A running container has its start time even if it could not be
// measured: metrics-server then skips the pod as incomplete, which is better than a pod that seems
// to need less than it does.
func resourcePage(r *reading) *page {
	var p page
	none := time.Time{}
	nodeCPU := p.counter("node_cpu_usage_seconds_total", "CPU time that the node has used, in seconds.")
	nodeMemory := p.gauge("node_memory_working_set_bytes", "Working set of the node in bytes.")
	nodeSwap := p.gauge("node_swap_usage_bytes", "Swap that the node uses, in bytes.")
	if c := r.node.CPU; c != nil {
		nodeCPU.seconds(nil, c.UsageCoreNanoSeconds, c.Time.Time)
	}
	if m := r.node.Memory; m != nil {
		nodeMemory.number(nil, m.WorkingSetBytes, m.Time.Time)
	}
	if sw := r.node.Swap; sw != nil {
		nodeSwap.number(nil, sw.SwapUsageBytes, sw.Time.Time)
	}
	start := p.gauge("container_start_time_seconds", "When the container was started, in seconds since 1970.")
	cpu := p.counter("container_cpu_usage_seconds_total", "CPU time that the container has used, in seconds.")
	memory := p.gauge("container_memory_working_set_bytes", "Working set of the container in bytes.")
	swap := p.gauge("container_swap_usage_bytes", "Swap that the container uses, in bytes.")
	podCPU := p.counter("pod_cpu_usage_seconds_total", "CPU time that the pod has used, in seconds.")
	podMemory := p.gauge("pod_memory_working_set_bytes", "Working set of the pod in bytes.")
	podSwap := p.gauge("pod_swap_usage_bytes", "Swap that the pod uses, in bytes.")
	for i := range r.pods {
		if replaced(r.pods, i) {
			continue
		}
		pod := &r.pods[i].stats
		whole := label("namespace", pod.PodRef.Namespace, "pod", pod.PodRef.Name)
		for j := range r.pods[i].containers {
			c := &r.pods[i].containers[j].stats
			one := whole.with("container", c.Name)
			start.add(one, seconds(c.StartTime.Time), none)
			if c.CPU != nil {
				cpu.seconds(one, c.CPU.UsageCoreNanoSeconds, c.CPU.Time.Time)
			}
			if c.Memory != nil {
				memory.number(one, c.Memory.WorkingSetBytes, c.Memory.Time.Time)
			}
			if c.Swap != nil {
				swap.number(one, c.Swap.SwapUsageBytes, c.Swap.Time.Time)
			}
		}
		if pod.CPU != nil {
			podCPU.seconds(whole, pod.CPU.UsageCoreNanoSeconds, pod.CPU.Time.Time)
		}
		if pod.Memory != nil {
			podMemory.number(whole, pod.Memory.WorkingSetBytes, pod.Memory.Time.Time)
		}
		if pod.Swap != nil {
			podSwap.number(whole, pod.Swap.SwapUsageBytes, pod.Swap.Time.Time)
		}
	}
	p.gauge("resource_scrape_error", "1 if the pods could not be measured, otherwise 0.").add(nil, failed(r.err), none)
	p.gauge("scrape_error", "The same under its former name.").add(nil, failed(r.err), none)
	return &p
}

// replaced reports whether a newer pod of the same name, which is the next one, runs beside pod i. Both would have the same
// series, and a scraper may reject a page that has one twice.
func replaced(pods []pod, i int) bool {
	if i+1 == len(pods) {
		return false
	}
	this, next := pods[i].stats.PodRef, pods[i+1].stats.PodRef
	return this.Name == next.Name && this.Namespace == next.Namespace
}

// seconds is a time as metrics represent it.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
