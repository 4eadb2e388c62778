package stats

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// errRuntime, wrapped in errors of this package, says that the pods could not be measured.
var errRuntime = errors.New("the pods are not known")

// Summary measures the node and its pods as the kubelet's /stats/summary shows them; with
// cpuAndMemory it measures nothing else, which is cheaper. The caller must not change the summary.
func (s *Source) Summary(ctx context.Context, cpuAndMemory bool) (*stats.Summary, error) {
	want := withNetwork | withDisk
	if cpuAndMemory {
		want = 0
	}
	r := s.read(ctx, want)
	if r.err != nil {
		return nil, errors.Join(errRuntime, r.err)
	}
	return summaryOf(r, cpuAndMemory), nil
}

// summaryOf shows a reading, which may have more parts than requested.
func summaryOf(r *reading, cpuAndMemory bool) *stats.Summary {
	out := &stats.Summary{Node: r.node, Pods: make([]stats.PodStats, 0, len(r.pods))}
	if n := &out.Node; cpuAndMemory {
		n.Network, n.Fs, n.Runtime, n.Rlimit, n.IO = nil, nil, nil, nil, nil
	}
	for i := range r.pods {
		p := r.pods[i].stats
		p.Containers = make([]stats.ContainerStats, 0, len(r.pods[i].containers))
		for j := range r.pods[i].containers {
			c := r.pods[i].containers[j].stats
			if cpuAndMemory {
				c.Rootfs, c.Logs, c.IO = nil, nil, nil
			}
			p.Containers = append(p.Containers, c)
		}
		if cpuAndMemory {
			p.Network, p.VolumeStats, p.EphemeralStorage, p.ProcessStats, p.IO = nil, nil, nil, nil, nil
		}
		out.Pods = append(out.Pods, p)
	}
	return out
}

// ServeSummary answers like /stats/summary. With ?only_cpu_and_memory=true the answer has nothing
// else. If the runtime does not answer in time, the answer is 503.
func (s *Source) ServeSummary(w http.ResponseWriter, r *http.Request) {
	only, err := strconv.ParseBool(r.URL.Query().Get("only_cpu_and_memory"))
	if err != nil && r.URL.Query().Has("only_cpu_and_memory") {
		http.Error(w, "only_cpu_and_memory is neither true nor false", http.StatusBadRequest)
		return
	}
	summary, err := s.Summary(r.Context(), only)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	data, err := json.Marshal(summary)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}
