package main

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// usageTimeout bounds one measurement.
const usageTimeout = 5 * time.Second

// containerUsage is what a running container has used until At. The page computes rates from two of them.
type containerUsage struct {
	Name   string    `json:"name"`
	At     time.Time `json:"at"`
	CPU    uint64    `json:"cpu"`    // ns of all cores, since its start
	Memory uint64    `json:"memory"` // bytes, the working set
}

// usage answers with what the containers of a pod use. It is measured only while a page asks, and
// kept only by the page.
func (p *webPage) usage(w http.ResponseWriter, r *http.Request) {
	pod, err := p.named(r)
	if err != nil {
		p.failure(w, err)
		return
	}
	lister, ok := p.runtime.(cri.StatsLister)
	if !ok {
		p.failure(w, refusal{http.StatusNotImplemented, "this runtime measures nothing"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), usageTimeout)
	defer cancel()
	all, err := usageOf(ctx, lister, pod.UID)
	if err != nil {
		p.failure(w, err)
		return
	}
	p.write(w, http.StatusOK, all)
}

// usageOf measures a pod's containers, in order of their names.
func usageOf(ctx context.Context, lister cri.StatsLister, uid types.UID) ([]containerUsage, error) {
	stats, err := lister.ListContainerStats(ctx, &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{runtime.LabelPodUID: string(uid)}})
	if err != nil {
		return nil, err
	}
	out := []containerUsage{} // an empty list, not null
	for _, s := range stats {
		name, cpu := s.GetAttributes().GetMetadata().GetName(), s.GetCpu()
		if name == "" || cpu.GetUsageCoreNanoSeconds() == nil { // it is about to end
			continue
		}
		out = append(out, containerUsage{
			Name: name, At: time.Unix(0, cpu.GetTimestamp()).UTC(), CPU: cpu.GetUsageCoreNanoSeconds().GetValue(),
			Memory: s.GetMemory().GetWorkingSetBytes().GetValue(),
		})
	}
	slices.SortFunc(out, func(a, b containerUsage) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
