package cleanup

import (
	"context"

	"go.opentelemetry.io/otel/metric"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/instrument"
	"github.com/podwright/podwright/internal/podinfo"
)

// metrics are the instruments of sections 3, 4 and 9.
type metrics struct {
	desired     metric.Int64Gauge
	active      metric.Int64Gauge
	mirrors     metric.Int64Gauge
	working     metric.Int64Gauge
	folders     metric.Int64Gauge
	folderFails metric.Int64Gauge
	restarts    metric.Int64Counter
	killed      metric.Int64Counter

	// labels of the gauges that each pass writes, made only once because a pass comes every 2 s.
	byStatic map[string]metric.MeasurementOption
	byWorker map[series]metric.MeasurementOption
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	set, byStatic := instrument.New(meter), instrument.By("static", "", "true")
	m := &metrics{
		desired: set.Gauge("kubelet_desired_pods", "Pods the sources want, by static.", byStatic),
		active:  set.Gauge("kubelet_active_pods", "Desired pods that have not ended, by static.", byStatic),
		mirrors: set.Gauge("kubelet_mirror_pods", "Mirror pods."),
		working: set.Gauge("kubelet_working_pods", "Pods the workers know, by lifecycle, config and static.",
			instrument.By("lifecycle", "sync", "terminating", "terminated"), instrument.By("config", "desired", "orphan", "runtime_only"),
			instrument.By("static", "", "true", "unknown")),
		folders:     set.Gauge("kubelet_orphan_pod_cleaned_volumes", "Pod folders that were to be removed in the last pass."),
		folderFails: set.Gauge("kubelet_orphan_pod_cleaned_volumes_errors", "Pod folders that could not be removed."),
		restarts:    set.Counter("kubelet_restarted_pods_total", "Pods that came back under the same UID, by static.", byStatic),
		killed:      set.Counter("kubelet_orphaned_runtime_pods_total", "Pods that ran although neither a source nor a worker knew them."),
	}
	m.byStatic, m.byWorker = map[string]metric.MeasurementOption{}, map[series]metric.MeasurementOption{}
	for _, s := range []string{"", "true"} {
		m.byStatic[s] = instrument.Labels("static", s)
	}
	for _, s := range workingSeries() {
		m.byWorker[s] = instrument.Labels("lifecycle", s.lifecycle, "config", s.config, "static", s.static)
	}
	return m, set.Err()
}

func static(is bool) string {
	if is {
		return "true"
	}
	return ""
}

// pass writes the gauges of steps 11 and 15.
func (m *metrics) pass(ctx context.Context, in *input, plan Plan, mirrors []*v1.Pod) {
	desired, active := map[string]int64{}, map[string]int64{}
	for _, pod := range in.Desired {
		desired[static(podinfo.Static(pod))]++
		if plan.Active[pod.UID] {
			active[static(podinfo.Static(pod))]++
		}
	}
	for s, with := range m.byStatic {
		m.desired.Record(ctx, desired[s], with)
		m.active.Record(ctx, active[s], with)
	}
	m.mirrors.Record(ctx, int64(len(mirrors)))

	counts := workingPods(in.Workers)
	for s, with := range m.byWorker {
		m.working.Record(ctx, counts[s], with)
	}
}

// series is one line of the gauge of section 9.
type series struct{ lifecycle, config, static string }

// workingSeries returns all 15 lines; every pass writes each of them, including zeros.
func workingSeries() []series {
	var all []series
	for _, lifecycle := range []string{"sync", "terminating", "terminated"} {
		for _, s := range []string{"", "true"} {
			all = append(all, series{lifecycle, "desired", s}, series{lifecycle, "orphan", s})
		}
		all = append(all, series{lifecycle, "runtime_only", "unknown"})
	}
	return all
}

// workingPods counts the workers by line. A worker without a full pod counts as runtime_only, even
// if its UID is desired (the FIX of section 9).
func workingPods(workers map[types.UID]Worker) map[series]int64 {
	counts := map[series]int64{}
	for _, w := range workers {
		s := series{lifecycle: w.State.String(), config: "desired", static: static(w.Static)}
		switch {
		case !w.HasConfig:
			s.config, s.static = "runtime_only", "unknown"
		case w.Orphan:
			s.config = "orphan"
		}
		counts[s]++
	}
	return counts
}

// directories writes the gauges of OD8.
func (m *metrics) directories(ctx context.Context, plan Plan, failures map[candidate]*failure) {
	var candidates, failed int64
	for _, a := range plan.Actions {
		if a.Step != StepDirectories {
			continue
		}
		if _, f := failures[candidate{a.Step, a.PodUID}]; f {
			failed++
			candidates++
		} else if a.Allowed() {
			candidates++
		}
	}
	m.folders.Record(ctx, candidates)
	m.folderFails.Record(ctx, failed)
}
