package status

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
)

// The instruments exist under their names and count.
func TestStatusMetricsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		otel := &instrumenttest.Meter{}
		m := started(t, Options{Sinks: []StatusSink{NewChannelSink(10)}, Meter: otel})
		pod := newPod(policy(never), apps("a0"), deleted)
		running := withPhase(v1.PodRunning, scene(newPod(), "A T0"))
		set(t, m, pod, running)
		synctest.Wait()
		set(t, m, pod, running) // forced, and the sink has it
		synctest.Wait()
		alive := newPod(uid("alive"))
		set(t, m, alive, message("up"))
		set(t, m, alive, message("up"))
		_ = m.SetPodStatus(pod, *scene(newPod(), "A W"))
		synctest.Wait()
		want := map[string]float64{
			"podwright_status_sends_total{result=stored,sink=channel}":  2,
			"podwright_status_sends_total{result=skipped,sink=channel}": 1,
			"kubelet_pod_status_sync_duration_seconds{sink=channel}":    2,
		}
		if diff := cmp.Diff(want, otel.Take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		want = map[string]float64{}
		for result, n := range map[string]float64{"accepted": 3, "unchanged": 1, "illegal": 1} {
			want["podwright_status_updates_total{result="+result+"}"] = n
		}
		if diff := cmp.Diff(want, otel.Read(t.Context())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
