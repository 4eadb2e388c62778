package status

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// A round that holds an end back and has nothing else to send is no send.
func TestHeldBackEndIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		otel := &instrumenttest.Meter{}
		m := started(t, Options{Sinks: []StatusSink{NewChannelSink(10)}, Meter: otel, CouldHaveRunningContainers: func(types.UID) bool { return true }})
		pod := newPod(policy(never), apps("a0"))
		set(t, m, pod, withPhase(v1.PodRunning, scene(newPod(), "A R")))
		synctest.Wait()
		set(t, m, pod, withPhase(v1.PodFailed, scene(newPod(), "A R")))
		advance(t, time.Minute)
		want := map[string]float64{
			"podwright_status_sends_total{result=stored,sink=channel}": 1,
			"kubelet_pod_status_sync_duration_seconds{sink=channel}":   1,
		}
		if diff := cmp.Diff(want, otel.Take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A pod that begins to run is measured once, from its first status; a pod that an earlier agent
// started, or one that ends without having run, is not.
func TestPodStartIsMeasuredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seconds := []float64{}
		otel := &instrumenttest.Meter{OnRecord: func(series string, value float64) {
			if series == "kubelet_pod_start_duration_seconds" {
				seconds = append(seconds, value)
			}
		}}
		m := started(t, Options{Meter: otel})
		phases := func(pod *v1.Pod, of ...v1.PodPhase) {
			for _, phase := range of {
				set(t, m, pod, &v1.PodStatus{Phase: phase})
				<-time.After(1500 * time.Millisecond)
			}
		}
		phases(newPod(uid("new"), apps("a")), v1.PodPending, v1.PodPending, v1.PodRunning, v1.PodPending, v1.PodRunning)
		earlier := newPod(uid("earlier"), apps("a"))
		earlier.Status.StartTime = &metav1.Time{Time: time.Now()}
		phases(earlier, v1.PodPending, v1.PodRunning)
		phases(newPod(uid("short"), apps("a"), policy(never)), v1.PodPending, v1.PodFailed)
		synctest.Wait()
		if diff := cmp.Diff([]float64{3}, seconds); diff != "" {
			t.Error(diff)
		}
	})
}
