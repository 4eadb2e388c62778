package podworkers_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/runtime"
)

// Section 14: names, labels and values.
func TestMetricsHaveNamesLabelsAndValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		recorded := map[string]bool{}
		m := &instrumenttest.Meter{OnRecord: func(series string, value float64) {
			mu.Lock()
			defer mu.Unlock()
			recorded[fmt.Sprint(series, " ", value)] = true
		}}
		w := podworkers.New(podworkers.PodSyncerFuncs{
			Sync: func(ctx context.Context, _ podworkers.UpdateType, pod, _ *v1.Pod, _ *runtime.PodStatus) (podworkers.SyncResult, error) {
				switch pod.UID {
				case "panics":
					panic("boom")
				case "hangs":
					return podworkers.SyncResult{}, untilCancelled(ctx)
				}
				pass(time.Second)
				return podworkers.SyncResult{}, nil
			},
		}, podworkers.Options{Meter: m, Rand: func() float64 { return 0 }})
		w.UpdatePod(create(newPod("b")))
		pass(time.Second)
		stop := run(t, w)
		synctest.Wait()
		update := create(newPod("a"))
		update.StartTime = time.Now().Add(-time.Second)
		w.UpdatePod(update)
		synctest.Wait()
		gauges := m.Read(t.Context())
		maps.DeleteFunc(gauges, func(_ string, value float64) bool { return value == 0 })
		want := map[string]float64{"podwright_pod_worker_calls_in_flight{phase=setup}": 2}
		if diff := cmp.Diff(want, gauges); diff != "" {
			t.Errorf("gauges (-want +got):\n%s", diff)
		}
		pass(3 * time.Second)
		w.UpdatePod(create(newPod("panics")))
		w.UpdatePod(create(newPod("hangs")))
		synctest.Wait()
		w.UpdatePod(kill(newPod("hangs"), podworkers.KillOptions{}))
		synctest.Wait()
		mu.Lock()
		for _, line := range []string{
			"kubelet_pod_worker_duration_seconds{operation_type=create} 2",
			"kubelet_pod_worker_start_duration_seconds 0",
			"kubelet_pod_worker_start_duration_seconds 1",
			"kubelet_containers_per_pod_count 1",
			"podwright_pod_worker_backoff_seconds{phase=setup} 1",
			"podwright_pod_worker_state_seconds{state=queued} 0",
		} {
			if !recorded[line] {
				t.Errorf("%q is missing in\n%v", line, recorded)
			}
		}
		mu.Unlock()
		sums := m.Sums()
		if sums["podwright_pod_worker_panics_total{phase=setup}"] != 1 || sums["podwright_pod_worker_cancels_total{cause=terminating}"] != 1 {
			t.Errorf("counters: %v", sums)
		}
		stop()
		if len(m.Read(t.Context())) > 0 {
			t.Error("the gauges are still registered")
		}
	})
}

// The workers run even if the meter refuses a metric.
func TestRefusedMetricsDoNoHarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l log
		w := podworkers.New(logging(&l), podworkers.Options{Meter: &instrumenttest.Meter{Refuse: []string{"kubelet_pod_worker_duration_seconds"}}})
		run(t, w)
		w.UpdatePod(create(newPod("a")))
		expect(t, &l, "setup a create")
	})
}
