package main

import (
	"context"
	"errors"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
)

// statsOf measures what it is told to, of one pod.
type statsOf struct {
	cri.StatsLister
	uid   string
	stats []*runtimeapi.ContainerStats
}

func (s statsOf) ListContainerStats(_ context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	if filter.GetLabelSelector()[runtime.LabelPodUID] != s.uid {
		return nil, errors.New("all pods are measured")
	}
	return s.stats, nil
}

// TestUsage: only the pod that is looked at is measured; a container without figures is left out.
func TestUsage(t *testing.T) {
	stats := func(name string, cpu *runtimeapi.CpuUsage, memory uint64) *runtimeapi.ContainerStats {
		return &runtimeapi.ContainerStats{
			Attributes: &runtimeapi.ContainerAttributes{Metadata: &runtimeapi.ContainerMetadata{Name: name}},
			Cpu:        cpu, Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: memory}},
		}
	}
	used := func(at int64, ns uint64) *runtimeapi.CpuUsage {
		return &runtimeapi.CpuUsage{Timestamp: at, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: ns}}
	}
	lister := statsOf{uid: "u", stats: []*runtimeapi.ContainerStats{
		stats("b", used(5, 7), 1<<20), stats("ending", nil, 0), nil, stats("a", used(6, 8), 2<<20),
	}}
	got, err := usageOf(t.Context(), lister, "u")
	want := []containerUsage{{"a", time.Unix(0, 6).UTC(), 8, 2 << 20}, {"b", time.Unix(0, 5).UTC(), 7, 1 << 20}}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := usageOf(t.Context(), lister, "other"); err == nil {
		t.Error("an error of the runtime is lost")
	}
}
