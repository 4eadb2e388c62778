package main

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodStates: one series per phase, condition and container, and none of a pod that is gone.
func TestPodStates(t *testing.T) {
	waiting := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	pods := []v1.Pod{
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"},
			Status: v1.PodStatus{
				Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}},
				ContainerStatuses: []v1.ContainerStatus{{Name: "a", RestartCount: 3, State: waiting}, {Name: "b"}},
			},
		},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new", UID: "u2"}, Status: v1.PodStatus{Phase: v1.PodPending}},
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newPodStates(func() []v1.Pod { return pods }))
	want := map[string]float64{
		`kube_pod_status_phase{namespace="shop",phase="Running",pod="web",uid="u1"}`:                                            1,
		`kube_pod_status_ready{condition="false",namespace="shop",pod="web",uid="u1"}`:                                          1,
		`kube_pod_container_status_restarts_total{container="a",namespace="shop",pod="web",uid="u1"}`:                           3,
		`kube_pod_container_status_waiting_reason{container="a",namespace="shop",pod="web",reason="CrashLoopBackOff",uid="u1"}`: 1,
		`kube_pod_status_phase{namespace="shop",phase="Pending",pod="new",uid="u2"}`:                                            1,
		`kube_pod_status_ready{condition="unknown",namespace="shop",pod="new",uid="u2"}`:                                        1,
	}
	zeros, got := 0, map[string]float64{}
	for series, value := range gathered(t, registry) {
		if value == 0 {
			zeros++
			continue
		}
		got[series] = value
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if zeros != 2*6+1 {
		t.Errorf("%d series are 0; want 4 phases and 2 conditions of each pod, and the restarts of b", zeros)
	}
	pods = nil
	if left := gathered(t, registry); len(left) > 0 {
		t.Errorf("series of no pod: %v", left)
	}
}

// gathered is what a registry shows, by series in the order of their labels.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += "," + l.GetName() + `="` + l.GetValue() + `"`
			}
			all[f.GetName()+"{"+labels[1:]+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}
