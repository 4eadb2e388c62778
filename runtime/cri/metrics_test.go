package cri

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podwright/podwright/internal/instrument/instrumenttest"
)

// Calls are counted under the kubelet's names, with their durations, including those that fail.
func TestOperationsAreMeasured(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	var seconds []float64
	meter := &instrumenttest.Meter{OnRecord: func(_ string, value float64) { seconds = append(seconds, value) }}
	o, err := newOperations(meter, clock)
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range []error{nil, errors.New("no")} {
		end := o.begin(t.Context(), "RunPodSandbox")
		clock.SetTime(clock.Now().Add(2 * time.Second))
		end(failure)
	}
	want := map[string]float64{
		"kubelet_runtime_operations_total{operation_type=run_podsandbox}":            2,
		"kubelet_runtime_operations_errors_total{operation_type=run_podsandbox}":     1,
		"kubelet_runtime_operations_duration_seconds{operation_type=run_podsandbox}": 2,
	}
	if diff := cmp.Diff(want, meter.Take()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{2, 2}, seconds); diff != "" {
		t.Error(diff)
	}
	for method, want := range map[string]string{
		"ListPodSandbox": "list_podsandbox", "PodSandboxStatus": "podsandbox_status", "ContainerStatus": "container_status", "ExecSync": "exec_sync",
		"ImageFsInfo": "image_fs_info", "UpdateContainerResources": "update_container", "StreamContainers": "list_containers", "Version": "version",
	} {
		if got := operationType(method); got != want {
			t.Errorf("%s: %s, want %s", method, got, want)
		}
	}
	var none *operations
	none.begin(t.Context(), "Version")(nil)
}
