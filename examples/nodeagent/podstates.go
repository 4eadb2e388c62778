package main

import (
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
)

// podStates exports the pods of an engine as kube-state-metrics would, which needs an API server. The pods
// are read at each scrape, so a pod's series disappear with it; a pod has 8 series, a container 1 or 2.
type podStates struct {
	pods                             func() []v1.Pod
	phase, ready, restarts, awaiting *prometheus.Desc
}

func newPodStates(pods func() []v1.Pod) *podStates {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"namespace", "pod", "uid"}, more...), nil)
	}
	return &podStates{
		pods:     pods,
		phase:    desc("kube_pod_status_phase", "1 for the phase that a pod is in, 0 for the others.", "phase"),
		ready:    desc("kube_pod_status_ready", "1 for what a pod's condition Ready is, 0 for the others.", "condition"),
		restarts: desc("kube_pod_container_status_restarts_total", "How often a container was started again.", "container"),
		awaiting: desc("kube_pod_container_status_waiting_reason", "1 while a container waits, by its reason.", "container", "reason"),
	}
}

// Describe implements [prometheus.Collector].
func (s *podStates) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.phase, s.ready, s.restarts, s.awaiting} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *podStates) Collect(out chan<- prometheus.Metric) {
	for _, pod := range s.pods() {
		names := []string{pod.Namespace, pod.Name, string(pod.UID)}
		show := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, more ...string) {
			m, err := prometheus.NewConstMetric(d, kind, value, append(names[:3:3], more...)...)
			if err != nil {
				m = prometheus.NewInvalidMetric(d, err)
			}
			out <- m
		}
		for _, phase := range []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed, v1.PodUnknown} {
			show(s.phase, prometheus.GaugeValue, one(pod.Status.Phase == phase), string(phase))
		}
		ready := readiness(&pod)
		for _, condition := range []string{"true", "false", "unknown"} {
			show(s.ready, prometheus.GaugeValue, one(ready == condition), condition)
		}
		for _, c := range pod.Status.ContainerStatuses {
			show(s.restarts, prometheus.CounterValue, float64(c.RestartCount), c.Name)
			if c.State.Waiting != nil && c.State.Waiting.Reason != "" {
				show(s.awaiting, prometheus.GaugeValue, 1, c.Name, c.State.Waiting.Reason)
			}
		}
	}
}

// readiness returns the condition Ready as kube-state-metrics spells it.
func readiness(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			switch c.Status {
			case v1.ConditionTrue:
				return "true"
			case v1.ConditionFalse:
				return "false"
			}
		}
	}
	return "unknown"
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
